"""The rescuer: rings for steps that are due and unheard, and ends jobs past their deadline.

Every worker runs it on a timer; it is harmless when several do.
"""

from sqlalchemy import Connection

from redraft.domain.failures import job_error
from redraft.domain.states import Step, StopReason
from redraft.jobs import StepMessage
from redraft.operations.endings import ending
from redraft.operations.services import Services
from redraft.operations.steps import parse_request, schema_of
from redraft.storage import calls, events, history, jobs, moves, workers
from redraft.storage.moves import is_live

_BATCH = 100
_DEADLINE_SLACK_S = 5.0
_FORGET_WORKERS_S = 24 * 3600.0


def sweep(services: Services, *, with_expired: bool = True) -> list[StepMessage]:
    """One round.

    Args:
        services: the parts.
        with_expired: whether a lease that has run out means a lost worker. After the database was away it does not:
            nobody could extend one.

    Returns:
        The steps for which the broker did not take the message: the caller runs them itself.
    """
    settings = services.settings
    with services.database.write() as connection:
        due = moves.take_due(connection, pause_s=settings.ring_again_s, limit=_BATCH, with_expired=with_expired)
        ended = [
            job_id
            for job_id in moves.overdue(connection, slack_s=_DEADLINE_SLACK_S, limit=_BATCH)
            if _end_overdue(connection, job_id)
        ]
        abandoned = calls.close_abandoned(connection, after_s=settings.call_timeout_s + settings.lease_s, limit=_BATCH)
        for job_id, lost in abandoned.items():
            moves.add_usage(connection, job_id, calls.lost_usage(lost))
        workers.forget_silent(connection, for_s=_FORGET_WORKERS_S)
    for job_id in ended:
        services.queue.wake(job_id)
    messages = [StepMessage(Step(step), job_id, step_no) for job_id, step, step_no in due if job_id not in ended]
    return _ring_all(services, messages)


def _ring_all(services: Services, messages: list[StepMessage]) -> list[StepMessage]:
    """Ring until the broker fails once: a dead one would cost a second per message."""
    for index, message in enumerate(messages):
        if not services.queue.ring(message):
            return messages[index:]
    return []


def _end_overdue(connection: Connection, job_id: str) -> bool:
    job = jobs.get(connection, job_id)
    if job is None:
        return False
    facts = job_error("deadline_exceeded", "The job's deadline passed before it was done.", iteration=job.iteration)
    schema = schema_of(parse_request(job))
    end = ending(StopReason.DEADLINE_EXCEEDED, history.of_job(connection, job_id), error=facts, schema=schema)
    first_seq = moves.change(connection, job_id, end.values, when=is_live(), new_events=1)
    if first_seq is not None:
        events.add(connection, job_id, first_seq, [end.event])
    return first_seq is not None
