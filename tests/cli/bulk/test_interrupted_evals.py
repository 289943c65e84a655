"""`redraft eval` interrupted: Ctrl-C once and twice, kill -9, and how it goes on."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil

from redraft.operations.bulk import run_results, runs, scheduler
from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from tests.cli.bulk.dataset_rows import rows_file
from tests.cli.jobs.test_embedded_asking import processes_of
from tests.model_server import Asked, ModelServer, Reply
from tests.support.commands import Command
from tests.support.shells import Outcome, Shell, drain
from tests.support.waiting import patient, wait_until

CRIT = ("--crit", "Right.")


def start(office: Shell, provider: ModelServer) -> Command:
    """A run of which one item has ended and three wait for a model that says nothing."""
    provider.script(generate=[Reply(text="never", latency_s=60)], evaluate=[0.9])
    provider.script(generate=["a"], evaluate=[0.9], case="r0")
    command = office.start("eval", str(Path(rows_file(4)).absolute()), *CRIT, "--json")
    wait_until(lambda: command.process.poll() is not None or has_ended_one(office), within_s=30, every_s=0.5)
    return command


def has_ended_one(office: Shell) -> bool:
    page = office.run("runs", "list", "--json").data["data"]
    return bool(page) and (page[0]["status"], page[0]["counts"]["succeeded"]) == ("running", 1)


def test_ctrl_c_once_cancels_keeps_what_has_ended_and_says_how_to_go_on(office: Shell, provider: ModelServer) -> None:
    command = start(office, provider)
    code = command.interrupt()
    assert command.stdout, command.stderr
    run = command.data["run"]
    counts = run["counts"]
    assert (code, run["status"], counts["succeeded"], counts["canceled"]) == (130, "canceled", 1, 3)
    assert f"redraft eval --resume {run['id']}" in command.stderr
    provider.script(generate=["a"], evaluate=[0.9])
    asked = len(provider.requests(case="r0"))
    again = office.run("eval", "--resume", "latest", "--json")
    assert (again.code, again.data["run"]["counts"]["succeeded"]) == (0, 4)
    assert len(provider.requests(case="r0")) == asked


def test_sigterm_ends_at_once_and_says_how_the_run_goes_on(office: Shell, provider: ModelServer) -> None:
    command = start(office, provider)
    os.kill(command.pid, signal.SIGTERM)
    assert command.wait() == -signal.SIGTERM
    run = office.run("runs", "list", "--json").data["data"][0]
    assert (run["status"], run["counts"]["canceled"]) == ("running", 0)
    assert (
        f"not canceled. To continue it, or to watch it if other workers execute it: redraft eval --resume {run['id']}"
        in (" ".join(command.stderr.split()))
    )
    office.run("runs", "cancel", run["id"])


def test_ctrl_c_twice_leaves_at_once_whatever_it_waits_for(
    staffed: tuple[Services, ModelServer], office: Shell, provider: ModelServer
) -> None:
    command = start(office, provider)
    with closing(sqlite3.connect(staffed[0].settings.data_dir / "redraft.db")) as other:
        other.execute("BEGIN IMMEDIATE")  # nothing can be canceled until it is over
        os.killpg(command.pid, signal.SIGINT)
        command.wait_says("A second Ctrl-C exits at once")
        assert command.interrupt() == -signal.SIGINT, "a shell tells it as 130"
    office.run("runs", "cancel", "latest")


def test_ctrl_c_while_watching_leaves_the_run_alone(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=[Reply(text="never", latency_s=60)])
    run_id = office.run("eval", rows_file(1), *CRIT, "--detach").out.strip()
    watch = office.start("runs", "watch", run_id)
    watch.wait_says("in flight")
    assert (watch.interrupt(), watch.stdout) == (130, "")
    assert f"redraft runs watch {run_id}" in watch.stderr
    assert office.run("runs", "cancel", run_id, "--json").data["status"] == "canceled"
    assert "had already ended" in office.run("runs", "cancel", run_id).err


def answer(asked: Asked) -> Reply:
    """The first answer of each row falls short, the second will do; how often it is asked plays no part."""
    if asked.role == "generate":
        text = "better" if "draft one" in asked.prompt else "draft one"
        return Reply(text=f"{text} of {asked.case}", latency_s=0.2)
    return Reply(score=0.9 if "better of" in asked.prompt else 0.4, latency_s=0.2)


def figures(outcome: Outcome) -> dict[str, Any]:
    """A report without what names the run and its jobs, and what is measured by the clock."""
    assert outcome.code == 0, outcome.err
    report = outcome.data["report"]
    for rows in report["examples"].values():
        for row in rows:
            del row["job_id"]
    # The words tell the time of the model calls
    del report["uplift"]["words"], report["uplift"]["revisions"]["calls"]
    return {name: value for name, value in report.items() if name not in {"run", "latency"}}


def kill_all(command: Command) -> None:
    """The command, its worker, its broker and the guard of that, at one blow."""
    family = [psutil.Process(command.pid), *psutil.Process(command.pid).children(recursive=True)]
    for each in family:
        each.suspend()
    for each in family:
        each.kill()
    command.wait()
    psutil.wait_procs(family, timeout=patient(20))


def test_killed_in_the_middle_it_resumes_without_asking_again_for_what_has_ended(
    home: Services, model_server: ModelServer
) -> None:
    model_server.respond(answer)
    shell = Shell({**Shell.of(home).environment, "REDRAFT_BROKER_URL": "", "REDRAFT_LEASE_S": "2"})
    begin = ("eval", str(Path(rows_file(12)).absolute()), *CRIT, "--max-in-flight", "3", "--json")
    undisturbed = work_off(home, rows_file(12))
    command = shell.start(*begin)
    wait_until(lambda: len(all_runs(home)) == 2 and newest(home).counts.succeeded >= 3, within_s=60, every_s=0.1)
    kill_all(command)
    ended = [
        item["custom_id"] for item in run_results.stream_results(home, newest(home).id) if item["status"] == "succeeded"
    ]
    assert 3 <= len(ended) < 12
    asked = {case: len(model_server.requests(case=case)) for case in ended}
    again = shell.start("eval", "--resume", "latest", "--json", is_fork=False)
    code = again.wait()
    assert {case: len(model_server.requests(case=case)) for case in ended} == asked
    assert figures(Outcome(code, again.stdout, again.stderr)) == figures(undisturbed)
    assert processes_of(str(home.settings.data_dir)) == ""


def work_off(home: Services, file: str) -> Outcome:
    """The same run from beginning to end, without another process."""
    shell = Shell.of(home)
    run_id = shell.run("eval", file, *CRIT, "--detach").out.strip()
    while newest(home).status == "running":
        drain(home)
        scheduler.schedule_all(home)
    return shell.run("runs", "report", run_id, "--json")


def all_runs(home: Services) -> list[Run]:
    return runs.list_runs(home, cursor=None, limit=9)[0]


def newest(home: Services) -> Run:
    return all_runs(home)[0]
