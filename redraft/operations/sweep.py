"""The rescuer: rings for steps that are due and unheard, sets suspects apart, ends what must not go on.

Every worker runs it on a timer; it is harmless when several do.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection

from redraft.domain.failures import job_error
from redraft.domain.states import StopReason
from redraft.jobs import StepMessage
from redraft.operations import retention
from redraft.operations.closing import close_up
from redraft.operations.endings import ending
from redraft.operations.leases import message_for
from redraft.operations.services import Services
from redraft.operations.terms import parse_request, step_iteration
from redraft.storage import calls, events, history, jobs, moves, workers
from redraft.storage.jobs import JobRecord
from redraft.storage.moves import ALONE_LOSSES, is_guilty, is_live

_BATCH = 100
_DEADLINE_SLACK_S = 5.0
_FORGET_WORKERS_S = 24 * 3600.0
_POISON = (
    "The worker was lost each time it did this step, {times} times in a row, the last time with nothing else in its "
    "process: this job is taken to be the cause. Look at the worker's log and memory before you continue it."
)


@dataclass(frozen=True, slots=True)
class Left:
    """What a round leaves to the worker that ran it.

    Attributes:
        unrung: steps for which the broker did not take the message; the worker does them itself.
        suspects: steps that have lost their worker more than once; each runs in a process of its own.
    """

    unrung: list[StepMessage]
    suspects: list[StepMessage]


def sweep(services: Services, *, with_expired: bool = True, suspects_max: int = 0) -> Left:
    """One round.

    Args:
        services: the parts.
        with_expired: whether a lease that has run out means a lost worker. After the database was away it does not:
            nobody could extend one.
        suspects_max: for how many steps this worker can start a process.
    """
    with services.database.write() as connection:
        due = _take_due(services, connection, limit=_BATCH, with_expired=with_expired)
        suspects = (
            _take_due(services, connection, limit=suspects_max, with_expired=with_expired, losses=(ALONE_LOSSES,) * 2)
            if suspects_max
            else []
        )
        ended = _end_overdue(connection) + (_end_guilty(connection) if with_expired else [])
        _clear_up(services, connection)
    for job_id in ended:
        services.queue.wake(job_id)
    retention.forget_some(services)
    return Left(
        unrung=_ring_all(services, [message for message in due if message.job_id not in ended]),
        suspects=[message for message in suspects if message.job_id not in ended],
    )


def _take_due(services: Services, connection: Connection, **narrowed: Any) -> list[StepMessage]:
    found = moves.take_due(connection, pause_s=services.settings.ring_again_s, **narrowed)
    return [message_for(each) for each in found]


def _ring_all(services: Services, messages: list[StepMessage]) -> list[StepMessage]:
    """Ring until the broker fails once: a dead one would cost a second per message."""
    for index, message in enumerate(messages):
        if not services.queue.ring(message):
            return messages[index:]
    return []


def _clear_up(services: Services, connection: Connection) -> None:
    settings = services.settings
    abandoned = calls.close_abandoned(connection, after_s=settings.call_timeout_s + settings.lease_s, limit=_BATCH)
    for job_id, lost in abandoned.items():
        moves.add_usage(connection, job_id, calls.lost_usage(lost))
    workers.forget_silent(connection, for_s=_FORGET_WORKERS_S)


def _end_overdue(connection: Connection) -> list[str]:
    words = "The job's deadline passed before it was done."
    late = moves.overdue(connection, slack_s=_DEADLINE_SLACK_S, limit=_BATCH)
    return [
        job.id
        for job in _read(connection, late)
        if _end(
            connection,
            job,
            StopReason.DEADLINE_EXCEEDED,
            job_error("deadline_exceeded", words, iteration=job.iteration),
            is_live(),
        )
    ]


def _end_guilty(connection: Connection) -> list[str]:
    words = _POISON.format(times=ALONE_LOSSES + 1)
    found = moves.guilty(connection, limit=_BATCH)
    return [
        job.id
        for job in _read(connection, found)
        if _end(
            connection,
            job,
            StopReason.ERROR,
            job_error("worker_lost", words, iteration=step_iteration(job), attempts=job.step_claims),
            is_live() & is_guilty(),
        )
    ]


def _read(connection: Connection, job_ids: list[str]) -> list[JobRecord]:
    return [job for job in (jobs.get(connection, job_id) for job_id in job_ids) if job is not None]


def _end(
    connection: Connection, job: JobRecord, reason: StopReason, error: dict[str, Any], when: ColumnElement[bool]
) -> bool:
    end = ending(job, parse_request(job), history.of(connection, job), reason, error)
    first_seq = moves.change(connection, job.id, end.values, when=when, new_events=1)
    if first_seq is not None:
        events.add(connection, job, first_seq, [end.event])
        close_up(connection, job, end.values)
    return first_seq is not None
