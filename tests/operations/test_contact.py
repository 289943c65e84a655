"""After the database was away, a lease that has run out says nothing of its holder: nobody could extend it."""

from redraft.operations.leases import LeaseHolder
from redraft.operations.sweep import sweep
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
