"""What becomes of a step that raises. Provider failures never get here: the operations turn them into rows."""

from collections.abc import Generator
from contextlib import contextmanager

import structlog

from redraft.errors import Unavailable
from redraft.jobs import StepMessage
from redraft.operations.services import Services
from redraft.operations.steps import put_off_crashed

log = structlog.get_logger()


@contextmanager
def watch_over(services: Services, message: StepMessage) -> Generator[None]:
    """A missing database heals by itself: the lease runs out and the sweeper rings. A bug must not loop."""
    try:
        yield
    except Unavailable as error:
        log.warning("step_left_to_the_sweeper", job_id=message.job_id, step=message.step, reason=error.message)
    except Exception as error:
        log.exception("step_crashed", job_id=message.job_id, step=message.step)
        put_off_crashed(services, message, f"{type(error).__name__}: {error}"[:500])
