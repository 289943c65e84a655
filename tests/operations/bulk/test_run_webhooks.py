"""Webhooks of runs: one delivery for each end, written with it, and sent to a real receiver."""

from collections.abc import Callable
from typing import Any

import pytest

from api.openapi import RunWebhookBody
from redraft.domain.bulk.run_requests import ResumeRun
from redraft.errors import NotFound
from redraft.operations.bulk import deletion, run_completion, runs, scheduler
from redraft.operations.bulk.run_resources import Run
from redraft.operations.jobs import webhooks
from redraft.operations.jobs.resources import WebhookDelivery
from redraft.settings import ModelPrice
from redraft.storage.jobs import webhooks as stored
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import now, rows, start, work_off
from tests.operations.bulk.test_stalled_runs import feed_and_work
from tests.operations.driving import Driver
from tests.operations.webhooks import send
from tests.support.receiver import SIGNED, Answer, Receiver, verify
from tests.support.waiting import wait_until


@pytest.fixture
def driver(make_driver: Callable[..., Driver], model_server: ModelServer) -> Driver:
    model_server.script(generate=["SECRET ANSWER"], evaluate=[0.9])
    return make_driver(**SIGNED)


def begin(driver: Driver, receiver: Receiver, count: int = 2, **fields: Any) -> Run:
    return start(driver, rows(count), webhook={"url": receiver.url}, **fields)


def deliveries(driver: Driver, run: Run) -> list[WebhookDelivery]:
    return webhooks.list_deliveries(driver.services, run.id)


def test_the_end_of_a_run_is_sent_once_signed_and_without_an_answer(driver: Driver, receiver: Receiver):
    run = begin(driver, receiver, name="nightly")
    assert (run.webhook and run.webhook.model_dump()) == {"url": receiver.url, "events": ["run.finished"]}
    assert deliveries(driver, run) == []
    ended = work_off(driver, run)
    scheduler.schedule_all(driver.services)
    send(driver.services)
    send(driver.services)
    [hit] = receiver.hits
    [delivery] = deliveries(driver, run)
    payload = verify(hit)
    assert RunWebhookBody.model_validate(payload).model_dump(mode="json") == payload
    assert (delivery.id, delivery.run_id, delivery.job_id, delivery.status) == (hit.id, run.id, None, "delivered")
    assert (payload["type"], payload["timestamp"]) == ("run.finished", payload["data"]["event"]["at"])
    assert (payload["data"]["run_id"], payload["data"]["url"]) == (run.id, f"/v1/runs/{run.id}")
    shown = ended.model_dump(mode="json")
    names = ("id", "name", "status", "stop_reason", "error", "counts", "usage", "version")
    event = payload["data"]["event"]
    assert {name: event[name] for name in names} == {name: shown[name] for name in names}
    assert (event["name"], event["counts"]["accepted"], event["at"]) == ("nightly", 2, shown["finished_at"])
    assert b"SECRET ANSWER" not in hit.body


def test_a_run_without_a_webhook_has_no_delivery(driver: Driver):
    assert deliveries(driver, work_off(driver, start(driver, rows(1)))) == []


def test_a_canceled_run_is_sent_once_and_again_when_it_is_resumed_and_ends(driver: Driver, receiver: Receiver):
    run = begin(driver, receiver)
    runs.cancel_run(driver.services, run.id)
    runs.cancel_run(driver.services, run.id)
    [canceled] = deliveries(driver, run)
    runs.resume_run(driver.services, run.id, ResumeRun())
    assert deliveries(driver, run) == [canceled]
    work_off(driver, run)
    runs.resume_run(driver.services, run.id, ResumeRun(retry="errors"))
    first, second = deliveries(driver, run)
    assert (first, first.seq < second.seq) == (canceled, True)
    send(driver.services)
    by_seq = sorted((hit.json["data"] for hit in receiver.hits), key=lambda data: data["seq"])
    ends = [(data["event"]["status"], data["event"]["stop_reason"]) for data in by_seq]
    assert ends == [("canceled", "canceled"), ("succeeded", "finished")]
    counts = now(driver, run).counts
    assert by_seq[1]["event"]["counts"] == counts.model_dump()


def test_a_run_that_its_budget_ends_is_sent(make_driver: Callable[..., Driver], receiver: Receiver):
    prices = {name: ModelPrice(input=10, output=10) for name in ("openai:writer", "openai:judge")}
    driver = make_driver(prices=prices, **SIGNED)
    run = work_off(driver, begin(driver, receiver, max_cost_usd=0.001))
    send(driver.services)
    [hit] = receiver.hits
    assert hit.json["data"]["event"]["stop_reason"] == run.stop_reason == "budget_exhausted"


def test_a_run_that_is_given_up_is_sent_with_its_error(make_driver: Callable[..., Driver], receiver: Receiver):
    keyed = make_driver(**SIGNED)
    keyless = make_driver(anthropic_api_key=None, anthropic_base_url=None, run_give_up_s=0.1, sweep_s=0.1)
    row = b'{"custom_id": "foreign", "instruct": "Q", "model": "anthropic:claude-haiku-4-5"}\n'
    run = start(keyed, rows(1) + row, webhook={"url": receiver.url}, max_in_flight=1)
    wait_until(lambda: feed_and_work(keyless, run).status != "running", within_s=20, what="the end of the run")
    send(keyed.services)
    [hit] = receiver.hits
    event = hit.json["data"]["event"]
    assert (event["status"], event["stop_reason"], event["error"]["code"]) == ("canceled", "error", "provider_auth")


def test_an_end_that_is_rolled_back_leaves_no_delivery(driver: Driver, receiver: Receiver):
    run = begin(driver, receiver)
    with driver.services.database.write() as connection:
        run_completion.end_run(connection, run.id, "canceled", "canceled")
        assert len(stored.list_of(connection, run.id)) == 1
        connection.rollback()
    assert (now(driver, run).status, deliveries(driver, run)) == ("running", [])


def test_a_delivery_is_the_same_bytes_when_it_is_sent_again_after_the_run_went_on(driver: Driver, receiver: Receiver):
    run = begin(driver, receiver)
    runs.cancel_run(driver.services, run.id)
    send(driver.services)
    runs.resume_run(driver.services, run.id, ResumeRun())
    [delivery] = deliveries(driver, run)
    again = webhooks.redeliver(driver.services, run.id, delivery.id)
    assert (again.id, again.status) == (delivery.id, "pending")
    send(driver.services)
    first, second = receiver.hits
    assert (first.id, first.body) == (second.id, second.body)
    for owner_id, delivery_id in ((run.id, "whd_none"), ("run_none", delivery.id), ("job_none", delivery.id)):
        with pytest.raises(NotFound):
            webhooks.redeliver(driver.services, owner_id, delivery_id)
    with pytest.raises(NotFound, match="run_none"):
        webhooks.list_deliveries(driver.services, "run_none")


@pytest.mark.both_databases
def test_a_failed_delivery_of_a_run_is_listed_among_all_and_goes_with_the_run(driver: Driver, receiver: Receiver):
    receiver.usual = Answer(410)
    run = work_off(driver, begin(driver, receiver, 1))
    send(driver.services)
    lines, _ = webhooks.latest_deliveries(driver.services, only_failed=True)
    assert [(line.run_id, line.type, line.http_status) for line in lines] == [(run.id, "run.finished", 410)]
    deletion.delete_run(driver.services, run.id)
    assert webhooks.latest_deliveries(driver.services) == ([], None)
