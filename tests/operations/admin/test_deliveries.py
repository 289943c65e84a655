"""Deliveries of webhooks to a real receiver: signed, tried again after failures, and sent by one worker."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import update

from redraft.domain.admin.address_rules import Allowed
from redraft.domain.jobs.webhook_retries import ATTEMPTS_MAX
from redraft.operations.admin.deliveries import PER_RECEIVER_MAX, SLOW_AT_ONCE_MAX, Deliverer, DeliverySlots
from redraft.operations.jobs import webhooks
from redraft.operations.jobs.resources import WebhookDelivery
from redraft.outbound import Sender
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import webhook_deliveries
from redraft.storage.jobs import webhooks as rows
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver
from tests.operations.webhooks import MakeDriver, hook, only, send
from tests.support.receiver import LOOPBACK, SECRET, SIGNED, Answer, Receiver, verify
from tests.support.waiting import patient, wait_until


@pytest.fixture
def driver(make_driver: MakeDriver) -> Driver:
    return make_driver(**SIGNED)


def set_back(driver: Driver, **columns: Any) -> None:
    with driver.services.database.write() as connection:
        connection.execute(update(webhook_deliveries).values(**columns))


def make_due(driver: Driver) -> None:
    set_back(driver, next_at=DbNow(-1))


def run_out(driver: Driver) -> None:
    """Let all leases expire, as if the worker that claimed the deliveries had died."""
    set_back(driver, lease_expires_at=DbNow(-1))


def wait_s(delivery: WebhookDelivery) -> float:
    assert delivery.next_at is not None
    return (delivery.next_at - datetime.now(UTC)).total_seconds()


def test_an_end_is_delivered_once_and_signed(driver: Driver, receiver: Receiver, model_server: ModelServer):
    model_server.script(generate=["Paris."], evaluate=[0.9])
    job = driver.run_new(webhook=hook(receiver), metadata={"team": "docs"})
    send(driver.services)
    send(driver.services)
    [hit] = receiver.hits
    payload = verify(hit)
    delivery = only(driver, job.id)
    assert (hit.path, hit.headers["content-type"]) == ("/hook?token=t0p", "application/json")
    assert hit.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert hit.id == delivery.id
    assert payload["type"] == delivery.type == "job.done"
    data = payload["data"]
    assert (data["job_id"], data["url"], data["metadata"]) == (job.id, f"/v1/jobs/{job.id}", {"team": "docs"})
    told = driver.events(job.id)[-1].data
    assert {**told, "result": data["event"]["result"]} == data["event"]
    assert data["event"]["result"].items() <= told["result"].items()
    assert data["event"]["result"]["final_answer"] == "Paris."
    assert payload["timestamp"] == data["event"]["at"]
    assert (delivery.status, delivery.attempts, delivery.http_status) == ("delivered", 1, 200)
    assert (delivery.next_at, delivery.error) == (None, None)
    assert delivery.delivered_at is not None


# Case E14
@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 429, 500, 503])
def test_any_other_answer_is_tried_again(driver: Driver, status: int):
    with Receiver() as elsewhere, Receiver(Answer(status, {"Location": elsewhere.url})) as receiver:
        job_id = driver.submit(webhook=hook(receiver, "job.queued"))
        send(driver.services)
        delivery = only(driver, job_id)
        assert (delivery.status, delivery.attempts, delivery.http_status) == ("pending", 1, status)
        assert str(status) in (delivery.error or "")
        assert 3 < wait_s(delivery) < 7
        send(driver.services)
        assert len(receiver.hits) == 1
        make_due(driver)
        send(driver.services)
        assert only(driver, job_id).status == "delivered"
        assert elsewhere.hits == []
        first, second = receiver.hits
        assert (first.id, first.body) == (second.id, second.body)
        assert verify(first) == verify(second)


# Case E14
@pytest.mark.both_databases
def test_a_receiver_that_fails_twice_gets_the_same_delivery_three_times_and_then_none(driver: Driver):
    with Receiver(Answer(500), Answer(500)) as receiver:
        job_id = driver.run_new(webhook=hook(receiver)).id
        for _ in range(4):
            send(driver.services)
            if only(driver, job_id).status == "pending":
                make_due(driver)
        assert (only(driver, job_id).status, len(receiver.hits)) == ("delivered", 3)
        assert len({(hit.id, hit.body) for hit in receiver.hits}) == 1
        assert len([verify(hit) for hit in receiver.hits]) == 3


def test_the_schedule_comes_to_an_end_and_begins_anew_with_a_redelivery(driver: Driver):
    with Receiver(usual=Answer(500)) as receiver:
        job_id = driver.submit(webhook=hook(receiver, "job.queued"))
        for _ in range(ATTEMPTS_MAX + 2):
            if only(driver, job_id).status == "pending":
                make_due(driver)
            send(driver.services)
        delivery = only(driver, job_id)
        assert (delivery.status, delivery.attempts, delivery.next_at) == ("failed", ATTEMPTS_MAX, None)
        again = webhooks.redeliver(driver.services, job_id, delivery.id)
        assert (again.status, again.attempts) == ("pending", ATTEMPTS_MAX)
        send(driver.services)
        delivery = only(driver, job_id)
        assert (delivery.status, delivery.attempts) == ("pending", ATTEMPTS_MAX + 1)
        assert 3 < wait_s(delivery) < 7
        assert len({hit.id for hit in receiver.hits}) == 1


def test_retry_after_is_honoured_and_410_is_the_end(driver: Driver):
    with Receiver(Answer(503, {"Retry-After": "700"}), Answer(410)) as receiver:
        job_id = driver.submit(webhook=hook(receiver, "job.queued"))
        send(driver.services)
        assert 690 < wait_s(only(driver, job_id)) < 701
        make_due(driver)
        send(driver.services)
        delivery = only(driver, job_id)
        assert (delivery.status, delivery.attempts, delivery.http_status) == ("failed", 2, 410)


@pytest.mark.both_databases
def test_a_worker_that_dies_after_sending_leaves_an_entry_that_is_sent_again_under_its_id(
    driver: Driver, receiver: Receiver
):
    job_id = driver.submit(webhook=hook(receiver, "job.queued"))
    with driver.services.database.write() as connection:
        lost = rows.claim(connection, lease_s=60, except_receivers=())
    assert lost is not None
    send(driver.services)
    assert receiver.hits == []
    run_out(driver)
    send(driver.services)
    assert [hit.id for hit in receiver.hits] == [lost.delivery.id]
    with driver.services.database.write() as connection:
        assert not rows.close(connection, lost.delivery, {"status": "failed", "next_at": None})
    assert (only(driver, job_id).status, only(driver, job_id).attempts) == ("delivered", 2)


@pytest.mark.both_databases
def test_two_workers_do_not_send_the_same_one_at_once(driver: Driver):
    others = [Deliverer(driver.services) for _ in range(4)]
    with Receiver() as receiver:
        jobs = [driver.submit(webhook=hook(receiver, "job.queued")) for _ in range(6)]

        def is_done() -> bool:
            for each in others:
                each.send_due()
            return all(only(driver, job_id).status == "delivered" for job_id in jobs)

        wait_until(is_done, within_s=20)
        assert all(each.finish(10) for each in others)
        assert len({hit.id for hit in receiver.hits}) == len(receiver.hits) == 6


def test_a_slow_receiver_does_not_delay_others(driver: Driver, receiver: Receiver):
    go_on = threading.Event()
    with Receiver(usual=Answer(before=lambda: go_on.wait(patient(60)))) as slow:
        for _ in range(PER_RECEIVER_MAX + 20):
            driver.submit(webhook=hook(slow, "job.queued"))
        quick = driver.submit(webhook=hook(receiver, "job.queued"))
        deliverer = Deliverer(driver.services)
        deliverer.send_due()
        receiver.wait_for(1)
        wait_until(lambda: only(driver, quick).status == "delivered")
        assert len(slow.wait_for(PER_RECEIVER_MAX)) == PER_RECEIVER_MAX
        go_on.set()
        assert deliverer.finish(30)


def test_a_worker_without_the_secret_puts_off(driver: Driver, make_driver: MakeDriver, receiver: Receiver):
    job_id = driver.submit(webhook=hook(receiver, "job.queued"))
    send(make_driver(webhook_allow_private=LOOPBACK).services)
    delivery = only(driver, job_id)
    assert (delivery.status, receiver.hits) == ("pending", [])
    assert "REDRAFT_WEBHOOK_SECRET" in (delivery.error or "")


def test_while_a_secret_changes_both_fit(make_driver: MakeDriver, receiver: Receiver):
    old = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    driver = make_driver(webhook_secret=SecretStr(f"{SECRET} {old}"), webhook_allow_private=LOOPBACK)
    driver.submit(webhook=hook(receiver, "job.queued"))
    send(driver.services)
    assert verify(receiver.hits[0]) == verify(receiver.hits[0], old)


def test_a_name_that_leads_inside_by_then_is_refused(driver: Driver, receiver: Receiver):
    sender = Sender(Allowed(), resolver=lambda host, port: ["127.0.0.1"])
    services = replace(driver.services, sender=sender)
    job_id = Driver(services).submit(
        webhook={"url": f"http://hooks.example:{receiver.port}/", "events": ["job.queued"]}
    )
    send(services)
    delivery = only(driver, job_id)
    assert (delivery.status, delivery.attempts, receiver.hits) == ("failed", 1, [])
    assert "127.0.0.1" not in (delivery.error or "")
    assert "not public" in (delivery.error or "")


def test_a_closing_worker_begins_nothing(driver: Driver, receiver: Receiver):
    job_id = driver.submit(webhook=hook(receiver, "job.queued"))
    deliverer = Deliverer(driver.services)
    deliverer.close()
    deliverer.send_due()
    assert deliverer.finish(10)
    assert (only(driver, job_id).attempts, receiver.hits) == (0, [])


def test_what_nobody_foresaw_is_tried_again_like_any_failure(driver: Driver):
    def crash(_host: str, _port: int) -> list[str]:
        raise RuntimeError("not foreseen")

    services = replace(driver.services, sender=Sender(Allowed(), resolver=crash))
    job_id = Driver(services).submit(webhook={"url": "http://hooks.example/", "events": ["job.queued"]})
    send(services)
    delivery = only(driver, job_id)
    assert (delivery.status, delivery.attempts) == ("pending", 1)
    assert "RuntimeError" in (delivery.error or "")
    assert "not foreseen" not in (delivery.error or "")


def test_a_receiver_has_few_places_and_slow_ones_together_not_all():
    slots = DeliverySlots()
    for number in range(SLOW_AT_ONCE_MAX // PER_RECEIVER_MAX + 1):
        slots.record(f"slow{number}", is_slow=True)
    for number in range(SLOW_AT_ONCE_MAX // PER_RECEIVER_MAX):
        assert slots.spared() == [f"slow{n}" for n in range(number)]
        for _ in range(PER_RECEIVER_MAX):
            slots.enter(f"slow{number}")
    # One slow receiver has nothing in flight and waits too; a receiver that answers does not wait
    assert f"slow{SLOW_AT_ONCE_MAX // PER_RECEIVER_MAX}" in slots.spared()
    assert slots.has_room
    slots.leave("slow0")
    assert f"slow{SLOW_AT_ONCE_MAX // PER_RECEIVER_MAX}" not in slots.spared()
    slots.record("slow1", is_slow=False)
    assert "slow1" in slots.spared()
    slots.enter("quick")
    slots.leave("quick")
    assert not slots.wait_empty(0)
    assert slots.in_flight == SLOW_AT_ONCE_MAX - 1


def test_of_many_slow_receivers_the_latest_are_remembered():
    slots = DeliverySlots()
    for number in range(1000):
        slots.record(f"slow{number}", is_slow=True)
    for _ in range(SLOW_AT_ONCE_MAX):
        slots.enter("slow999")
    assert len(slots.spared()) == 200
    assert "slow0" not in slots.spared()
