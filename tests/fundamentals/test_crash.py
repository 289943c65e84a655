"""A worker process is killed in the middle of a call: another one finishes the job."""

from collections import Counter
from collections.abc import Callable

import pytest

from redraft.operations.services import Services
from tests.journeys.conftest import Desk
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.processes import WorkerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.both_databases
StartWorker = Callable[..., WorkerProcess]


# Case D03
def test_a_new_worker_finishes_the_job_of_a_killed_one_and_pays_no_step_twice(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    hanging = Reply(text="never seen", latency_s=60)
    model_server.script(generate=["one", hanging, "two"], evaluate=[0.4, 0.9])
    first = start_worker(services).wait_ready()
    job = desk.submit()
    wait_until(lambda: len(model_server.requests("generate")) == 2, within_s=20)
    first.kill()

    start_worker(services)
    job = desk.finished(job["id"])
    assert (job["stop_reason"], job["result"]["final_answer"]) == ("accepted", "two")
    made = Counter((call["type"], call["iteration"], call["status"]) for call in desk.calls(job["id"]))
    assert made == {
        ("generate", 1, "succeeded"): 1,
        ("evaluate", 1, "succeeded"): 1,
        ("generate", 2, "failed"): 1,
        ("generate", 2, "succeeded"): 1,
        ("evaluate", 2, "succeeded"): 1,
    }
    lost = next(call for call in desk.calls(job["id"]) if call["status"] == "failed")
    assert lost["error"]["code"] == "worker_lost"
    assert len(model_server.requests()) == 5
