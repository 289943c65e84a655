"""Parks the steps whose calls wait for a batch, and makes them due again when all their calls have results."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.query_parts import exists
from redraft.storage.engine.tables import calls, jobs
from redraft.storage.jobs.transitions import DUE_STEP_COLUMNS, DueStep, is_open

# The time at which a parked step is due: so far in the future that no sweep finds the step, and no deadline passes
_PARKED_AT = datetime(9000, 1, 1, tzinfo=UTC)


def parked(remaining_s: float) -> dict[str, Any]:
    """Return the columns of a parked step. The time to the deadline, `remaining_s`, does not decrease meanwhile."""
    deadline_at = _PARKED_AT + timedelta(seconds=max(0.0, remaining_s))
    return {"available_at": _PARKED_AT, "deadline_at": deadline_at, "rung_at": None}


def return_steps(
    connection: sa.Connection, job_ids: Collection[str], changes: Mapping[str, Mapping[str, Any]]
) -> list[DueStep]:
    """Make the parked steps of these jobs due, except those with a call that still waits for its batch.

    The caller has locked the jobs. `changes` has further columns of the steps, by job id.
    """
    waits = sa.select(1).where(calls.c.job_id == jobs.c.id, calls.c.status == "started", calls.c.batch_id.is_not(None))
    query = sa.select(jobs.c.id, jobs.c.deadline_at).where(
        jobs.c.id.in_(job_ids), is_open(), jobs.c.available_at == _PARKED_AT, ~waits.exists()
    )
    returned: list[DueStep] = []
    for job_id, deadline_at in connection.execute(query).all():
        due = {"available_at": DbNow(), "rung_at": DbNow(), "deadline_at": _deadline(deadline_at)}
        statement = sa.update(jobs).where(jobs.c.id == job_id).values(**due, **changes.get(job_id, {}))
        returned.append(DueStep(*connection.execute(statement.returning(*DUE_STEP_COLUMNS)).one()))
    return returned


def _deadline(parked_deadline: datetime) -> DbNow:
    return DbNow((parked_deadline - _PARKED_AT).total_seconds())


def has_working(connection: sa.Connection, run_id: str) -> bool:
    """Whether a run has an open job whose step is not parked."""
    return exists(connection, is_working(run_id))


def is_working(run_id: str) -> sa.ColumnElement[bool]:
    """Whether a job of a run is open, and its step is not parked."""
    return sa.and_(is_open(), jobs.c.available_at < _PARKED_AT, jobs.c.run_id == run_id)


def is_parked_elsewhere(run_id: str) -> sa.ColumnElement[bool]:
    """Whether the step of a job of another run is parked."""
    is_other = sa.and_(jobs.c.run_id.is_not(None), jobs.c.run_id != run_id)
    return sa.and_(is_open(), jobs.c.available_at == _PARKED_AT, is_other)
