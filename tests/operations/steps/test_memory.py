"""Jobs leave nothing in the memory of the process that executes them."""

from redraft.domain.jobs.states import Step
from redraft.messages import StepMessage
from redraft.operations.steps.engine import Engine
from redraft.operations.steps.executor import run
from redraft.operations.steps.leases import LeaseHolder
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver
from tests.support.held import members_held_by


def test_jobs_leave_nothing_in_the_containers_of_engine_leases_and_services(
    driver: Driver, model_server: ModelServer
) -> None:
    model_server.script(generate=["First.", "Second."], evaluate=[0.4, 0.9])
    engine = Engine()
    holder = LeaseHolder(driver.services.settings, abort=engine.abort)

    def work_off(job_id: str) -> None:
        message = StepMessage(Step.GENERATE, job_id, 1)
        engine.run(job_id, run(driver.services, holder, message, goes_on=lambda: True))

    # The first job fills caches
    work_off(driver.submit())
    before = members_held_by(engine, holder, driver.services)
    for number in range(5):
        work_off(driver.submit(instruct=f"Task {number}", stream=number % 2 == 0))
    after = members_held_by(engine, holder, driver.services)
    engine.close()

    assert after == before
