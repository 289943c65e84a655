"""What the overview shows of single jobs: few columns of few rows, however long the texts in them are."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, FromClause, and_, case, cast, func, select

from redraft.storage.engine.columns import DbNow, text_in
from redraft.storage.engine.tables import jobs
from redraft.storage.jobs.jobs import count_accepted, is_accepted
from redraft.storage.jobs.transitions import is_live

_TEXT_CHARS = 300


_COLUMNS = (
    *("id", "kind", "status", "stop_reason", "created_at", "started_at", "finished_at", "model", "step", "iteration"),
    *("iteration_limit", "best_score", "cost_nano_usd", "unpriced_calls"),
)

Rows = list[dict[str, Any]]


def running(connection: Connection, *, limit: int) -> Rows:
    """Jobs that are being worked on, newest first."""
    query = select(*_line(connection)).where(jobs.c.status == "running")
    query = query.order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(limit)
    return [dict(row) for row in connection.execute(query).mappings()]


def last_ended(connection: Connection, *, limit: int) -> Rows:
    """Jobs that have ended, the latest first."""
    query = select(*_line(connection)).where(jobs.c.finished_at.is_not(None))
    query = query.order_by(jobs.c.finished_at.desc()).limit(limit)
    return [dict(row) for row in connection.execute(query).mappings()]


def count_live(connection: Connection) -> dict[str, int]:
    """How many jobs are queued, and how many are running."""
    is_live_now = jobs.c.status.in_(("queued", "running"))
    query = select(jobs.c.status, func.count().label("number")).where(is_live_now).group_by(jobs.c.status)
    return {row.status: row.number for row in connection.execute(query)}


def sum_up_ended(connection: Connection, *, since: datetime) -> dict[str, int]:
    """What jobs that ended since came to and cost: all of it stands in the index on their end."""

    def has_ended(table: FromClause) -> ColumnElement[bool]:
        return and_(table.c.finished_at.is_not(None), table.c.finished_at >= since)

    query = select(
        func.count().label("ended"),
        *(_count(jobs.c.status == status).label(status) for status in ("succeeded", "failed", "canceled")),
        count_accepted(connection, has_ended).label("accepted"),
        *(func.coalesce(func.sum(jobs.c[name]), 0).label(name) for name in ("cost_nano_usd", "unpriced_calls")),
    ).where(has_ended(jobs))
    return {name: int(number) for name, number in connection.execute(query).mappings().one().items()}


def waiting_s(connection: Connection) -> float | None:
    """For how many seconds the longest waiting queued job has been due; None: none waits."""
    query = (
        select(jobs.c.available_at, DbNow().label("now"))
        .where(is_live(), jobs.c.status == "queued", jobs.c.available_at <= DbNow())
        .order_by(jobs.c.available_at)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else max(0.0, (row.now - row.available_at).total_seconds())


def steps_in_flight(connection: Connection) -> dict[str, int]:
    """How many steps each worker holds now."""
    query = (
        select(jobs.c.lease_owner, func.count())
        .where(jobs.c.status == "running", jobs.c.lease_expires_at >= DbNow())
        .group_by(jobs.c.lease_owner)
    )
    return {owner: count for owner, count in connection.execute(query) if owner}


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def _line(connection: Connection) -> list[ColumnElement[Any]]:
    """Of the request the beginning of its task, and the threshold; whether the job is accepted."""
    task = func.substr(text_in(connection, jobs.c.request, "instruct"), 1, _TEXT_CHARS)
    threshold = cast(text_in(connection, jobs.c.request, "score_threshold"), Float)
    others = (task.label("task"), threshold.label("score_threshold"), is_accepted(connection).label("is_accepted"))
    return [*(jobs.c[name] for name in _COLUMNS), *others]
