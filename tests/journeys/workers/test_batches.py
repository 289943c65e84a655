"""A run with batches and workers as processes, one of which is killed while the provider has the batch."""

from collections.abc import Callable

import pytest

from redraft.operations.services import Services
from tests.model_server import BatchScript, ModelServer
from tests.operations.batches.batching import BatchDriver, settings_of
from tests.support.processes import WorkerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def test_a_killed_worker_leaves_its_batches_to_another_one(
    make_services: Callable[..., Services], model_server: ModelServer, start_worker: Callable[..., WorkerProcess]
) -> None:
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9], batch=BatchScript(is_held=True))
    settings = settings_of(model_server)
    user = BatchDriver(make_services(**{**settings, "batch_poll_s": 0.1}), model_server)
    run = user.start(4)
    first = start_worker(user.services)
    wait_until(model_server.batches, within_s=60, what="the first batch")
    first.kill()
    model_server.release()
    start_worker(user.services)
    wait_until(lambda: user.now(run).status != "running", within_s=120, what="the end of the run")
    ended = user.now(run)
    assert (ended.counts.accepted, ended.usage.calls, len(ended.rounds)) == (4, 16, 4)
    assert len(model_server.batches()) == 4
    user.ensure_once(run)
