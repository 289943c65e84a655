"""A job that ends its worker's process takes nobody with it."""

import os
import signal
from collections.abc import Callable

from sqlalchemy import select

from redraft.operations.services import Services
from redraft.storage.engine.admin_tables import worker_heartbeats
from redraft.storage.engine.tables import jobs
from tests.journeys.conftest import ON_SQLITE, Desk
from tests.model_server.requests import Asked
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.processes import WorkerProcess
from tests.support.waiting import wait_until

pytestmark = ON_SQLITE
POISON, INNOCENTS = "POISON", 24


def pid_that_does(services: Services, job_id: str) -> int | None:
    """The process that holds the job's lease, when it has told who it is."""
    owner = select(jobs.c.lease_owner).where(jobs.c.id == job_id).scalar_subquery()
    with services.database.read() as connection:
        return connection.scalar(select(worker_heartbeats.c.pid).where(worker_heartbeats.c.id == owner))


def test_a_job_that_kills_its_worker_is_set_apart_and_ended_and_24_innocents_succeed(
    desk: Desk,
    make_services: Callable[..., Services],
    model_server: ModelServer,
    start_worker: Callable[..., WorkerProcess],
) -> None:
    # Who is in flight beside the poison twice runs alone, too: few, because each such process starts from nothing
    services = make_services(lease_s=2.0, worker_concurrency=4)
    model_server.script(generate=[Reply(text="one", latency_s=0.4)], evaluate=[0.9])
    killed: list[int] = []

    def kill_who_asks(asked: Asked) -> Reply | None:
        if POISON not in asked.prompt:
            return None
        wait_until(lambda: pid_that_does(services, poison["id"]) not in {None, *killed})
        pid = pid_that_does(services, poison["id"])
        assert pid is not None
        killed.append(pid)
        os.kill(pid, signal.SIGKILL)
        return Reply(text="too late")

    model_server.respond(kill_who_asks)
    poison = desk.submit(instruct=POISON)
    innocents = [desk.submit(instruct=f"innocent {n}")["id"] for n in range(INNOCENTS)]
    workers = [start_worker(services)]

    def is_over() -> bool:
        if workers[-1].process.poll() is not None:
            workers.append(start_worker(services))
        return bool(desk.job(poison["id"])["finished_at"])

    wait_until(is_over, within_s=60, what="the end of the poison")
    assert {desk.finished(job_id)["stop_reason"] for job_id in innocents} == {"accepted"}
    job = desk.job(poison["id"])
    assert (job["status"], job["error"]["code"]) == ("failed", "worker_lost")
    assert "3 times in a row" in job["error"]["detail"]
    assert killed[:2] == [worker.process.pid for worker in workers[:2]]
    assert {call["status"] for call in desk.calls(poison["id"])} == {"failed"}
    assert len(killed) == 3, "the third time it was alone, in a process that is no worker of ours"
    assert killed[2] != workers[2].process.pid
    assert len(workers) == 3, "the worker that set it apart lives on"


def test_a_suspect_that_is_innocent_succeeds_alone(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: Callable[..., WorkerProcess]
) -> None:
    model_server.script(generate=["one"], evaluate=[0.9])
    job = desk.submit()
    with services.database.write() as connection:
        connection.execute(jobs.update().values(lost_leases=2))
    worker = start_worker(services)
    assert desk.finished(job["id"])["stop_reason"] == "accepted"
    assert "suspect_runs_alone" in worker.log_text()
    with services.database.read() as connection:
        assert connection.scalar(select(jobs.c.lost_leases)) == 0, "what passed is no suspect any more"
