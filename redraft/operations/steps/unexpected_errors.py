"""Handles steps that raise an unforeseen exception, and steps whose replies cannot be validated now."""

import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial

import structlog
from sqlalchemy import Connection

from redraft.domain.calls.backoff import retry_wait_s
from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.states import StopReason
from redraft.errors import Unavailable
from redraft.messages import StepMessage
from redraft.operations.calls.ledger import RECORD_REPLY_S, record_outcomes
from redraft.operations.calls.model_calls import Outcome
from redraft.operations.request_views import readable_request, step_iteration
from redraft.operations.results.completion import announce, close_orphaned_calls, complete
from redraft.operations.results.job_results import Event, ending
from redraft.operations.services import Services
from redraft.operations.steps.context import StepContext
from redraft.sandbox.fair_queue import Busy
from redraft.storage.engine.columns import DbNow
from redraft.storage.jobs import events, history, jobs, transitions

log = structlog.get_logger()

_BUSY_WAIT_S = 2.0


class StepCrashed(Exception):  # noqa: N818 - named after the event, like a state
    """A step raised an unexpected exception; the cause is chained.

    Attributes:
        message: the message of the step.
        token: the token of the step's lease; None if the step was not claimed yet.
        is_paid: whether the calls of the step were made, and their outcomes could not be stored.
    """

    def __init__(self, message: StepMessage, token: int | None, *, is_paid: bool) -> None:
        super().__init__(f"Step {message.step_no} ({message.step}) of job {message.job_id} crashed.")
        self.message = message
        self.token = token
        self.is_paid = is_paid


@contextmanager
def crashing_as(message: StepMessage, token: int | None, *, is_paid: bool = False) -> Generator[None]:
    try:
        yield
    except Unavailable:
        raise
    except Exception as error:
        raise StepCrashed(message, token, is_paid=is_paid) from error


def reschedule(services: Services, crash: StepCrashed, detail: str) -> None:
    """Reschedule a crashed step, or end its job after the last attempt.

    If the outcomes of paid calls cannot be stored, the job ends at once, because each attempt costs money.
    """
    settings, message = services.settings, crash.message
    with services.database.write() as connection:
        job = jobs.get(connection, message.job_id)
        # Another worker may have finished the step since the crash
        if job is None or (job.step, job.step_no) != (message.step, message.step_no):
            return
        attempt = job.step_attempt + 1
        new: list[Event] = []
        if attempt < settings.step_attempts_max and not crash.is_paid:
            wait_s = retry_wait_s(attempt, first_s=settings.retry_wait_s, max_s=settings.retry_wait_max_s)
            values = {"step_attempt": attempt, "available_at": DbNow(round(wait_s, 3)), "rung_at": None}
        else:
            what = "could not store its replies" if crash.is_paid else "crashed"
            words = f"The step {job.step} {what} (attempt {attempt}): {detail}; the worker's log says more."
            facts = job_error("worker_lost", words, iteration=step_iteration(job), attempts=attempt)
            records = history.iterations_of(connection, job)
            end = ending(services.profiles, job, readable_request(job), records, StopReason.ERROR, facts)
            values, new = dict(end.values), [end.event]
        is_ours = transitions.is_open() & transitions.is_token(job.lease_token if crash.token is None else crash.token)
        first_seq = transitions.change(connection, job.id, values, when=is_ours, new_events=len(new))
        if first_seq is not None:
            events.add(connection, job, first_seq, new)
            complete(connection, job, values)
            if new:
                close_orphaned_calls(connection, job, is_holder_gone=True)
    announce(services, job, has_ended=bool(new) and first_seq is not None)


@contextmanager
def recorded_when_busy(step: StepContext, outcomes: Sequence[Outcome]) -> Generator[None]:
    """Record paid replies if they cannot be validated now, so that a later attempt uses them."""
    try:
        yield
    except Busy:
        step.services.database.persist(
            partial(record_outcomes, job_id=step.job.id, outcomes=outcomes), for_s=RECORD_REPLY_S
        )
        raise


def reschedule_busy(step: StepContext) -> None:
    """Reschedule a step that cannot validate its replies now. This does not count as an attempt or a lost worker."""
    wait_s = round(_BUSY_WAIT_S * random.uniform(1.0, 1.5), 3)  # noqa: S311 - spreads load, guards nothing
    later = {"available_at": DbNow(wait_s), "rung_at": None}
    log.warning("step_waits_for_its_validation", job_id=step.job.id, step=step.job.step, wait_s=wait_s)

    def work(connection: Connection) -> None:
        transitions.advance(connection, step.job.id, step.job.lease_token, later)

    step.services.database.persist(work, for_s=RECORD_REPLY_S)
