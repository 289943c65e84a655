"""`redraft ask` on a machine where nothing runs: it brings its own broker and worker, and takes them away."""

import subprocess

from redraft.operations.services import Services
from tests.model_server.server import ModelServer
from tests.support.shells import Shell


def processes_of(folder: str) -> str:
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True)
    return "\n".join(line for line in listed.stdout.splitlines() if folder in line)


def test_ask_runs_by_itself_and_leaves_nothing_behind(home: Services, model_server: ModelServer) -> None:
    model_server.script(generate=["Lyon", "Paris"], evaluate=[0.4, 0.9])
    shell = Shell({**Shell.of(home).environment, "REDRAFT_BROKER_URL": ""})
    ask = shell.start("ask", "Capital of France?", "--crit", "Right.", is_fork=False)
    assert (ask.wait(), ask.stdout) == (0, "Paris\n")
    assert "score 0.40" in ask.stderr
    assert "{" not in ask.stderr, "the worker's log stays out of the way"
    assert processes_of(str(home.settings.data_dir)) == ""
