"""Parks the steps whose calls wait for a batch, and resumes them when all their calls have results.

A batch can end for thousands of steps at once. So a step with all results only becomes resumable. The scheduler
makes it due when its run has room. Until then its deadline stands still.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.query_parts import exists
from redraft.storage.engine.tables import calls, jobs
from redraft.storage.jobs.transitions import DUE_STEP_COLUMNS, DueStep, is_answered, is_open

# The time at which a parked step is due: so far in the future that no sweep finds the step, and no deadline passes
_PARKED_AT = datetime(9000, 1, 1, tzinfo=UTC)
# The time at which a resumable step is due
_RESUMABLE_AT = datetime(9001, 1, 1, tzinfo=UTC)


def parked(remaining_s: float) -> dict[str, Any]:
    """Return the columns of a parked step. The time to the deadline, `remaining_s`, does not decrease meanwhile."""
    deadline_at = _PARKED_AT + timedelta(seconds=max(0.0, remaining_s))
    return {"available_at": _PARKED_AT, "deadline_at": deadline_at, "rung_at": None}


def return_steps(
    connection: sa.Connection, job_ids: Collection[str], changes: Mapping[str, Mapping[str, Any]], *, at_once: bool
) -> list[DueStep]:
    """Make the parked steps of these jobs resumable, except those with a call that still waits for its batch.

    Some of these steps become due immediately, and are returned. With `at_once`, these are all steps. Otherwise they
    are the steps of jobs that have already ended with an answer, because a run does not wait for these jobs. The caller
    has locked the jobs. `changes` has further columns of the steps, by job id.
    """
    waits = sa.select(1).where(calls.c.job_id == jobs.c.id, calls.c.status == "started", calls.c.batch_id.is_not(None))
    is_parked = sa.and_(is_open(), jobs.c.available_at == _PARKED_AT, ~waits.exists())
    query = sa.select(jobs.c.id).where(jobs.c.id.in_(job_ids), is_parked)
    returned = list(connection.scalars(query))
    for job_id in changes.keys() & set(returned):
        connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(**changes[job_id]))
    connection.execute(sa.update(jobs).where(jobs.c.id.in_(returned)).values(available_at=_RESUMABLE_AT))
    return _resume(connection, jobs.c.id.in_(returned), sa.true() if at_once else is_answered())


def resume(connection: sa.Connection, run_id: str, limit: int) -> list[DueStep]:
    """Make resumable steps of a run due, at most `limit`. The caller has locked the run."""
    query = sa.select(jobs.c.id).where(_is_resumable(run_id)).limit(limit)
    return _resume(connection, jobs.c.id.in_(list(connection.scalars(query))))


def has_resumable(connection: sa.Connection, run_id: str) -> bool:
    return exists(connection, _is_resumable(run_id))


def _is_resumable(run_id: str) -> sa.ColumnElement[bool]:
    return sa.and_(jobs.c.run_id == run_id, is_open(), jobs.c.available_at == _RESUMABLE_AT)


def _resume(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[DueStep]:
    query = sa.select(jobs.c.id, jobs.c.deadline_at).where(*conditions, jobs.c.available_at == _RESUMABLE_AT)
    resumed: list[DueStep] = []
    for job_id, deadline_at in connection.execute(query.with_for_update()).all():
        due = {"available_at": DbNow(), "rung_at": DbNow(), "deadline_at": _deadline(deadline_at)}
        statement = sa.update(jobs).where(jobs.c.id == job_id).values(**due)
        resumed.append(DueStep(*connection.execute(statement.returning(*DUE_STEP_COLUMNS)).one()))
    return resumed


def _deadline(parked_deadline: datetime) -> DbNow:
    return DbNow((parked_deadline - _PARKED_AT).total_seconds())


def has_working(connection: sa.Connection, run_id: str) -> bool:
    """Whether a run has an open job whose step is not parked."""
    return exists(connection, is_working(run_id))


def is_working(run_id: str | sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """Whether a job of a run is open, and its step is not parked."""
    return sa.and_(is_open(), jobs.c.available_at < _PARKED_AT, jobs.c.run_id == run_id)


def is_parked_elsewhere(run_id: sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """Whether the step of a job of another run is parked or resumable."""
    is_other = sa.and_(jobs.c.run_id.is_not(None), jobs.c.run_id != run_id)
    return sa.and_(is_open(), jobs.c.available_at >= _PARKED_AT, is_other)
