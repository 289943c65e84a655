"""The tasks: decode a message, call one operation, let a table decide about failures."""

from collections.abc import Callable

from redraft.domain.states import Step
from redraft.jobs import StepMessage
from redraft.operations.evaluate import evaluate
from redraft.operations.generate import generate
from redraft.operations.leases import LeaseHolder
from redraft.operations.services import Services
from worker.app import celery_app, lease_holder, services
from worker.retries import watch_over

Operation = Callable[[Services, LeaseHolder, str, int], None]


@celery_app.task(name="redraft.generate")
def generate_step(job_id: str, step_no: int) -> None:
    run_step(StepMessage(Step.GENERATE, job_id, step_no))


@celery_app.task(name="redraft.evaluate")
def evaluate_step(job_id: str, step_no: int) -> None:
    run_step(StepMessage(Step.EVALUATE, job_id, step_no))


def run_step(message: StepMessage) -> None:
    operation: Operation = generate if message.step is Step.GENERATE else evaluate
    with watch_over(services, message):
        operation(services, lease_holder, message.job_id, message.step_no)
