"""Handles exceptions of a step. A failure of a provider raises no exception here, because the step stores it."""

from collections.abc import Generator
from contextlib import contextmanager

import structlog

from redraft.errors import Unavailable
from redraft.operations.services import Services
from redraft.operations.steps.unexpected_errors import StepCrashed, reschedule

log = structlog.get_logger()


@contextmanager
def handle_failures(services: Services, job_id: str) -> Generator[None]:
    """Reschedule a crashed step. If the database fails, the lease expires, and the sweeper recovers the step."""
    try:
        try:
            yield
        except StepCrashed as crash:
            log.exception("step_crashed", job_id=job_id, step=crash.message.step)
            reschedule(services, crash, type(crash.__cause__).__name__)
    except Unavailable as error:
        log.warning("step_left_to_the_sweeper", job_id=job_id, reason=error.message)
