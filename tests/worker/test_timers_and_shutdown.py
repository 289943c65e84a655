"""What a stopping worker leaves to the others."""

from redraft.messages import INTERACTIVE_QUEUE
from redraft.operations.services import Services
from redraft.operations.steps.leases import LeaseHolder
from redraft.storage.jobs import step_claims
from tests.operations.driving import Driver
from tests.support.valkey import ValkeyServer
from worker.timers_and_shutdown import Schedule


def test_a_stopping_worker_notifies_the_others_of_its_steps(services: Services, valkey: ValkeyServer):
    driver, holder = Driver(services), LeaseHolder(services.settings)
    job_id = driver.submit()
    with services.database.write() as connection:
        assert step_claims.claim(connection, job_id, "generate", 1, owner=holder.owner, lease_s=60.0)
    with valkey.client() as client:
        before = client.llen(INTERACTIVE_QUEUE)
        Schedule(services, holder).stop()
        assert client.llen(INTERACTIVE_QUEUE) == before + 1
    assert driver.row(job_id).lease_owner is None
