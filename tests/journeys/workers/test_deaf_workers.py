"""Workers that no message reaches: without a broker they work all the same; deaf ones end."""

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.jobs import queries
from redraft.operations.jobs.submit import submit
from redraft.operations.services import Services
from redraft.queue import celery_options
from tests.journeys.conftest import Desk
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.processes import WorkerProcess
from tests.support.valkey import ValkeyServer
from tests.support.waiting import patient, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def own_valkey() -> ValkeyServer:
    """One that may be stopped; it is not started."""
    return ValkeyServer()


def deafen(services: Services, worker: WorkerProcess) -> None:
    """Let a worker listen to none of its queues any more, as a lost consumer does."""
    control = Celery("test", set_as_current=False)
    control.conf.update(celery_options(services.settings, socket_timeout_s=5))

    def find_name() -> str | None:
        answers = control.control.inspect(timeout=patient(5), limit=1).ping() or {}
        return next((name for name in answers if f"-{worker.process.pid}@" in name), None)

    # The first of several workers to answer may be another one
    alone: dict[str, Any] = {
        "destination": [wait_until(find_name, within_s=20, what="the worker's name")],
        "timeout": patient(5),
        "limit": 1,
    }

    def queues() -> list[str] | None:
        answers = control.control.inspect(**alone).active_queues()
        return [queue["name"] for each in answers.values() for queue in each] if answers else None

    found = wait_until(queues, within_s=20, what="the worker's queues")
    assert len(found) == 3
    for name in found:
        control.control.cancel_consumer(name, reply=True, **alone)
    wait_until(lambda: queues() == [], within_s=20, what="a deaf worker")
    control.close()


def test_a_worker_that_hears_nothing_though_the_broker_answers_ends(
    services: Services, start_worker: StartWorker
) -> None:
    deaf = start_worker(services, REDRAFT_DEAF_AFTER_S="6").wait_ready()
    hearing = start_worker(services, REDRAFT_DEAF_AFTER_S="6").wait_ready(2)
    deafen(services, deaf)
    wait_until(lambda: deaf.process.poll() is not None, within_s=30, what="the end of the deaf worker")
    assert deaf.process.returncode == 1
    assert "worker_receives_no_messages" in deaf.log_text()
    assert hearing.process.poll() is None
    assert "worker_receives_no_messages" not in hearing.log_text()


def test_a_worker_with_no_free_thread_is_not_taken_for_deaf(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=[Reply(text="one", latency_s=9)], evaluate=[0.9])
    worker = start_worker(services, REDRAFT_DEAF_AFTER_S="6", REDRAFT_WORKER_CONCURRENCY="1").wait_ready()
    job = desk.run()
    assert (job["stop_reason"], job["usage"]["calls"]) == ("accepted", 2)
    assert worker.process.poll() is None


def test_without_a_broker_from_the_start_a_worker_works_off_what_is_due(
    make_services: Callable[..., Services],
    model_server: ModelServer,
    start_worker: StartWorker,
    own_valkey: ValkeyServer,
) -> None:
    services = make_services(broker_url=own_valkey.url)
    model_server.script(generate=["one"], evaluate=[0.9])
    request = GenerateAnswer.model_validate({"instruct": "TASK", "eval_crit": "CRITERIA"})
    jobs = [submit(services, request).job.id for _ in range(5)]
    worker = start_worker(services, REDRAFT_DEAF_AFTER_S="6")
    for job_id in jobs:
        wait_until(lambda job_id=job_id: queries.get_job(services, job_id).finished_at, within_s=30)
    own_valkey.start()
    try:
        assert worker.process.poll() is None, "a broker that is away is no deafness"
        late = submit(services, request).job.id
        wait_until(lambda: queries.get_job(services, late).finished_at, within_s=30)
    finally:
        worker.kill()
        own_valkey.remove()
