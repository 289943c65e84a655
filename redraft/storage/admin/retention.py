"""Finds and removes jobs that ended long ago, with all their rows, in small units of work.

Calls without a job, such as calls that draft a rubric, are removed by their own age.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, func, literal, select, tuple_

from redraft.storage.bulk.runs import is_active
from redraft.storage.engine.bulk_tables import runs
from redraft.storage.engine.query_parts import count
from redraft.storage.engine.tables import calls, jobs


@dataclass(frozen=True, slots=True)
class EndedJob:
    finished_at: datetime
    id: str


def count_ended(connection: Connection, before: datetime, statuses: Sequence[str]) -> dict[str, int]:
    query = select(jobs.c.status, func.count()).where(*_ended(before, statuses)).group_by(jobs.c.status)
    return dict(connection.execute(query).all())


def find_ended(
    connection: Connection, before: datetime, statuses: Sequence[str], *, after: EndedJob | None, limit: int
) -> list[EndedJob]:
    """Return the next jobs that ended before `before`, earliest first."""
    place = (jobs.c.finished_at, jobs.c.id)
    query = select(*place).where(*_ended(before, statuses))
    if after is not None:
        there = tuple_(literal(after.finished_at, jobs.c.finished_at.type), literal(after.id, jobs.c.id.type))
        # The first condition compares only the time, because the index has only the time. With the second condition
        # alone, the database would not use the index
        query = query.where(jobs.c.finished_at >= after.finished_at, tuple_(*place) > there)
    return [EndedJob(*row) for row in connection.execute(query.order_by(*place).limit(limit))]


def remove_ended(connection: Connection, ids: Sequence[str], before: datetime) -> Counter[str]:
    """Remove the jobs that are still ended and not locked. Return their number by status.

    A job that a client is continuing is live or locked, so it is not removed.
    """
    still_ended = select(jobs.c.id).where(jobs.c.id.in_(ids), *_ended(before, ()))
    free = list(connection.scalars(still_ended.with_for_update(skip_locked=True)))
    if not free:
        return Counter()
    return Counter(connection.scalars(delete(jobs).where(jobs.c.id.in_(free)).returning(jobs.c.status)))


def count_jobless(connection: Connection, before: datetime) -> int:
    return count(connection, *_jobless(before))


def remove_jobless(connection: Connection, before: datetime, *, limit: int) -> int:
    """Remove the oldest calls without a job that were made before `before`. Return their number."""
    oldest = select(calls.c.id).where(*_jobless(before)).order_by(calls.c.started_at, calls.c.id).limit(limit)
    return connection.execute(delete(calls).where(calls.c.id.in_(list(connection.scalars(oldest))))).rowcount


def _jobless(before: datetime) -> list[ColumnElement[bool]]:
    return [calls.c.job_id.is_(None), calls.c.started_at < before, calls.c.status != "started"]


def _ended(before: datetime, statuses: Sequence[str]) -> list[ColumnElement[bool]]:
    # The jobs of a running run are kept, because the sum of their costs is compared with the budget of the run
    is_needed = jobs.c.run_id.is_not(None) & jobs.c.run_id.in_(select(runs.c.id).where(is_active()))
    has_ended = [jobs.c.finished_at.is_not(None), jobs.c.finished_at < before, ~is_needed]
    return [*has_ended, jobs.c.status.in_(statuses)] if statuses else has_ended
