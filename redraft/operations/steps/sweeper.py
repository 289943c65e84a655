"""The sweeper: notifies workers of due steps again, isolates suspects, and ends jobs that must not continue.

Every worker runs the sweeper on a timer. Several sweeps may run at the same time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection

from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.states import StopReason
from redraft.errors import Unavailable
from redraft.messages import StepMessage
from redraft.operations.request_views import readable_request, step_iteration
from redraft.operations.results.completion import announce, close_orphaned_calls, complete
from redraft.operations.results.job_results import ending
from redraft.operations.services import Services
from redraft.operations.steps.leases import message_for
from redraft.sandbox.fair_queue import Busy
from redraft.storage.admin import workers
from redraft.storage.jobs import calls, due_steps, events, history, jobs, transitions
from redraft.storage.jobs.due_steps import is_overdue, is_poison
from redraft.storage.jobs.jobs import JobRecord
from redraft.storage.jobs.transitions import ALONE_LOSSES_MAX, is_open

log = structlog.get_logger()

_BATCH = 100
# A live worker ends its own job within this time after the deadline, with the reply for which it waits.
_DEADLINE_SLACK_S = 5.0
_FORGET_WORKERS_S = 24 * 3600.0
_POISON = (
    "The worker was lost each time it did this step, {times} times in a row, the last time with nothing else in its "
    "process: this job is probably the cause. Look at the worker's log and memory before you continue it."
)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The steps that a sweep leaves to the worker that ran it.

    Attributes:
        undelivered: steps whose messages the broker did not take; the worker executes them itself.
        suspects: steps whose worker was lost several times. Each runs in a process of its own.
    """

    undelivered: list[StepMessage]
    suspects: list[StepMessage]


def sweep(services: Services, *, with_expired: bool = True, suspects_max: int = 0) -> Leftovers:
    """Run one sweep.

    Args:
        services: the services.
        with_expired: whether an expired lease proves a lost worker. This is false after an outage of the database,
            because no worker could extend its leases.
        suspects_max: how many processes for suspects this worker can start.
    """
    with services.database.write() as connection:
        to_notify = _take_due(services, connection, limit=_BATCH, with_expired=with_expired)
        suspects = (
            _take_due(services, connection, limit=suspects_max, with_expired=with_expired, are_suspects=True)
            if suspects_max
            else []
        )
        late = due_steps.overdue(connection, slack_s=_DEADLINE_SLACK_S, limit=_BATCH)
        poison = due_steps.poison_jobs(connection, limit=_BATCH) if with_expired else []
        _clear_up(services, connection)
    ended = _end_all(services, late, _end_overdue) + _end_all(services, poison, _end_poison_job)
    return Leftovers(
        undelivered=_notify_all(services, [message for message in to_notify if message.job_id not in ended]),
        suspects=[message for message in suspects if message.job_id not in ended],
    )


def _take_due(services: Services, connection: Connection, **narrowed: Any) -> list[StepMessage]:
    found = due_steps.take_due(connection, pause_s=services.settings.ring_again_s, **narrowed)
    return [message_for(each) for each in found]


def _notify_all(services: Services, messages: list[StepMessage]) -> list[StepMessage]:
    """Send the messages, and return the unsent ones. Stop at the first failure, because each failure takes a second."""
    for index, message in enumerate(messages):
        if not services.queue.notify(message):
            return messages[index:]
    return []


def _clear_up(services: Services, connection: Connection) -> None:
    settings = services.settings
    # No call takes longer than its timeout, so an open call that is older belongs to a lost worker
    after_s = settings.call_timeout_s + settings.lease_s
    abandoned = calls.close_abandoned(connection, after_s=after_s, ended_s=settings.lease_s, limit=_BATCH)
    for job_id, usage in abandoned.items():
        transitions.add_usage(connection, job_id, usage)
    workers.remove_silent(connection, for_s=_FORGET_WORKERS_S)


def _end_all(
    services: Services, job_ids: list[str], end: Callable[[Services, Connection, JobRecord], bool]
) -> list[str]:
    """End each job in a unit of work of its own, so that one failure does not stop the others."""
    ended: list[str] = []
    for job_id in job_ids:
        try:
            with services.database.write() as connection:
                # With the lock, the end of the job contains the result of a step that is stored at the same time
                transitions.lock(connection, [job_id])
                job = jobs.get(connection, job_id)
                if job is None or not end(services, connection, job):
                    continue
        except Busy:
            # The next sweep tries this job again
            continue
        except Unavailable:
            raise
        except Exception:
            log.exception("job_cannot_be_ended", job_id=job_id)
            continue
        ended.append(job_id)
        announce(services, job, has_ended=True)
    return ended


def _end_overdue(services: Services, connection: Connection, job: JobRecord) -> bool:
    words = "The job's deadline passed before it was done."
    error = job_error("deadline_exceeded", words, iteration=job.iteration)
    return _end(
        services, connection, job, StopReason.DEADLINE_EXCEEDED, error, is_open() & is_overdue(_DEADLINE_SLACK_S)
    )


def _end_poison_job(services: Services, connection: Connection, job: JobRecord) -> bool:
    words = _POISON.format(times=ALONE_LOSSES_MAX + 1)
    error = job_error("worker_lost", words, iteration=step_iteration(job), attempts=job.step_claims)
    return _end(services, connection, job, StopReason.ERROR, error, is_open() & is_poison())


def _end(
    services: Services,
    connection: Connection,
    job: JobRecord,
    reason: StopReason,
    error: dict[str, Any],
    when: ColumnElement[bool],
) -> bool:
    end = ending(services.profiles, job, readable_request(job), history.iterations_of(connection, job), reason, error)
    first_seq = transitions.change(connection, job.id, end.values, when=when, new_events=1)
    if first_seq is not None:
        events.add(connection, job, first_seq, [end.event])
        complete(connection, job, end.values)
        close_orphaned_calls(connection, job)
    return first_seq is not None
