"""One writer, and nothing paid twice: holders that die, come late, or meet."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import update

from redraft.domain.jobs.states import Step
from redraft.messages import StepMessage
from redraft.operations.jobs.lifecycle import cancel
from redraft.operations.steps.context import message_of
from redraft.operations.steps.executor import run
from redraft.operations.steps.leases import LeaseHolder
from redraft.operations.steps.sweeper import sweep
from redraft.operations.steps.unexpected_errors import StepCrashed, reschedule
from redraft.settings import ModelPrice
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import calls
from tests.model_server import ModelServer, Reply
from tests.operations.driving import ENGINE, Driver, Killed, kill
from tests.support.waiting import patient, wait_until

pytestmark = pytest.mark.both_databases

Interrupted = Callable[[Callable[[], None]], Driver]


def test_a_duplicate_message_does_nothing(driver: Driver, model_server: ModelServer):
    job_id = driver.submit()
    held = driver.row(job_id)
    driver.step(job_id)
    before = driver.row(job_id)
    for step_no in (held.step_no, before.step_no + 1):
        message = StepMessage(Step.GENERATE, job_id, step_no)
        ENGINE.run(job_id, run(driver.services, LeaseHolder(driver.services.settings), message, goes_on=lambda: False))
    assert driver.row(job_id) == before
    assert len(model_server.requests()) == 1


def test_a_closing_worker_takes_no_step(driver: Driver, model_server: ModelServer):
    job_id = driver.submit()
    holder = LeaseHolder(driver.services.settings)
    holder.close()
    driver.step(job_id, holder)
    assert driver.row(job_id).status == "queued"
    assert model_server.requests() == []


def test_a_step_in_somebodys_hands_is_not_done_a_second_time(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    job_id = driver.submit()
    interrupted(lambda: driver.step(job_id)).step(job_id)
    assert len(model_server.requests()) == 1
    assert len(driver.iterations(job_id)) == 1


@pytest.mark.parametrize("steps_before", [0, 1])
def test_after_a_crash_between_call_and_finish_that_one_call_is_repeated_and_shown_as_lost(
    make_driver: Callable[..., Driver], model_server: ModelServer, steps_before: int
):
    price = ModelPrice(input=1.0, output=10.0)
    driver = make_driver(prices={"openai:writer": price, "openai:judge": price})
    job_id = driver.submit(iter_max=1)
    for _ in range(steps_before):
        driver.step(job_id)
    with pytest.raises(Killed):
        driver.interrupted(kill).step(job_id)
    assert driver.call_statuses(job_id)[-1] == "started"
    driver.step(job_id)
    assert len(model_server.requests()) == steps_before + 1, "the lease still holds"

    driver.expire_lease(job_id)
    job = driver.run(job_id)

    assert (job.stop_reason, job.usage.calls) == ("accepted", 3)
    assert driver.call_statuses(job_id).count("unknown") == 1
    lost = next(call for call in driver.calls(job_id) if call.error)
    assert lost.error is not None
    assert (lost.status, lost.error["code"]) == ("failed", "worker_lost")
    assert job.usage.cost_usd is None
    assert driver.event_types(job_id).count("iteration.started") == 1


def test_a_lost_call_that_is_found_again_has_its_price(make_driver: Callable[..., Driver]):
    def meanwhile() -> None:
        driver.expire_lease(job_id)
        driver.step(job_id)
        assert driver.job(job_id).usage.cost_usd is None

    price = ModelPrice(input=1.0, output=10.0)
    driver = make_driver(prices={"openai:writer": price, "openai:judge": price})
    job_id = driver.submit()
    driver.interrupted(meanwhile).step(job_id)
    assert driver.job(job_id).usage.cost_usd is not None


def test_a_late_worker_changes_no_state_and_its_reply_is_kept_as_a_duplicate(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    def meanwhile() -> None:
        driver.expire_lease(job_id)
        driver.step(job_id)

    model_server.script(generate=["late", "first"], evaluate=[0.9])
    job_id = driver.submit()
    interrupted(meanwhile).step(job_id)

    (iteration,) = driver.iterations(job_id)
    assert iteration.answer == "first"
    assert driver.call_statuses(job_id) == ["dup", "ok"]
    job = driver.run(job_id)
    assert job.usage.calls == 3
    assert len(driver.iterations(job_id)) == 1


def finish_first(driver: Driver, interrupted: Interrupted, job_id: str) -> None:
    """A worker loses its lease, another takes the step, and the first one's reply is stored first."""
    has_asked, is_stored = threading.Event(), threading.Event()

    def wait_for_the_first() -> None:
        has_asked.set()
        assert is_stored.wait(patient(10))

    second = threading.Thread(target=lambda: interrupted(wait_for_the_first).step(job_id))

    def meanwhile() -> None:
        driver.expire_lease(job_id)
        second.start()
        assert has_asked.wait(patient(10))

    interrupted(meanwhile).step(job_id)
    is_stored.set()
    second.join(patient(10))


def test_a_reply_that_was_stored_first_is_used_whoever_stored_it(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    model_server.script(generate=["stored first", "stored second"], evaluate=[0.9])
    job_id = driver.submit()
    finish_first(driver, interrupted, job_id)
    driver.step(job_id)

    assert driver.call_statuses(job_id) == ["ok", "dup"]
    (iteration,) = driver.iterations(job_id)
    assert iteration.answer == "stored first"
    assert driver.run(job_id).usage.calls == 3


def test_a_verdict_that_was_stored_first_is_used_whoever_stored_it(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    model_server.script(evaluate=[0.9, 0.1])
    job_id = driver.submit(iter_max=1)
    driver.step(job_id)
    finish_first(driver, interrupted, job_id)
    driver.step(job_id)

    assert driver.scores(job_id) == [0.9]
    assert driver.job(job_id).stop_reason == "accepted"
    assert driver.call_statuses(job_id) == ["ok", "ok", "dup"]
    driver.check_order(job_id)


def test_a_reply_that_a_late_worker_stored_spares_the_next_one_its_call(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    def meanwhile() -> None:
        driver.expire_lease(job_id)
        with pytest.raises(Killed):
            interrupted(kill).step(job_id)

    model_server.script(generate=["kept", "lost"], evaluate=[0.9])
    job_id = driver.submit()
    interrupted(meanwhile).step(job_id)
    assert driver.iterations(job_id) == []
    driver.expire_lease(job_id)
    # Lost twice: whoever does it now is alone
    driver.step(job_id, LeaseHolder(driver.services.settings, is_alone=True))
    job = driver.run(job_id)

    assert job.result is not None
    assert job.result["final_answer"] == "kept"
    assert len(model_server.requests("generate")) == 2
    assert driver.call_statuses(job_id) == ["ok", "unknown", "ok"]


@pytest.mark.parametrize("steps_before", [0, 1])
def test_a_job_that_is_canceled_during_a_call_stays_canceled_and_keeps_the_reply_in_its_ledger(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer, steps_before: int
):
    job_id = driver.submit(iter_max=5)
    for _ in range(steps_before):
        driver.step(job_id)
    interrupted(lambda: cancel(driver.services, job_id)).step(job_id)

    job = driver.job(job_id)
    assert (job.status, job.stop_reason) == ("canceled", "canceled")
    assert len(driver.iterations(job_id)) == steps_before
    assert driver.call_statuses(job_id) == ["ok"] * (steps_before + 1)
    assert driver.scores(job_id) == [None] * steps_before
    driver.check_order(job_id)
    driver.step(job_id)
    assert len(model_server.requests()) == steps_before + 1


def test_a_verdict_that_cannot_be_used_is_kept_in_the_ledger_of_a_job_that_was_canceled(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    model_server.script(evaluate=["garbage"])
    job_id = driver.submit()
    driver.step(job_id)
    interrupted(lambda: cancel(driver.services, job_id)).step(job_id)

    assert driver.call_statuses(job_id) == ["ok", "ok"]
    assert len(model_server.requests("evaluate")) == 1
    driver.check_order(job_id)


def test_the_sweeper_writes_off_the_calls_of_a_job_that_ended_while_its_worker_was_dead(
    driver: Driver, interrupted: Interrupted
):
    job_id = driver.submit()
    with pytest.raises(Killed):
        interrupted(kill).step(job_id)
    cancel(driver.services, job_id)
    sweep(driver.services)
    assert driver.call_statuses(job_id) == ["started"]

    with driver.services.database.write() as connection:
        connection.execute(update(calls).values(started_at=DbNow(-60)))
    sweep(driver.services)
    assert driver.call_statuses(job_id) == ["started"], "a live worker has a lease's time to abort it"
    driver.set_back(job_id, finished_at=-driver.services.settings.lease_s - 1)
    sweep(driver.services)
    assert driver.call_statuses(job_id) == ["unknown"]
    assert driver.job(job_id).usage.cost_usd is None
    driver.check_order(job_id)


def _pass_deadline(driver: Driver, job_id: str) -> None:
    driver.set_back(job_id, deadline_at=-1)
    sweep(driver.services)


def _crash_unstored(driver: Driver, job_id: str) -> None:
    row = driver.row(job_id)
    reschedule(driver.services, StepCrashed(message_of(row), row.lease_token, is_paid=True), "No space.")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda driver, job_id: cancel(driver.services, job_id), "canceled"),
        (_pass_deadline, "deadline_exceeded"),
        (_crash_unstored, "error"),
    ],
)
def test_a_job_whose_worker_was_lost_ends_with_its_calls(
    driver: Driver, interrupted: Interrupted, end: Callable[[Driver, str], object], reason: str
):
    job_id = driver.submit()
    with pytest.raises(Killed):
        interrupted(kill).step(job_id)
    if reason != "error":
        driver.expire_lease(job_id)
    end(driver, job_id)
    assert driver.job(job_id).stop_reason == reason
    assert driver.call_statuses(job_id) == ["unknown"]
    driver.check_order(job_id)


def test_a_cancel_from_another_thread_ends_the_job_while_its_call_hangs(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(fault="hang")])
    job_id = driver.submit(limits={"deadline_s": 2})
    worker = threading.Thread(target=lambda: driver.step(job_id))
    worker.start()
    wait_until(model_server.requests, what="the call")
    _, is_canceled = cancel(driver.services, job_id)
    assert is_canceled
    assert driver.job(job_id).status == "canceled"
    worker.join(patient(20))
    assert driver.job(job_id).status == "canceled"
    assert driver.call_statuses(job_id) == ["error"]
    driver.check_order(job_id)


def test_many_workers_on_one_job_make_each_call_once(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.3, 0.5, 0.9])
    job_id = driver.submit()

    def work() -> None:
        while driver.row(job_id).finished_at is None:
            driver.step(job_id)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(patient(30))
    assert [asked.role for asked in model_server.requests()] == ["generate", "evaluate"] * 3
    assert driver.job(job_id).stop_reason == "accepted"
    driver.check_order(job_id)


def test_a_heartbeat_extends_what_is_held_and_forgets_what_was_lost(driver: Driver, interrupted: Interrupted):
    settings = driver.services.settings
    holder, seen = LeaseHolder(settings), []

    def meanwhile() -> None:
        token = driver.row(job_id).lease_token
        driver.set_back(job_id, lease_expires_at=1.0)
        holder.beat(driver.services.database)
        lease_ends_at = driver.row(job_id).lease_expires_at
        assert lease_ends_at is not None
        seen.append((lease_ends_at - driver.row(job_id).available_at).total_seconds() > settings.lease_s / 2)
        assert holder.may_call(job_id, token)
        cancel(driver.services, job_id)
        holder.beat(driver.services.database)
        assert not holder.may_call(job_id, token)
        assert holder.in_flight == 1, "what it called for is still out"

    job_id = driver.submit()
    interrupted(meanwhile).step(job_id, holder)
    assert seen == [True]
    assert holder.in_flight == 0
