"""Reads the figures and job lines of the overview page. The queries do not return the long texts of jobs."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, FromClause, Select, and_, cast, func, select

from redraft.storage.engine.columns import DbNow, Period, text_in, utc_period
from redraft.storage.engine.query_parts import fetch_all
from redraft.storage.engine.tables import jobs
from redraft.storage.jobs.jobs import has_kept_acceptance, is_accepted
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


def sum_up_ended(connection: Connection, period: Period, *, since: datetime) -> Rows:
    """Return outcomes and cost of the jobs that ended after `since`, by hour or day, from an index alone.

    The rows are in the order of time. The column `period` has values such as `2026-01-31T09` or `2026-01-31`,
    in UTC. An hour or a day in which no job ended has no row.
    """
    statuses = ("succeeded", "failed", "canceled")
    sums = _by_period(
        connection,
        jobs,
        period,
        func.count().label("ended"),
        *(func.count().filter(jobs.c.status == status).label(status) for status in statuses),
        func.count().filter(jobs.c.stop_reason == "accepted").label("accepted"),
        func.count().filter(_has_no_verdict(jobs), jobs.c.stop_reason != "accepted").label("not_evaluated"),
        *(func.coalesce(func.sum(jobs.c[name]), 0).label(name) for name in ("cost_nano_usd", "unpriced_calls")),
        since=since,
    ).subquery("sums")
    # Only the results of continued jobs show whether they are accepted, and results are in no index
    continued = jobs.alias("continued")
    numbers = (func.count().label("number"), func.count().filter(_has_no_verdict(continued)).label("without_verdict"))
    counted = _by_period(connection, continued, period, *numbers, since=since)
    kept = counted.where(has_kept_acceptance(connection, continued)).subquery("kept")
    corrected = {
        "accepted": sums.c.accepted + func.coalesce(kept.c.number, 0),
        "not_evaluated": sums.c.not_evaluated - func.coalesce(kept.c.without_verdict, 0),
    }
    columns = [corrected.get(column.name, column).label(column.name) for column in sums.c]
    query = select(*columns).outerjoin_from(sums, kept, sums.c.period == kept.c.period)
    rows = fetch_all(connection, query.order_by(sums.c.period))
    # The sums are converted, because PostgreSQL returns the sum of bigint values as a Decimal
    return [{name: value if name == "period" else int(value) for name, value in row.items()} for row in rows]


def _has_no_verdict(table: FromClause) -> ColumnElement[bool]:
    return and_(table.c.status == "succeeded", table.c.best_score.is_(None))


def _by_period(
    connection: Connection, table: FromClause, period: Period, *sums: ColumnElement[Any], since: datetime
) -> Select[Any]:
    label = utc_period(connection, table.c.finished_at, period)
    has_ended = and_(table.c.finished_at.is_not(None), table.c.finished_at >= since)
    return select(label.label("period"), *sums).where(has_ended).group_by(label)


def waiting_s(connection: Connection) -> float | None:
    """Return for how many seconds the job that waits longest has been due. Return None if no job waits."""
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
