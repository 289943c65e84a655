"""The tasks. Each task decodes its message and begins the step."""

from celery.worker.control import control_command

from redraft.domain.jobs.states import Step
from redraft.messages import CANARY_TASK, HEARTBEAT_COMMAND, StepMessage
from worker.app import begin_step, celery_app, schedule, watchdog
from worker.consumer import begun


@celery_app.task(name="redraft.generate")
def generate_step(job_id: str, step_no: int) -> None:
    _run(StepMessage(Step.GENERATE, job_id, step_no))


@celery_app.task(name="redraft.evaluate")
def evaluate_step(job_id: str, step_no: int) -> None:
    _run(StepMessage(Step.EVALUATE, job_id, step_no))


@celery_app.task(name="redraft.audit")
def audit_step(job_id: str, step_no: int) -> None:
    _run(StepMessage(Step.AUDIT, job_id, step_no))


@celery_app.task(name=CANARY_TASK)
def canary() -> None:
    watchdog.reset()


@control_command(name=HEARTBEAT_COMMAND)
def beat_now(_state: object) -> None:
    schedule.beat_now()


def _run(message: StepMessage) -> None:
    watchdog.reset()
    begun.put(begin_step(message))
