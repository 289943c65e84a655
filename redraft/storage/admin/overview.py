"""Reads the figures and job lines of the overview page. The queries do not return the long texts of jobs."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, FromClause, Select, and_, cast, func, select

from redraft.storage.engine.columns import DbNow, text_in
from redraft.storage.engine.query_parts import fetch_all
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
    query = _lines(connection).where(jobs.c.status == "running")
    return fetch_all(connection, query.order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(limit))


def last_ended(connection: Connection, *, limit: int) -> Rows:
    """Return the jobs that ended last, latest first."""
    query = _lines(connection).where(jobs.c.finished_at.is_not(None))
    return fetch_all(connection, query.order_by(jobs.c.finished_at.desc()).limit(limit))


def _lines(connection: Connection) -> Select[Any]:
    task = func.substr(text_in(connection, jobs.c.request, "instruct"), 1, _TEXT_CHARS)
    threshold = cast(text_in(connection, jobs.c.request, "score_threshold"), Float)
    others = (task.label("task"), threshold.label("score_threshold"), is_accepted(connection).label("is_accepted"))
    return select(*(jobs.c[name] for name in _COLUMNS), *others)


def count_live(connection: Connection) -> dict[str, int]:
    is_live_now = jobs.c.status.in_(("queued", "running"))
    query = select(jobs.c.status, func.count()).where(is_live_now).group_by(jobs.c.status)
    return dict(connection.execute(query).all())


def sum_up_ended(connection: Connection, *, since: datetime) -> dict[str, int]:
    """Return the outcomes and the cost of the jobs that ended after `since`, from an index alone."""

    def has_ended(table: FromClause) -> ColumnElement[bool]:
        return and_(table.c.finished_at.is_not(None), table.c.finished_at >= since)

    statuses = ("succeeded", "failed", "canceled")
    query = select(
        func.count().label("ended"),
        *(func.count().filter(jobs.c.status == status).label(status) for status in statuses),
        count_accepted(connection, has_ended).label("accepted"),
        *(func.coalesce(func.sum(jobs.c[name]), 0).label(name) for name in ("cost_nano_usd", "unpriced_calls")),
    ).where(has_ended(jobs))
    return {name: int(number) for name, number in fetch_all(connection, query)[0].items()}


def waiting_s(connection: Connection) -> float | None:
    """Return the age in seconds of the earliest due time of all queued jobs. None if no job waits."""
    query = (
        select(jobs.c.available_at, DbNow().label("now"))
        .where(is_live(), jobs.c.status == "queued", jobs.c.available_at <= DbNow())
        .order_by(jobs.c.available_at)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else max(0.0, (row.now - row.available_at).total_seconds())


def steps_in_flight(connection: Connection) -> dict[str, int]:
    is_held = and_(jobs.c.status == "running", jobs.c.lease_expires_at >= DbNow())
    query = select(jobs.c.lease_owner, func.count()).where(is_held).group_by(jobs.c.lease_owner)
    return {owner: count for owner, count in connection.execute(query) if owner}
