import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest

from redraft.providers.local import missing_part
from redraft.settings import Settings
from tests.embedded.commands import RUN, Command, Folder
from tests.model_server import ModelServer, Reply
from tests.support.processes import environment_of

Start = Callable[..., Command]


def test_it_shows_two_jobs_and_leaves_nothing(folder: Folder, command: Start, model_server: ModelServer):
    model_server.script(generate=["First.", "Second."] * 2, evaluate=[0.05, 0.97] * 2)
    demo = command(folder, "demo", "--data-dir", str(folder.path))
    assert demo.wait(60) == 0, demo.stderr
    assert "with openai:writer" in demo.stdout
    assert "tiny" not in demo.stdout
    assert demo.stdout.count("score 0.05") == 2
    assert demo.stdout.count("score 0.97") == 2
    assert demo.stdout.count("Final answer:\nSecond.") == 2
    assert demo.stdout.count("Stop reason: accepted; 4 model calls") == 2
    folder.wait_empty()


def test_on_a_terminal_it_shows_what_goes_on(
    folder: Folder, make_embedded: Callable[..., Settings], model_server: ModelServer
):
    model_server.script(generate=["First."], evaluate=[0.97])
    ours, theirs = pty.openpty()
    environment = {**environment_of(make_embedded(folder)), "TERM": "xterm-256color", "COLUMNS": "120"}
    shown: list[bytes] = []
    with subprocess.Popen([sys.executable, "-P", "-c", RUN, "demo"], env=environment, stdout=theirs) as demo:
        os.close(theirs)
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 4096):
                shown.append(piece)
        os.close(ours)
        assert demo.wait(60) == 0
    text = b"".join(shown).decode()
    assert "iteration 1: writing" in text or "waiting for a worker" in text
    assert "Final answer:" in text
    folder.wait_empty()


def test_it_fails_when_a_job_fails(folder: Folder, command: Start, model_server: ModelServer):
    model_server.script(generate=[Reply(status=401, raw={"error": {"message": "no"}})])
    demo = command(folder, "demo", "--data-dir", str(folder.path))
    assert demo.wait(60) == 1, demo.stdout
    assert "2 of 2 jobs failed" in demo.stderr
    folder.wait_empty()


@pytest.mark.skipif(missing_part(None) is not None, reason="the bundled model is not installed")
def test_it_runs_the_real_tiny_model_in_a_folder_of_its_own(folder: Folder, command: Start):
    demo = command(folder, "demo", model="", openai_api_key=None, openai_base_url=None)
    assert demo.wait(280) == 0, demo.stdout + demo.stderr
    assert "with local:smollm2-135m" in demo.stdout
    assert "135 million" in demo.stdout
    assert "OPENAI_API_KEY" in demo.stdout
    assert demo.stdout.count("Stop reason: ") == 2
    assert demo.stdout.count("Iteration 1 of at most 2 begins.") == 2
    folder.wait_empty()
