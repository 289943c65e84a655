"""`redraft jobs webhooks`: what was sent, and sending again."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from redraft.domain.jobs.requests import Webhook
from redraft.operations.services import Services
from tests.cli.conftest import open_services, settings_for
from tests.model_server.server import ModelServer
from tests.support.receiver import SECRET
from tests.support.shells import Shell
from tests.support.valkey import ValkeyServer

HOOK = Webhook(url="https://hooks.example/", events=["job.queued", "done"])


@pytest.fixture
def home(tmp_path: Path, valkey: ValkeyServer, model_server: ModelServer) -> Iterator[Services]:
    signed = settings_for(tmp_path / "data", valkey, model_server, webhook_secret=SecretStr(SECRET))
    services = open_services(signed)
    yield services
    services.close()


def test_deliveries_are_listed_and_sent_again(shell: Shell, add_job: Callable[..., str]) -> None:
    job_id = add_job(webhook=HOOK, is_done=True)
    done = shell.run("jobs", "webhooks")
    queued, ended = [line for line in done.out.splitlines() if "whd_" in line]
    assert all(part in queued for part in ("job.queued", "○ pending"))
    assert "job.done" in ended
    first, second = shell.run("jobs", "webhooks", job_id, "--json").data["data"]
    assert (first["type"], second["type"], first["attempts"]) == ("job.queued", "job.done", 0)
    again = shell.run("jobs", "webhooks", job_id, "--redeliver", second["id"], "--json")
    assert [each["id"] for each in again.data["data"]] == [second["id"]]
    assert "The next worker sends the delivery." in again.err


def test_it_says_when_there_is_nothing_to_see_or_to_send(shell: Shell, add_job: Callable[..., str]) -> None:
    add_job()
    done = shell.run("jobs", "webhooks")
    assert (done.code, done.out) == (0, "")
    assert "no webhook" in done.err
    assert shell.run("jobs", "webhooks", "--redeliver", "whd_1").code == 5
    assert shell.run("jobs", "webhooks", "--json").data == {"data": []}


def test_the_doctor_says_whether_webhooks_are_signed_and_shows_no_secret(shell: Shell) -> None:
    assert "webhooks    signed with 1 secret" in shell.run("doctor").out
    assert "REDRAFT_WEBHOOK_SECRET" in shell.run("doctor", REDRAFT_WEBHOOK_SECRET="").out
    wrong = shell.run("doctor", REDRAFT_WEBHOOK_SECRET="whsec_tooshortone")
    assert (wrong.code, "REDRAFT_WEBHOOK_SECRET" in wrong.err) == (2, True)
    assert "tooshortone" not in wrong.out + wrong.err


def test_the_end_of_a_run_is_listed_and_sent_again(shell: Shell) -> None:
    Path("rows.jsonl").write_text('{"instruct": "Q"}\n')
    start = ("eval", "rows.jsonl", "--crit", "Right.", "--webhook", "https://hooks.example/runs", "--detach")
    run_id = shell.run(*start).out.strip()
    assert "There are no deliveries" in shell.run("runs", "webhooks").err
    shell.run("runs", "cancel", run_id)
    [line] = [line for line in shell.run("runs", "webhooks").out.splitlines() if "whd_" in line]
    assert all(part in line for part in ("run.finished", "○ pending"))
    [delivery] = shell.run("runs", "webhooks", run_id, "--json").data["data"]
    again = shell.run("runs", "webhooks", run_id, "--redeliver", delivery["id"], "--json")
    assert [each["id"] for each in again.data["data"]] == [delivery["id"]]
    resumed = shell.run("eval", "--resume", run_id, "--webhook", "https://hooks.example/runs")
    assert (resumed.code, "Remove: --webhook" in resumed.err) == (2, True)


def test_a_run_whose_webhook_leads_inside_is_refused(shell: Shell) -> None:
    Path("rows.jsonl").write_text('{"instruct": "Q"}\n')
    refused = shell.run("eval", "rows.jsonl", "--crit", "Right.", "--webhook", "http://10.1.2.3/", "--detach")
    assert (refused.code, "10.1.2.3 is private" in refused.err) == (2, True)
