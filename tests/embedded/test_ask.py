"""`redraft ask` without a server, ended before its answer is there."""

import signal
from collections.abc import Callable

from tests.embedded.folders import Folder
from tests.model_server import ModelServer, Reply
from tests.support.commands import Command
from tests.support.waiting import wait_until


def test_without_an_answer_it_says_so(
    folder: Folder, command: Callable[..., Command], model_server: ModelServer
) -> None:
    model_server.script(generate=[Reply(fault="hang")])
    ask = command(folder, "ask", "Write.", "--crit", "Good.")
    wait_until(model_server.requests, within_s=30, what="the hanging call")
    assert (ask.end(signal.SIGTERM), ask.stdout) == (130, "")
    assert "There is no answer" in ask.stderr
    assert "has a worker" not in ask.stderr


def test_whoever_ends_it_cancels_the_job_and_learns_what_it_took(
    folder: Folder, command: Callable[..., Command], model_server: ModelServer
) -> None:
    model_server.script(generate=["first draft", Reply(fault="hang")], evaluate=[0.5])
    ask = command(folder, "ask", "Write.", "--crit", "Good.", "--json")
    wait_until(lambda: len(model_server.requests()) == 3, within_s=30, what="the hanging call")
    assert ask.end(signal.SIGINT) == 130
    job = ask.data
    assert (job["status"], job["stop_reason"]) == ("canceled", "canceled")
    assert job["result"]["final_answer"] == "first draft"
    assert job["usage"]["calls"] == 3
    assert f"redraft jobs continue {job['id']}" in ask.stderr
    assert "Traceback" not in ask.stderr
    folder.wait_empty()
