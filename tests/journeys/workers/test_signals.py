"""Signals come when they like, and more than once."""

import signal
from collections.abc import Callable

import pytest

from redraft.operations.services import Services
from tests.journeys.conftest import Desk
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.processes import WorkerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_a_worker_that_is_told_to_stop_again_and_again_stops(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: Callable[..., WorkerProcess]
) -> None:
    """Whatever a signal interrupts, another one's work included, it waits for no lock that is held there."""
    model_server.script(generate=[Reply(text="one", latency_s=0.5)], evaluate=[0.9])
    workers = [start_worker(services) for _ in range(3)]
    for worker in workers:
        worker.wait_ready(len(workers))
    job = desk.submit()
    wait_until(model_server.requests, what="its call")

    def have_ended() -> bool:
        for worker in workers:
            worker.process.send_signal(signal.SIGTERM)
        return all(worker.process.poll() is not None for worker in workers)

    wait_until(have_ended, within_s=10, every_s=0.0005, what="the end of the workers")
    assert [worker.process.returncode for worker in workers] == [0] * len(workers)
    start_worker(services)
    assert desk.finished(job["id"])["usage"]["calls"] == 2
