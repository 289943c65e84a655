import contextlib
import os
import pty
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from redraft.cli.admin.demo import gain_of_checks
from redraft.providers.local.provider import missing_part
from redraft.settings import Settings
from tests.embedded.folders import Folder
from tests.model_server import ModelServer, Reply
from tests.support.commands import Command
from tests.support.processes import environment_of
from tests.support.waiting import patient

Start = Callable[..., Command]


INVITATION = "Dear Ana, please come to our party at Tom's house on Friday."
MESSAGE = 'Missing: "on Friday". Write it word for word.'


def test_it_shows_jobs_whose_checks_cost_no_call_fails_when_one_fails_and_leaves_nothing(
    folder: Folder, command: Start, model_server: ModelServer
):
    failed = Reply(status=401, raw={"error": {"message": "no"}})
    model_server.script(generate=[failed, "Dear Ana, come to our party at Tom's house!", INVITATION])
    demo = command(folder, "demo", "--data-dir", str(folder.path))
    assert demo.wait(patient(60)) == 1, demo.stderr
    assert "with openai:writer" in demo.stdout
    assert "tiny" not in demo.stdout
    assert "1 of 2 jobs failed" in demo.stderr

    assert "  day: It says when: on Friday\n  party: It names the party (the generator does not see it)" in demo.stdout
    assert f"not met: day - {MESSAGE}" in demo.stdout
    assert f"Final answer:\n{INVITATION}" in demo.stdout
    assert "Stop reason: accepted; 2 model calls" in demo.stdout
    assert "\n  Dear Ana, come to our party at Tom's house!\n  score 0.83" in demo.stdout
    assert "held 1 message of failed checks; the best answer meets 1 more." in demo.stdout
    assert "No model evaluated the answers" in demo.stdout
    first, second = [each.prompt for each in model_server.requests("generate")][-2:]
    assert MESSAGE not in first
    assert MESSAGE in second
    assert all("40 words" not in each and "Dear Paul" in each for each in (first, second))
    folder.wait_empty()


def checked(number: int, *passed: bool, judge: str | None = None, told: str | None = None) -> dict[str, Any]:
    checks = [{"passed": each, "message": f"Found {at}."} for at, each in enumerate(passed)]
    evaluation = {"checks": checks, "evaluator_model": judge}
    return {"number": number, "answer": "Some\ntext.", "feedback_given": told, "evaluation": evaluation}


def test_what_checks_gained_is_told_as_it_was():
    told = "- Not met: x.\n  Change: Found 0."
    idle = list(gain_of_checks([checked(1, False, True), checked(2, False, True, told=told)]))
    assert idle[0].startswith("Checks met: 1 of 2 in iteration 1, 1 of 2 in iteration 2. ")
    assert idle[0].endswith("The later prompts held 1 message of failed checks; no answer meets more.")
    assert idle[1] == "No model evaluated the answers. Checks in code make no calls."
    alone = list(gain_of_checks([checked(1, True, judge="openai:judge")]))
    assert alone == ["Checks met: 1 of 1 in iteration 1. There is only one answer."]


def test_without_checks_nothing_is_said_of_them():
    unchecked: dict[str, Any] = {**checked(1), "evaluation": {"checks": [], "evaluator_model": "openai:judge"}}
    assert not list(gain_of_checks([unchecked, {**unchecked, "evaluation": None}]))


def test_on_a_terminal_it_shows_what_goes_on_and_ctrl_c_is_answered_at_once(
    folder: Folder, make_embedded: Callable[..., Settings], model_server: ModelServer
):
    model_server.script(generate=["First.", "Second.", Reply(text="never", latency_s=60)], evaluate=[0.05, 0.97])
    ours, theirs = pty.openpty()
    environment = {**environment_of(make_embedded(folder)), "TERM": "xterm-256color", "COLUMNS": "120"}
    demo = Command(["demo", "--data-dir", str(folder.path)], environment, stdout=theirs)
    os.close(theirs)
    shown: list[bytes] = []
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 4096):
            shown.append(piece)
            if len(model_server.requests("generate")) == 3:
                demo.process.send_signal(signal.SIGINT)
    os.close(ours)
    assert demo.wait() == 130, demo.stderr
    assert "Ending the demo" in demo.stderr
    text = b"".join(shown).decode()
    assert "iteration 1: generating" in text or "waiting for a worker" in text
    for part in ("score 0.05", "score 0.97", "Final answer:", "Second.", "Stop reason: accepted; 4 model calls"):
        assert part in text
    folder.wait_empty()


@pytest.mark.skipif(missing_part(None) is not None, reason="the bundled model is not installed")
def test_it_runs_the_real_tiny_model_in_a_folder_of_its_own(folder: Folder, command: Start):
    demo = command(folder, "demo", is_fork=False, model="", openai_api_key=None, openai_base_url=None)
    assert demo.wait(patient(280)) == 0, demo.stdout + demo.stderr
    assert "with local:smollm2-135m" in demo.stdout
    assert "135 million" in demo.stdout
    assert "OPENAI_API_KEY" in demo.stdout
    (answer,) = re.findall(r"^Final answer:\n(.*?)\n(?:No answer|Stop reason)", demo.stdout, re.MULTILINE | re.DOTALL)
    (reason,) = re.findall(r"^Stop reason: (\w+)", demo.stdout, re.MULTILINE)
    # Another processor may round differently, so the model may write other answers. None may be accepted wrongly
    if reason == "accepted":
        assert all(part in answer for part in ("Ana", "party", "Tom's house", "on Friday"))
        assert not re.search(r"(?i)[:\d]|tonight|tomorrow|task|criteria|RSVP", answer)
        assert len(answer.split()) <= 40
    checked = re.findall(r"(\d) of 6 in iteration", demo.stdout)
    assert int(checked[-1]) == 6 or reason != "accepted"
    folder.wait_empty()
