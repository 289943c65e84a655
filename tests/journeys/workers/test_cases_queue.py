"""What users of such systems have reported of their queues and workers, by the number of the case."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable

import psutil
import pytest
from celery import Celery

from redraft.messages import INTERACTIVE_QUEUE
from redraft.operations.services import Services
from redraft.queue import celery_options
from tests.journeys.conftest import Desk
from tests.model_server.requests import Asked
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.processes import WorkerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
StartWorker = Callable[..., WorkerProcess]
LOOP_TROUBLE = re.compile(r"Event loop is closed|different loop|Task was destroyed|database is locked|Traceback")


def ring_again(services: Services, job_id: str, task: str, step_no: int, times: int) -> None:
    """The step's message once more, as a broker delivers it that has lost an acknowledgement."""
    sender = Celery("test", set_as_current=False)
    sender.conf.update(celery_options(services.settings, socket_timeout_s=5))
    for _ in range(times):
        sender.send_task(task, kwargs={"job_id": job_id, "step_no": step_no}, queue=INTERACTIVE_QUEUE)
    sender.close()


def test_d01_a_message_delivered_twice_to_two_workers_is_paid_once(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=[Reply(text="A", is_held=True)], evaluate=[0.9])
    start_worker(services)
    start_worker(services).wait_ready(2)
    job_id = desk.submit()["id"]
    ring_again(services, job_id, "redraft.generate", 1, times=6)
    wait_until(lambda: model_server.requests("generate"), within_s=20)
    ring_again(services, job_id, "redraft.generate", 1, times=6)
    model_server.release()
    job = desk.finished(job_id)
    ring_again(services, job_id, "redraft.evaluate", 2, times=6)
    assert desk.run()["stop_reason"] == "accepted", "they go on after the duplicates"
    assert (job["stop_reason"], job["usage"]["calls"]) == ("accepted", 2)
    assert len(model_server.requests()) == 4
    assert Counter(event["type"] for event in desk.events(job_id))["done"] == 1
    assert desk.job(job_id)["version"] == job["version"], "nobody touched it after its end"


def test_d02_a_slow_commit_hides_no_job_from_an_idle_worker(
    desk: Desk, services: Services, worker: WorkerProcess, model_server: ModelServer
) -> None:
    model_server.script(generate=["one"], evaluate=[0.9])
    found: list[str] = []
    posts = [threading.Thread(target=lambda: found.append(desk.submit()["id"])) for _ in range(20)]
    with services.database.engine.connect() as connection:
        slow = "BEGIN IMMEDIATE" if services.database.is_sqlite else "LOCK TABLE events IN EXCLUSIVE MODE"
        connection.exec_driver_sql(slow)
        for post in posts:
            post.start()
        slow_until = time.monotonic() + 1.0
        wait_until(lambda: found or time.monotonic() > slow_until)
        assert not found, "a job was answered for before its commit"
        connection.rollback()
    for post in posts:
        post.join()
    assert [desk.finished(job_id)["stop_reason"] for job_id in found] == ["accepted"] * 20
    assert "Traceback" not in worker.log_text()


def test_d05_many_jobs_one_after_another_on_one_thread(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=["one"], evaluate=[0.9])
    worker = start_worker(services, REDRAFT_WORKER_CONCURRENCY="1").wait_ready()
    assert [desk.run()["stop_reason"] for _ in range(12)] == ["accepted"] * 12
    assert not LOOP_TROUBLE.search(worker.log_text())


def test_d06_two_processes_mix_up_no_connection(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    def echo(asked: Asked) -> Reply | None:
        number = re.search(r"job number (\d+)", asked.prompt)
        return Reply(text=f"answer {number.group(1)}") if asked.role == "generate" and number else None

    model_server.respond(echo)
    workers = [start_worker(services) for _ in range(2)]
    workers[0].wait_ready(2)
    jobs = {n: desk.submit(instruct=f"This is job number {n}.")["id"] for n in range(20)}
    ended = {n: desk.finished(job_id) for n, job_id in jobs.items()}
    assert {n: job["result"]["final_answer"] for n, job in ended.items()} == {n: f"answer {n}" for n in jobs}
    assert {job["error"] is None for job in ended.values()} == {True}
    assert not any(LOOP_TROUBLE.search(worker.log_text()) for worker in workers)


def test_d12_a_worker_grows_neither_in_descriptors_nor_in_memory(
    desk: Desk, worker: WorkerProcess, model_server: ModelServer
) -> None:
    model_server.script(generate=["one"], evaluate=[0.9])
    process = psutil.Process(worker.process.pid)

    def run(count: int) -> None:
        jobs = [desk.submit()["id"] for _ in range(count)]
        assert {desk.finished(job_id)["stop_reason"] for job_id in jobs} == {"accepted"}

    run(16)
    descriptors, memory = process.num_fds(), process.memory_info().rss
    run(40)
    assert process.num_fds() <= descriptors + 20
    assert process.memory_info().rss - memory < 50e6
    to_provider = [c for c in process.net_connections("tcp") if c.raddr and c.raddr.port == model_server.port]
    assert len(to_provider) <= 10


def test_d13_many_jobs_of_which_some_fail_add_up(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    def fail_some(asked: Asked) -> Reply | None:
        return Reply(status=400, raw={"error": {"message": "no"}}) if "FAILS" in asked.prompt else None

    model_server.script(generate=["one"], evaluate=[0.9])
    model_server.respond(fail_some)
    start_worker(services)
    start_worker(services).wait_ready(2)
    jobs = [desk.submit(instruct="FAILS" if n % 14 == 13 else f"Question {n}?")["id"] for n in range(28)]
    ring_again(services, jobs[0], "redraft.generate", 1, times=3)
    ended = Counter(desk.finished(job_id)["status"] for job_id in jobs)
    assert ended == {"succeeded": 26, "failed": 2}
    assert {desk.events(job_id)[-1]["type"] for job_id in jobs} == {"done"}
