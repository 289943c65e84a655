"""The entries of a job's webhook: written with its events, listed, and sent again when asked."""

from contextlib import suppress

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from redraft.domain.jobs.requests import ContinueJob
from redraft.domain.jobs.webhooks import EVENT_TYPES
from redraft.errors import Invalid, NotFound
from redraft.operations.jobs import lifecycle, webhooks
from redraft.operations.steps.sweeper import sweep
from redraft.storage.jobs import events, transitions
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver
from tests.operations.webhooks import MakeDriver, deliveries, hook, only, send
from tests.support.receiver import LOOPBACK, SECRET, SIGNED, Receiver


@pytest.fixture
def driver(make_driver: MakeDriver) -> Driver:
    return make_driver(**SIGNED)


@pytest.mark.both_databases
def test_each_event_that_is_asked_for_has_its_entry_and_no_other(
    driver: Driver, receiver: Receiver, model_server: ModelServer
):
    model_server.script(evaluate=[0.2, 0.9])
    job = driver.run_new(webhook=hook(receiver, *EVENT_TYPES))
    found = [(each.seq, each.type) for each in driver.events(job.id)]
    assert {kind for _, kind in found} <= set(EVENT_TYPES)
    assert [(each.seq, each.type) for each in deliveries(driver, job.id)] == [
        (seq, kind if kind.startswith("job.") else f"job.{kind}") for seq, kind in found
    ]
    some = driver.run_new(webhook=hook(receiver, "job.started", "done"))
    assert [each.type for each in deliveries(driver, some.id)] == ["job.started", "job.done"]


def test_a_job_without_a_webhook_costs_no_statement(driver: Driver, receiver: Receiver):
    told: list[str] = []
    event.listen(driver.services.database.engine, "before_cursor_execute", lambda *given: told.append(given[2]))
    driver.run_new()
    assert len(told) > 10
    assert not any("webhook" in statement for statement in told)
    driver.run_new(webhook=hook(receiver))
    assert any("INSERT INTO webhook_deliveries" in statement for statement in told)


@pytest.mark.both_databases
def test_every_way_to_an_end_has_its_entry(driver: Driver, receiver: Receiver):
    canceled, late = driver.submit(webhook=hook(receiver)), driver.submit(webhook=hook(receiver))
    lifecycle.cancel(driver.services, canceled)
    driver.set_back(late, deadline_at=-60)
    sweep(driver.services)
    expired = driver.submit_evaluation("An answer.", webhook=hook(receiver))
    driver.set_back(expired, deadline_at=-1)
    driver.step(expired)
    for job_id in (canceled, late, expired):
        assert only(driver, job_id).type == "job.done"
    send(driver.services)
    send(driver.services)
    assert {hit.json["data"]["job_id"] for hit in receiver.hits} == {canceled, late, expired}


def test_a_continuation_is_told_to_the_same_webhook(driver: Driver, receiver: Receiver, model_server: ModelServer):
    model_server.script(evaluate=[0.1, 0.9])
    job = driver.run_new(iter_max=1, webhook=hook(receiver, "done", "job.continued"))
    lifecycle.continue_job(driver.services, job.id, ContinueJob(iter_max=1))
    driver.run(job.id)
    assert [each.type for each in deliveries(driver, job.id)] == ["job.done", "job.continued", "job.done"]


@pytest.mark.both_databases
def test_a_unit_of_work_that_fails_leaves_no_entry(driver: Driver, receiver: Receiver):
    job_id = driver.submit(webhook=hook(receiver))
    row = driver.row(job_id)
    with suppress(IntegrityError), driver.services.database.write() as connection:
        first = transitions.change(connection, job_id, {}, when=transitions.is_live(), new_events=1)
        assert first
        events.add(connection, row, first, [("done", {"message": "m", "at": "now"})])
        events.add(connection, row, first, [("done", {"message": "twice", "at": "now"})])
    assert deliveries(driver, job_id) == []
    assert not driver.services.database.changed_tables["webhooks"].is_set()


def test_news_are_told_after_the_commit_of_an_entry_only(driver: Driver, receiver: Receiver):
    changed = driver.services.database.changed_tables["webhooks"]
    driver.run_new()
    driver.submit(webhook=hook(receiver))
    assert not changed.is_set()
    driver.submit(webhook=hook(receiver, "job.queued"))
    assert changed.is_set()


def test_a_delivered_one_is_sent_again_when_asked(driver: Driver, receiver: Receiver):
    job_id = driver.submit(webhook=hook(receiver, "job.queued"))
    send(driver.services)
    webhooks.redeliver(driver.services, job_id, only(driver, job_id).id)
    send(driver.services)
    assert len(receiver.hits) == 2
    assert only(driver, job_id).status == "delivered"


def test_what_is_not_there_cannot_be_redelivered(driver: Driver, receiver: Receiver):
    mine, other = (driver.submit(webhook=hook(receiver, "job.queued")) for _ in range(2))
    with pytest.raises(NotFound):
        webhooks.redeliver(driver.services, mine, only(driver, other).id)
    with pytest.raises(NotFound):
        webhooks.list_deliveries(driver.services, "job_none")


def test_without_a_secret_a_webhook_is_refused(make_driver: MakeDriver, receiver: Receiver):
    driver = make_driver(webhook_allow_private=LOOPBACK)
    with pytest.raises(Invalid) as refused:
        driver.submit(webhook=hook(receiver))
    assert refused.value.code == "webhooks_not_configured"


def test_the_secret_is_in_no_resource_and_no_row(driver: Driver, receiver: Receiver):
    job_id = driver.submit(webhook=hook(receiver, "job.queued"))
    send(driver.services)
    shown = driver.job(job_id).model_dump_json() + only(driver, job_id).model_dump_json()
    assert driver.job(job_id).request["webhook"] == hook(receiver, "job.queued")
    assert SECRET.removeprefix("whsec_") not in shown
