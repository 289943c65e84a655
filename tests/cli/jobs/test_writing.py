"""The text that is shown while it is written: on a terminal only, as harmless text, and withdrawn in time."""

import threading
from collections.abc import Callable

import pytest
from rich.console import Console

from redraft.cli import output
from redraft.cli.views.live import View, Writing
from redraft.messages import Delta
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.jobs.resources import Event
from redraft.operations.services import Services
from redraft.queue import delta_channel
from tests.cli.jobs.test_terminals import EVIL, plain
from tests.model_server.server import ModelServer
from tests.support.shells import Shell
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until


def shown(writing: Writing, *, width: int = 40, height: int = 10) -> str:
    console = Console(width=width, height=height, markup=False, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(writing)
    return capture.get()


def written(*deltas: Delta) -> Writing:
    writing = Writing()
    for each in deltas:
        writing.add(each)
    return writing


def test_pieces_are_joined_and_gaps_are_shown() -> None:
    assert shown(written(Delta(1, 1, 1, 0, "Blue "), Delta(1, 1, 1, 5, "light."))) == "Blue light.\n"
    assert shown(written(Delta(1, 1, 1, 0, "Blue "), Delta(1, 1, 1, 9, "t."))) == "Blue …t.\n"
    assert shown(written(Delta(1, 1, 1, 7, "late"))) == "…late\n"


def test_a_new_attempt_or_iteration_withdraws_the_text_and_the_old_one_is_not_heard_any_more() -> None:
    first = Delta(1, 1, 1, 0, "cut")
    assert shown(written(first, Delta(1, 1, 2, 0, "whole"), Delta(1, 1, 1, 3, "?"))) == "whole\n"
    assert shown(written(first, Delta(1, 1, 1, 0, "anew"))) == "anew\n"
    assert shown(written(first, Delta(2, 1, 1, 0, "better"), Delta(1, 1, 1, 3, "?"))) == "better\n"


@pytest.mark.parametrize("kind", ["step.retrying", "iteration.generated", "iteration.started", "done"])
def test_what_an_event_replaces_is_withdrawn(kind: str) -> None:
    writing = written(Delta(1, 1, 1, 0, "text"))
    writing.update(Event(seq=1, type="thinking", data={}))
    assert shown(writing) == "text\n"
    writing.update(Event(seq=2, type=kind, data={"iteration": 1, "attempt": 1}))
    assert shown(writing).strip() == ""


def test_a_retry_that_is_told_late_withdraws_nothing_of_a_later_attempt() -> None:
    writing = written(Delta(1, 1, 1, 0, "cut"), Delta(1, 1, 2, 0, "whole"))
    writing.update(Event(seq=1, type="step.retrying", data={"iteration": 1, "attempt": 1}))
    assert shown(writing) == "whole\n"


def test_after_the_answer_no_piece_of_it_is_shown() -> None:
    writing = Writing()
    writing.update(Event(seq=1, type="iteration.generated", data={"iteration": 1}))
    writing.add(Delta(1, 1, 1, 0, "late"))
    assert shown(writing).strip() == ""


def test_the_end_of_a_long_text_fits_the_screen() -> None:
    lines = shown(written(Delta(1, 1, 1, 0, "word " * 10_000 + "end.")), width=30, height=10).splitlines()
    assert len(lines) == 7
    assert max(map(len, lines)) <= 30
    assert lines[-1].endswith("end.")


def test_candidates_share_the_screen() -> None:
    writing = written(Delta(1, 2, 1, 0, "two"), Delta(1, 1, 1, 0, "one"))
    assert shown(writing) == "candidate 1: one\ncandidate 2: two\n"


def test_hostile_text_stays_text() -> None:
    screen = shown(written(Delta(1, 1, 1, 0, EVIL + "\x1b]0;owned\x07")), width=200)
    assert "[bold]loud[/bold]" in screen
    assert not {"\x1b", "\x07", "\u202e", "\u2066", "\x9b"} & set(screen)


def test_plain_lines_hear_no_text() -> None:
    assert View(output.stdout(), 0.8).on_delta is None


@pytest.mark.parametrize("is_terminal", [True, False])
def test_whoever_watches_on_a_terminal_sees_the_text(
    shell: Shell,
    home: Services,
    model_server: ModelServer,
    valkey: ValkeyServer,
    add_job: Callable[..., str],
    is_terminal,
) -> None:
    model_server.script(latency_s=30)  # whoever takes the job up does not end it
    job_id = add_job(stream=True)

    def write() -> None:
        if is_terminal:
            wait_until(lambda: valkey.listeners(delta_channel(job_id)))
        for offset in range(0, 60, 6):
            home.queue.publish_delta(job_id, Delta(1, 1, 1, offset, f"\x1b[2J{offset:02}"))
            threading.Event().wait(0.05)
        lifecycle.cancel(home, job_id)

    writer = threading.Thread(target=write)
    writer.start()
    if is_terminal:
        _, screen = shell.on_terminal("jobs", "watch", job_id)
        assert "\\x1b[2J00" in plain(screen)
        assert "\x1b[2J" not in screen
        assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h"), "the cursor is back"
    else:
        done = shell.run("jobs", "watch", job_id)
        assert "[2J" not in done.out + done.err
    writer.join()
    assert queries.get_job(home, job_id).status == "canceled"


def test_ask_asks_for_the_text(shell: Shell) -> None:
    for option in (["--stream"], []):
        job_id = shell.run("ask", "Hi", "--crit", "Short.", "--detach", *option).out.strip()
        request = shell.run("jobs", "show", job_id, "--json").data["request"]
        assert request["stream"] is bool(option)
