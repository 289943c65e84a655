"""What reaches a person's screen: progress, tables that fit, and nothing that acts on the terminal."""

import json
import re
from collections.abc import Callable

import pytest

from redraft.cli import output
from redraft.operations.services import Services
from tests.model_server.server import ModelServer
from tests.support.shells import Shell, drain

_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
EVIL = "[bold]loud[/bold] \u202egnp.exe\u2066 \x9b2J end"


def plain(screen: str) -> str:
    return _STYLES.sub("", screen).replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\x1b[2Jb\x00", "a\\x1b[2Jb\\x00"),
        ("\u202eabc\u2069\u2028", "\\u202eabc\\u2069\\u2028"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("one\r\ntwo\rthree", "one\ntwo\\x0dthree"),
        ("\ud800", "\\ud800"),
        ("tab\tand ünïcödé 日本語 👩‍👩‍👧 stay\n", "tab\tand ünïcödé 日本語 👩‍👩‍👧 stay\n"),
    ],
)
def test_control_characters_and_bidi_overrides_become_visible(text: str, shown: str) -> None:
    assert output.reveal(text) == shown


def test_a_terminal_gets_a_hostile_answer_as_harmless_text(
    shell: Shell, home: Services, model_server: ModelServer, add_job: Callable[..., str]
) -> None:
    verdict = {"evaluation_reasoning": EVIL, "meets_criteria": True, "score": 0.9, "improvement_suggestions": [EVIL]}
    model_server.script(generate=[EVIL], evaluate=[verdict])
    add_job(EVIL)
    drain(home)
    for command in (["jobs", "watch"], ["jobs", "show"], ["jobs", "list"], ["jobs", "show", "--json"]):
        code, screen = shell.on_terminal(*command, width=200)
        assert code == 0
        assert "[bold]loud[/bold]" in screen
        for acting in ("\u202e", "\u2066", "\x9b"):
            assert acting not in screen
        assert "\x1b[2J" not in screen
    assert "\u202e" in shell.run("jobs", "watch").out, "a program gets the answer as it is"


def test_json_stays_json_with_a_hostile_answer(
    shell: Shell, model_server: ModelServer, add_job: Callable[..., str]
) -> None:
    model_server.script(generate=[EVIL])
    add_job(is_done=True)
    done = shell.run("jobs", "show", "--json")
    assert "\u202e" in done.data["result"]["final_answer"]
    assert "\u202e" not in done.out


def test_on_a_terminal_the_iterations_are_shown_in_colour_under_a_spinner(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["one", "Done."], evaluate=[0.4, 0.9], latency_s=0.3)
    code, screen = office.on_terminal("ask", "Write it.", "--crit", "Short.")
    assert code == 0
    assert "\x1b[1;33m  score 0.40" in screen
    assert "\x1b[1;32m  score 0.90" in screen
    assert re.search(r"iteration 1: (generating|evaluating) … \d", plain(screen))
    assert plain(screen).rstrip().endswith("Done.")
    assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h"), "the cursor is back"


def test_no_color_is_respected(shell: Shell, add_job: Callable[..., str]) -> None:
    add_job(is_done=True)
    _, coloured = shell.on_terminal("jobs")
    _, screen = shell.on_terminal("jobs", NO_COLOR="1")
    assert "\x1b[32m" in coloured
    assert "\x1b[32m" not in screen


def test_a_long_value_takes_no_room_from_the_other_columns(shell: Shell) -> None:
    endpoints = json.dumps({"e1": {"format": "openai", "base_url": "http://127.0.0.1:1/" + "v" * 200}})
    _, screen = shell.on_terminal("doctor", width=80, REDRAFT_ENDPOINTS=endpoints)
    (line,) = [each for each in plain(screen).splitlines() if "REDRAFT_ENDPOINTS.e1" in each]
    assert re.search(r"environment +\{.*…", line)


def test_a_dumb_terminal_gets_plain_lines(shell: Shell, add_job: Callable[..., str]) -> None:
    add_job(is_done=True)
    _, screen = shell.on_terminal("jobs", "watch", TERM="dumb")
    assert "\x1b" not in screen
    assert "score 0.90" in screen


@pytest.mark.parametrize("width", [40, 60, 100])
def test_tables_fit_the_terminal_and_keep_what_matters(shell: Shell, add_job: Callable[..., str], width: int) -> None:
    ids = [add_job("A long task. " * 20) for _ in range(2)]
    _, screen = shell.on_terminal("jobs", width=width)
    lines = plain(screen).splitlines()
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if "queued" in line]
    shown = [line.split()[0] for line in rows]
    assert all(each.removeprefix("job_").startswith(short) for each, short in zip(ids[::-1], shown, strict=True))
    assert shell.run("jobs", "show", shown[0], "--json").data["id"] == ids[1]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.25, "0.2 s"), (42, "42 s"), (75, "1 min 15 s"), (7200, "2.0 h"), (864_000, "10 d")]
)
def test_lengths_of_time_have_the_unit_that_fits(seconds: float, words: str) -> None:
    assert output.span(seconds) == words
