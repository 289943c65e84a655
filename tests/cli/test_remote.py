"""Commands with a remote server: the same output as on its own installation, and one line for each failure."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.services import Services
from tests.model_server.server import ModelServer, Reply
from tests.support.api_server import api_process
from tests.support.receiver import Answer, Receiver
from tests.support.shells import Outcome, Shell
from tests.support.waiting import patient

Places = tuple[Shell, Shell]

ROWS = [{"custom_id": f"row-{number}", "instruct": f"Say {number}.", "metadata": {"team": "a"}} for number in (1, 2)]
TASK = ("--crit", "Friendly.", "--iter-max", "2")


@pytest.fixture(scope="session")
def server(staffed: tuple[Services, ModelServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an API with keys, on the database and beside the worker of `office`.

    It has a process of its own, because commands of this process configure the logs.
    """
    settings = staffed[0].settings.model_copy(update={"require_auth": True})
    with api_process(settings, tmp_path_factory.mktemp("api") / "api.log") as (_, url):
        yield url


@pytest.fixture(scope="session")
def token(staffed: tuple[Services, ModelServer]) -> str:
    return keys.create_key(staffed[0], "cli")[1]


@pytest.fixture
def remote(server: str, token: str, tmp_path: Path) -> Shell:
    """A shell on another machine: it has no database, no broker and no model."""
    folder = str(tmp_path / "nothing")
    return Shell({"REDRAFT_SERVER": server, "REDRAFT_API_KEY": token, "REDRAFT_DATA_DIR": folder})


@pytest.fixture
def rows(tmp_path: Path) -> str:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(file)


@pytest.fixture(scope="session")
def stored(staffed: tuple[Services, ModelServer], tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """An installation with a job of two iterations that was continued and rated, a dataset and two runs."""
    shell, provider = Shell.of(staffed[0]), staffed[1]
    provider.script(generate=["One.", "Two.", "Three."], evaluate=[0.3, 0.6, 0.9])
    assert shell.run("ask", "Say it.", *TASK, "--meta", "name=first").code == 0
    assert shell.run("jobs", "continue", "latest", "--iter-max", "1", "--guidance", "Shorter.").code == 0
    assert shell.run("jobs", "rate", "latest", "--agree", "--note", "Right.").code == 0
    file = tmp_path_factory.mktemp("rows") / "stored.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [*ROWS, {"instruct": ""}]))
    for evaluated in (0.95, 0.4):
        provider.script(generate=["Yes."] * 6, evaluate=[evaluated] * 6)
        assert shell.run("eval", str(file), *TASK[:2], "--iter-max", "1").code == 6
    return shell


def plain(found: Outcome) -> tuple[int, str, str]:
    """The outcome without ages, which differ between two commands, and without the padding that follows from them.

    Durations are left out, too: the API rounds times to milliseconds, which can change the last digit.
    """
    out, err = (re.sub(r"(\b\d+(\.\d+)?\s+(s|min)\b\s*)+|\s+", " ", each) for each in (found.out, found.err))
    return found.code, out, err


SAME = [
    "jobs list --meta name=first",
    "jobs list --status failed",
    "jobs list --limit 2",
    "jobs list --json --outcome not_accepted --limit 3",
    "jobs export --meta name=first",
    "jobs show first",
    "jobs show first --json",
    "jobs watch first",
    "jobs criteria first",
    "jobs diff first",
    "jobs calls first",
    "jobs calls first --json",
    "jobs ratings first",
    "jobs webhooks first",
    "jobs webhooks --all-failed",
    "jobs show job_none",
    "jobs show 0",
    "jobs cancel first",
    "calibration",
    "calibration --json",
    "datasets list",
    "datasets show latest --limit 1",
    "datasets show latest --after 1 --json",
    "datasets delete stored.jsonl",
    "runs list",
    "runs show latest",
    "runs show latest --status invalid --json",
    "runs show stored.jsonl",
    "runs report latest --baseline latest --fail-on-regression --min-pass-rate 0.9",
    "runs report latest --json",
    "runs watch latest",
    "runs export latest --format csv --bom",
    "runs export latest",
    "runs cancel latest",
    "compare latest latest",
    "jobs list --after nonsense",
]


@pytest.mark.parametrize("line", SAME)
def test_it_prints_what_the_installation_prints(stored: Shell, remote: Shell, line: str) -> None:
    here, there = stored.run(*line.split()), remote.run(*line.split())
    if "--json" in line:
        assert (there.code, there.data, there.err) == (here.code, here.data, here.err)
    else:
        assert plain(there) == plain(here)
        assert here.out or here.err


def test_comparisons_reports_and_checks_of_files_are_the_same(
    stored: Shell, remote: Shell, rows: str, tmp_path: Path
) -> None:
    newest, older = (run["id"] for run in stored.run("runs", "list", "--json").data["data"][:2])
    texts: list[list[str]] = []
    for shell in (stored, remote):
        files = [tmp_path / f"report{suffix}" for suffix in (".html", ".xml", ".md", ".json", ".txt")]
        reports = [part for file in files for part in ("--report", str(file))]
        assert shell.run("runs", "report", newest, "--baseline", older, *reports).code == 0
        compared = shell.run("compare", older, newest, "--min-pass-rate", "0.5")
        checked = shell.run("datasets", "check", rows, "--crit", "Good.", "--set", "iter_max=2")
        assert (compared.code, checked.code) == (3, 0)
        texts.append([compared.out, checked.out, *(re.sub(r"\d\d:\d\d", "", file.read_text()) for file in files)])
    assert texts[0] == texts[1]


def test_it_asks_streams_rates_rescores_and_deletes(remote: Shell, office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["One.", "Two."], evaluate=[0.2, 0.95])
    asked = remote.run("ask", "Say hello.", *TASK, "--stream", TRACEPARENT=f"00-{'4' * 32}-{'2' * 16}-01")
    assert (asked.code, asked.out) == (0, "Two.\n"), asked.err
    assert "score 0.20 (threshold 0.80)" in asked.err
    job = office.run("jobs", "show", "latest", "--json").data
    assert (job["status"], job["request"]["stream"], job["trace_id"]) == ("succeeded", True, "4" * 32)
    assert "iteration 2" in remote.run("jobs", "rate", "latest", "--disagree").err
    assert office.run("jobs", "ratings", "latest", "--json").data["data"][0]["verdict"] == "disagree"
    provider.script(evaluate=[0.7, 0.8])
    assert "score 0.70" in remote.run("jobs", "rescore", "latest", "--crit", "Long.", "--wait").out
    detached = remote.run("ask", "Wait.", *TASK, "--detach")
    assert f"redraft jobs watch {detached.out.strip()}" in detached.err
    assert remote.run("jobs", "watch", detached.out.strip()).code == 0
    assert remote.run("jobs", "delete", detached.out.strip()).code == 0
    assert office.run("jobs", "show", detached.out.strip()).code == 5


def test_it_refines_a_question(remote: Shell, provider: ModelServer) -> None:
    drafted = remote.run("refine", "bern?")
    assert drafted.code == 0, drafted.err
    assert drafted.data["instruct"]
    provider.script(generate=["Bern."])
    assert remote.run("ask", "bern?", "--refine").out == "Bern.\n"


def test_it_uploads_and_runs_rows(remote: Shell, office: Shell, provider: ModelServer, rows: str) -> None:
    provider.script(generate=["Yes."] * 2, evaluate=[0.9] * 2)
    first, again = (remote.run("datasets", "import", rows) for _ in range(2))
    assert first.out == again.out
    assert again.err.startswith("Already stored: 2 rows")
    done = remote.run("eval", rows, "--crit", "Good.", "--name", "elsewhere", "--min-pass-rate", "1")
    assert done.code == 0, done.err
    assert "2 of 2 items accepted" in done.out
    assert office.run("runs", "show", "elsewhere", "--json").data["counts"]["accepted"] == 2
    assert remote.run("eval", "--resume", "elsewhere", "--detach").code == 0
    assert remote.run("runs", "delete", "elsewhere").code == 0
    assert office.run("runs", "show", "elsewhere").code == 5


def test_it_improves_the_request_of_a_run(remote: Shell, provider: ModelServer, tmp_path: Path) -> None:
    rows = tmp_path / "both sides.jsonl"
    rows.write_text("".join(json.dumps({"custom_id": name, "instruct": "Say why."}) + "\n" for name in "abcdef"))
    draft: dict[str, Any] = {"reasons": "It was too long.", "resp_format": "One word.", "rubric": []}
    provider.respond(lambda asked: Reply(json.dumps(draft) if "reasons" in str(asked.schema) else "A long answer."))
    fields = {"rubric": [{"id": "short", "kind": "check", "check": {"kind": "max_words", "value": 1}}], "iter_max": 1}
    run = remote.run("eval", str(rows), "--defaults", json.dumps(fields), "--json").data["run"]["id"]
    done = remote.run("runs", "improve", run, "--json")
    provider.respond(None)
    assert done.code == 0, done.err
    assert done.data["after"] == {"resp_format": "One word."}


def test_ctrl_c_leaves_the_job_running(remote: Shell, office: Shell, provider: ModelServer) -> None:
    provider.script(generate=[Reply(text="Late.", latency_s=5)], evaluate=[0.9])
    waiting = remote.start("ask", "Take your time.", *TASK)
    # The model gets the request before the command knows its job
    waiting.wait_says("Iteration 1", within_s=60)
    waiting.process.send_signal(signal.SIGINT)
    assert waiting.wait(patient(60)) == 130
    (watch,) = re.findall(r"The job continues. To watch it again: redraft (jobs watch \S+)", waiting.stderr)
    assert office.run(*watch.split()).out == "Late.\n"


def failing(remote: Shell, *arguments: str, **environment: str) -> tuple[int, str]:
    found = remote.run(*arguments, **environment)
    assert (found.out, "Traceback" in found.err) == ("", False)
    return found.code, found.err


def test_each_failure_is_one_line_with_advice(
    remote: Shell, staffed: tuple[Services, ModelServer], token: str, server: str
) -> None:
    code, words = failing(remote, "jobs", "list", REDRAFT_API_KEY="rd_wrong")
    assert code == 4
    assert "Set REDRAFT_API_KEY" in words
    assert "rd_wrong" not in words
    code, words = failing(remote, "jobs", "list", REDRAFT_API_KEY="")
    assert (code, "REDRAFT_API_KEY" in words) == (4, True)
    reader = keys.create_key(staffed[0], "reader", [Scope.READ])[1]
    code, words = failing(remote, "ask", "Say it.", *TASK, REDRAFT_API_KEY=reader)
    assert (code, "scope 'write'" in words) == (4, True)
    code, words = failing(remote, "jobs", "list", REDRAFT_SERVER="http://127.0.0.1:9")
    assert (code, "http://127.0.0.1:9" in words, "REDRAFT_SERVER" in words) == (75, True, True)
    code, words = failing(remote, "jobs", "list", REDRAFT_SERVER="nonsense")
    assert (code, "--server or REDRAFT_SERVER" in words) == (2, True)
    code, words = failing(remote, "ask", "Say it.", "--crit", "Good.", "--model", "nobody:x")
    assert (code, "--model" in words) == (2, True)
    # The option has precedence over the environment, and no option takes the key
    found = remote.run("--server", server, "jobs", "list", REDRAFT_SERVER="http://127.0.0.1:9")
    assert found.code == 0
    assert "api-key" not in remote.run("--help").out


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, body=json.dumps({"detail": "Not Found"}).encode()),
        Answer(200, body=b"<html>A router</html>"),
        Answer(200, body=b'{"data": [{"id": "job_1"}], "next_cursor": null}'),
    ],
)
def test_a_server_that_is_older_or_another_is_named(remote: Shell, answer: Any) -> None:
    with Receiver(answer) as receiver:
        url = receiver.url.rsplit("/", 1)[0]
        code, words = failing(remote, "jobs", "list", REDRAFT_SERVER=url)
    assert code == 1
    assert url in words
    assert "update the older one" in words


@pytest.mark.parametrize("line", ["serve", "worker", "db current", "keys list", "doctor", "models"])
def test_commands_for_the_installation_say_so(remote: Shell, line: str) -> None:
    code, words = failing(remote, *line.split())
    assert code == 2
    assert f"`redraft {line.split(maxsplit=1)[0]}` works only on its own installation" in words
