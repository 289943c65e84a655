"""The tasks: decode a message, call one operation, let a table decide about failures."""

from redraft.domain.states import Step
from redraft.jobs import StepMessage
from redraft.operations.running import run
from worker.app import celery_app, lease_holder, services
from worker.retries import watch_over


@celery_app.task(name="redraft.generate")
def generate_step(job_id: str, step_no: int) -> None:
    run_step(StepMessage(Step.GENERATE, job_id, step_no))


@celery_app.task(name="redraft.evaluate")
def evaluate_step(job_id: str, step_no: int) -> None:
    run_step(StepMessage(Step.EVALUATE, job_id, step_no))


def run_step(message: StepMessage) -> None:
    with watch_over(services, message.job_id):
        run(services, lease_holder, message, goes_on=lambda: not lease_holder.is_closing)
