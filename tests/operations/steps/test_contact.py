"""After the database was away, a lease that has run out says nothing of its holder: nobody could extend it."""

from redraft.operations.steps.leases import LeaseHolder, take_over
from redraft.operations.steps.sweeper import sweep
from redraft.storage.jobs import step_claims
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver
from tests.support.waiting import wait_until


def test_contact_is_steady_at_first_and_again_after_one_lease(driver: Driver):
    holder = LeaseHolder(driver.services.settings.model_copy(update={"lease_s": 0.5}))
    assert holder.is_in_steady_contact
    holder.lose_contact()
    assert not holder.is_in_steady_contact
    holder.regain_contact()
    assert not holder.is_in_steady_contact
    wait_until(lambda: holder.is_in_steady_contact, what="one lease of contact")


def test_without_steady_contact_only_what_nobody_holds_is_rung_for(driver: Driver):
    held, free = driver.submit(), driver.submit()
    driver.set_back(held, lease_expires_at=-1.0, rung_at=-3600)
    driver.set_back(free, rung_at=-3600)
    sweep(driver.services, with_expired=False)
    assert (driver.row(held).ring_count, driver.row(free).ring_count) == (0, 1)
    sweep(driver.services)
    assert driver.row(held).ring_count == 1


def test_the_only_worker_of_a_database_takes_over_the_leases_of_the_one_before_at_once(driver: Driver):
    held, free = driver.submit(), driver.submit()
    driver.set_back(held, lease_expires_at=60.0)
    sweep(driver.services)
    assert driver.row(held).ring_count == 0
    take_over(driver.services)
    sweep(driver.services)
    assert (driver.row(held).ring_count, driver.row(free).lease_expires_at) == (1, None)


def test_a_step_that_is_due_does_not_wait_for_a_clock_that_was_set_back(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one"], evaluate=[0.9])
    job_id = driver.submit()
    row = driver.row(job_id)
    assert row.available_at <= row.rung_at
    driver.set_back(job_id, available_at=3600.0, rung_at=3600.5)
    sweep(driver.services)
    row = driver.row(job_id)
    assert row.ring_count == 1, "and nor does its ring"
    assert row.available_at <= row.rung_at
    driver.set_back(job_id, available_at=3600.0, rung_at=3600.5)
    driver.step(job_id)
    assert driver.row(job_id).step_no == 2
    driver.set_back(job_id, available_at=3600.0)
    driver.step(job_id)
    assert driver.row(job_id).step_no == 2, "what was put off waits"


def test_a_lost_or_released_step_does_not_wait_for_a_clock_that_was_set_back(driver: Driver):
    job_id = driver.submit()
    holder = LeaseHolder(driver.services.settings)

    def claim() -> None:
        with driver.services.database.write() as connection:
            given = {"owner": holder.owner, "lease_s": 60.0}
            assert step_claims.claim(connection, job_id, "generate", 1, **given) is not None

    claim()
    driver.set_back(job_id, available_at=3600.0, rung_at=-60.0, lease_expires_at=-1.0)
    sweep(driver.services)
    row = driver.row(job_id)
    assert (row.ring_count, row.available_at <= row.rung_at) == (1, True), "its worker was lost"
    claim()
    driver.set_back(job_id, available_at=3600.0)
    assert len(holder.leave(driver.services.database)) == 1
    row = driver.row(job_id)
    assert row.available_at <= row.rung_at, "its worker has stopped"


def test_the_next_step_is_due_although_the_clock_was_set_back(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one"], evaluate=[0.9])
    job_id = driver.submit()
    driver.set_back(job_id, available_at=3600.0, rung_at=3600.5)
    driver.step(job_id)
    row = driver.row(job_id)
    assert (row.step_no, row.available_at <= row.rung_at) == (2, True)
