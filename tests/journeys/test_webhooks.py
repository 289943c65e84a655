"""Webhooks as a receiver sees them, with worker processes that may die."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from api.app import create_app
from redraft.domain.jobs.states import Step
from redraft.messages import StepMessage
from redraft.operations.services import Services
from redraft.settings import Settings
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import webhook_deliveries
from tests.journeys.conftest import ON_POSTGRESQL, Desk
from tests.model_server.server import ModelServer
from tests.support.api_server import ApiServer
from tests.support.processes import WorkerProcess
from tests.support.receiver import LOOPBACK, SECRET, Answer, Receiver, verify
from tests.support.waiting import wait_until

pytestmark = ON_POSTGRESQL
StartWorker = Callable[..., WorkerProcess]
SIGNED = {"webhook_secret": SecretStr(SECRET), "webhook_allow_private": LOOPBACK}


@pytest.fixture
def services(make_services: Callable[..., Services]) -> Services:
    return make_services(**SIGNED)


@pytest.fixture
def desk(make_settings: Callable[..., Settings]) -> Iterator[Desk]:
    with ApiServer(create_app(make_settings(**SIGNED))) as server:
        yield Desk(server.client())


def deliveries(desk: Desk, job: dict[str, Any]) -> list[dict[str, Any]]:
    return desk.client.get(f"/v1/jobs/{job['id']}/webhook-deliveries").json()["data"]


def delivered(desk: Desk, job: dict[str, Any]) -> dict[str, Any]:
    def find() -> dict[str, Any] | None:
        [delivery] = deliveries(desk, job)
        return delivery if delivery["status"] == "delivered" else None

    found = wait_until(find, within_s=20, what="the delivery")
    assert found
    return found


def test_one_end_is_one_delivery_however_often_messages_come(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    start_worker(services)
    start_worker(services).wait_ready(2)
    with Receiver() as receiver:
        job = desk.submit(webhook={"url": receiver.url})
        for _ in range(3):
            services.queue.notify(StepMessage(Step.GENERATE, job["id"], 1))
        job = desk.finished(job["id"])
        delivery = delivered(desk, job)
        [hit] = receiver.hits
        data = verify(hit)["data"]
    assert hit.id == delivery["id"]
    assert (delivery["attempts"], delivery["http_status"], delivery["type"]) == (1, 200, "job.done")
    assert data["event"]["result"].items() <= job["result"].items()
    assert job["request"]["webhook"] == {"url": receiver.url, "events": ["done"]}
    assert job["result"]["final_answer"] == "two"


def test_a_worker_killed_before_it_stores_a_delivery_leaves_it_to_another_under_the_same_id(
    desk: Desk, services: Services, start_worker: StartWorker
) -> None:
    worker = start_worker(services).wait_ready()
    with Receiver(Answer(before=worker.kill)) as receiver:
        job = desk.submit(webhook={"url": receiver.url})
        receiver.wait_for(1, within_s=20)
        wait_until(lambda: worker.process.poll() is not None)
        [lost] = deliveries(desk, job)
        assert (lost["status"], lost["attempts"]) == ("pending", 1)
        assert desk.client.get(f"/v1/jobs/{job['id']}").json()["status"] == "succeeded"
        with services.database.write() as connection:
            connection.execute(webhook_deliveries.update().values(lease_expires_at=DbNow(-1)))
        start_worker(services)
        delivery = delivered(desk, job)
        assert [hit.id for hit in receiver.hits] == [delivery["id"]] * 2
        assert receiver.hits[0].body == receiver.hits[1].body
    assert delivery["attempts"] == 2


def test_a_stopped_worker_ends_what_it_sends(desk: Desk, services: Services, start_worker: StartWorker) -> None:
    worker = start_worker(services).wait_ready()
    with Receiver(Answer(before=worker.process.terminate)) as receiver:
        job = desk.submit(webhook={"url": receiver.url})
        receiver.wait_for(1, within_s=20)
        assert worker.stop() == 0
        assert delivered(desk, job)["attempts"] == 1
    assert SECRET.removeprefix("whsec_") not in worker.log_text()
    assert "t0p" not in worker.log_text()
