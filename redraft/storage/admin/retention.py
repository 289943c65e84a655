"""Jobs that ended long ago: found beside the work, removed in small units of work; all that hangs on them goes too.

Calls for no job, those of drafts, go by their own age.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select

from redraft.storage.bulk.runs import is_active
from redraft.storage.engine.bulk_tables import runs
from redraft.storage.engine.tables import calls, jobs


@dataclass(frozen=True, slots=True)
class EndedJob:
    finished_at: datetime
    id: str


def count_ended(connection: Connection, before: datetime, statuses: Sequence[str]) -> dict[str, int]:
    """How many jobs ended before then, by status."""
    query = select(jobs.c.status, func.count()).where(*_ended(before, statuses)).group_by(jobs.c.status)
    return {row.status: row[1] for row in connection.execute(query)}


def find_ended(
    connection: Connection, before: datetime, statuses: Sequence[str], *, after: EndedJob | None, limit: int
) -> list[EndedJob]:
    """The next jobs that ended before then, the longest ago first."""
    query = select(jobs.c.finished_at, jobs.c.id).where(*_ended(before, statuses))
    if after is not None:
        # The first condition is what the index knows
        query = query.where(
            jobs.c.finished_at >= after.finished_at,
            or_(
                jobs.c.finished_at > after.finished_at,
                and_(jobs.c.finished_at == after.finished_at, jobs.c.id > after.id),
            ),
        )
    rows = connection.execute(query.order_by(jobs.c.finished_at, jobs.c.id).limit(limit))
    return [EndedJob(row.finished_at, row.id) for row in rows]


def remove_ended(connection: Connection, ids: Sequence[str], before: datetime) -> Counter[str]:
    """Remove those of these jobs that are still ended, and in nobody's hands; how many by status.

    One that somebody continues at this moment is alive again, or locked: it is left alone.
    """
    still_ended = select(jobs.c.id).where(jobs.c.id.in_(ids), *_ended(before, ()))
    free = list(connection.scalars(still_ended.with_for_update(skip_locked=True)))
    if not free:
        return Counter()
    return Counter(connection.scalars(delete(jobs).where(jobs.c.id.in_(free)).returning(jobs.c.status)))


def count_jobless(connection: Connection, before: datetime) -> int:
    """How many calls for no job were made before then."""
    return connection.execute(select(func.count()).select_from(calls).where(*_jobless(before))).scalar_one()


def remove_jobless(connection: Connection, before: datetime, *, limit: int) -> int:
    """Remove the oldest of the calls for no job that were made before then; how many."""
    oldest = select(calls.c.id).where(*_jobless(before)).order_by(calls.c.started_at, calls.c.id).limit(limit)
    return connection.execute(delete(calls).where(calls.c.id.in_(oldest))).rowcount


def _jobless(before: datetime) -> list[ColumnElement[bool]]:
    return [calls.c.job_id.is_(None), calls.c.started_at < before, calls.c.status != "started"]


def _ended(before: datetime, statuses: Sequence[str]) -> list[ColumnElement[bool]]:
    # What a run has cost so far is the sum of its jobs
    is_needed = jobs.c.run_id.is_not(None) & jobs.c.run_id.in_(select(runs.c.id).where(is_active()))
    has_ended = [jobs.c.finished_at.is_not(None), jobs.c.finished_at < before, ~is_needed]
    return [*has_ended, jobs.c.status.in_(statuses)] if statuses else has_ended
