"""A step that loses its holders again and again is first set apart, then ended."""

from collections.abc import Callable

import pytest

from redraft.operations.steps.leases import LeaseHolder
from redraft.operations.steps.sweeper import sweep
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver, Killed

Interrupted = Callable[[Callable[[], None]], Driver]


def kill() -> None:
    raise Killed


@pytest.fixture
def lose(driver: Driver, interrupted: Interrupted) -> Callable[..., None]:
    """The holder of the job's step is gone, and its lease has run out."""

    def lose(job_id: str, holder: LeaseHolder | None = None) -> None:
        with pytest.raises(Killed):
            interrupted(kill).step(job_id, holder)
        driver.set_back(job_id, lease_expires_at=-1.0, rung_at=-3600)

    return lose


@pytest.fixture
def alone(driver: Driver) -> LeaseHolder:
    return LeaseHolder(driver.services.settings, is_alone=True)


def test_after_two_lost_leases_only_a_process_of_its_own_may_take_the_step(
    driver: Driver, model_server: ModelServer, lose: Callable[..., None], alone: LeaseHolder
):
    model_server.script(generate=["one"], evaluate=[0.9])
    job_id = driver.submit()
    lose(job_id)
    lose(job_id)
    driver.step(job_id)
    assert driver.row(job_id).step_no == 1, "a worker with others in its hands must not take it"

    assert sweep(driver.services).suspects == [], "no place for it here"
    (suspect,) = sweep(driver.services, suspects_max=1).suspects
    assert suspect.job_id == job_id
    assert sweep(driver.services, suspects_max=1).suspects == [], "rung for already"

    driver.step(job_id, alone)
    assert (driver.row(job_id).step_no, driver.row(job_id).lost_leases) == (2, 0)
    assert driver.run(job_id).stop_reason == "accepted"


# Case HB-D2
def test_a_step_lost_once_more_alone_ends_its_job(
    driver: Driver, model_server: ModelServer, lose: Callable[..., None], alone: LeaseHolder
):
    job_id = driver.submit()
    lose(job_id)
    lose(job_id)
    sweep(driver.services)
    assert driver.job(job_id).status == "running"
    lose(job_id, alone)
    driver.step(job_id, alone)
    assert driver.row(job_id).lost_leases == 2, "it is not even tried again"

    sweep(driver.services, with_expired=False)
    assert driver.job(job_id).status == "running", "after an outage an expired lease says nothing"
    sweep(driver.services)
    job = driver.job(job_id)
    assert (job.status, job.error and job.error["code"]) == ("failed", "worker_lost")
    assert "3 times in a row" in (job.error or {})["detail"]
    assert driver.event_types(job_id)[-1] == "done"
    assert len(model_server.requests()) == 3
    assert {(call.status, (call.error or {})["code"]) for call in driver.calls(job_id)} == {("failed", "worker_lost")}
    assert set(driver.call_statuses(job_id)) == {"unknown"}, "a call of an ended job is ended"
    driver.check_order(job_id)


def test_a_suspect_whose_process_claimed_nothing_waits_no_longer_than_before(
    driver: Driver, model_server: ModelServer, lose: Callable[..., None]
):
    job_id = driver.submit()
    lose(job_id)
    lose(job_id)
    pause_s = driver.services.settings.ring_again_s
    for _ in range(4):
        assert [each.job_id for each in sweep(driver.services, suspects_max=1).suspects] == [job_id]
        assert sweep(driver.services, suspects_max=1).suspects == []
        driver.set_back(job_id, rung_at=-pause_s - 0.1)


def test_a_lost_worker_is_told_with_the_calls_that_it_had_in_flight(
    driver: Driver, model_server: ModelServer, lose: Callable[..., None]
):
    model_server.script(generate=["one"], evaluate=[0.9])
    job_id = driver.submit()
    lose(job_id)
    assert driver.run(job_id).stop_reason == "accepted"
    (told,) = [event for event in driver.events(job_id) if event.type == "step.retrying"]
    assert (told.data["code"], told.data["step"], told.data["iteration"]) == ("worker_lost", "generate", 1)
    assert "a call in flight" in told.data["message"]


def test_an_ended_suspect_with_an_answer_keeps_it(
    driver: Driver, model_server: ModelServer, lose: Callable[..., None], alone: LeaseHolder
):
    model_server.script(generate=["one"])
    job_id = driver.submit()
    driver.step(job_id)
    for holder in (None, None, alone):
        lose(job_id, holder)
    sweep(driver.services)
    job = driver.job(job_id)
    assert (job.status, job.stop_reason) == ("succeeded", "error")
    assert job.result is not None
    assert (job.result["final_answer"], job.result["success"]) == ("one", False)


def test_leases_that_are_given_back_are_not_lost(driver: Driver, interrupted: Interrupted):
    job_id = driver.submit()
    for _ in range(4):
        holder = LeaseHolder(driver.services.settings)
        with pytest.raises(Killed):
            interrupted(kill).step(job_id, holder)
        holder.leave(driver.services.database)
    assert driver.row(job_id).lost_leases == 0
    driver.run(job_id)
