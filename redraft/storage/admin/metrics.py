"""Counts jobs, calls and deliveries for monitoring.

Each query reads a small part of an index, so its time does not grow with the number of stored jobs. Work in progress is
counted from live rows. Outcomes are counted from the rows of the last minutes.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Float, Subquery, Table, and_, case, cast, func, literal, or_, select, text

from redraft.storage.admin.usage import is_unpriced
from redraft.storage.engine.columns import DbNow, database_time
from redraft.storage.engine.query_parts import fetch_all
from redraft.storage.engine.tables import TOKENS, calls, jobs, webhook_deliveries
from redraft.storage.jobs.transitions import SHARED_LOSSES_MAX, is_open

# About 30 years, so every job is due within this time from now
_AGES_S = 1e9
_ROWS_MAX = 1_000_000

Rows = list[dict[str, Any]]


def live_steps(connection: Connection) -> Rows:
    """Count the jobs with a next step, by step and status: all, and the waiting, delayed, in-flight and lost ones.

    Each row also has two times: the earliest due time, and the earliest due time of a step that no worker was
    notified of.
    """
    now = DbNow()
    is_free = jobs.c.lease_expires_at.is_(None)
    is_due = and_(is_free, jobs.c.available_at <= now)
    is_lost = jobs.c.lease_expires_at < now
    is_unnotified = or_(jobs.c.rung_at.is_(None), jobs.c.rung_at < jobs.c.lease_expires_at)
    unnotified_since = case(
        (and_(is_due, jobs.c.rung_at.is_(None)), jobs.c.available_at),
        (and_(is_lost, is_unnotified), jobs.c.lease_expires_at),
    )
    query = (
        select(
            jobs.c.step,
            jobs.c.status,
            func.count().label("jobs"),
            func.count().filter(is_due).label("waiting"),
            func.count().filter(is_free, jobs.c.available_at > now).label("delayed"),
            func.count().filter(jobs.c.lease_expires_at >= now).label("in_flight"),
            func.count().filter(is_lost).label("lost"),
            func.count().filter(jobs.c.lost_leases + case((is_lost, 1), else_=0) > SHARED_LOSSES_MAX).label("suspects"),
            func.min(case((is_due, jobs.c.available_at))).label("due_since"),
            func.min(unnotified_since).label("unnotified_since"),
            DbNow().label("now"),
        )
        # The second condition is always true. Without it, SQLite reads the whole table and not the partial index
        .where(is_open(), jobs.c.available_at < DbNow(_AGES_S))
        .group_by(jobs.c.step, jobs.c.status)
    )
    return fetch_all(connection, query)


def ended_jobs(connection: Connection, *, within_s: float) -> Rows:
    """Return the number of jobs that ended in the last `within_s` seconds, by status and stop reason."""
    lately = _lately(connection, jobs, ("status", "stop_reason"), within_s)
    return fetch_all(connection, select(*lately.c, func.count().label("jobs")).group_by(*lately.c))


def count_continuations(connection: Connection) -> int:
    """Return the number of continuations of all stored jobs."""
    # 0 is a literal, because SQLite does not use the partial index of continued jobs for a parameter
    is_continued = jobs.c.continuations > literal(0, literal_execute=True)
    query = select(func.coalesce(func.sum(jobs.c.continuations), 0)).where(is_continued)
    return int(connection.execute(query).scalar_one())


def closed_calls(connection: Connection, *, within_s: float) -> Rows:
    """Return number and usage of the calls that ended in the last `within_s` seconds, by model, type and outcome."""
    names = ("model", "type", "status", "cached", "http_status")
    sums = (*TOKENS, "cost_nano_usd", "latency_ms")
    lately = _lately(connection, calls, (*names, *sums), within_s)
    columns = [lately.c[name] for name in names]
    query = select(
        *columns,
        func.count().label("calls"),
        func.count().filter(is_unpriced(lately)).label("unpriced"),
        *(cast(func.coalesce(func.sum(lately.c[name]), 0), Float).label(name) for name in sums),
    )
    return fetch_all(connection, query.group_by(*columns))


def _lately(connection: Connection, table: Table, names: Sequence[str], within_s: float) -> Subquery:
    """Return a subquery of the rows that ended in the last `within_s` seconds."""
    # Without the order and the limit, SQLite does not use the index on `finished_at`
    ended_at = table.c.finished_at
    since = database_time(connection, ago_s=within_s)
    query = select(*(table.c[name] for name in names)).where(ended_at.is_not(None), ended_at >= since)
    return query.order_by(ended_at.desc()).limit(_ROWS_MAX).subquery()


def open_calls(connection: Connection) -> Rows:
    is_started = calls.c.status == literal("started", literal_execute=True)
    query = select(calls.c.model, func.count().label("calls")).where(is_started).group_by(calls.c.model)
    return fetch_all(connection, query)


def deliveries(connection: Connection) -> Rows:
    """Return the number of pending deliveries with their earliest due time, and the number of failed deliveries."""
    found: Rows = []
    for status in ("pending", "failed"):
        has_status = webhook_deliveries.c.status == literal(status, literal_execute=True)
        oldest = func.min(webhook_deliveries.c.next_at).label("due_since")
        query = select(func.count().label("deliveries"), oldest, DbNow().label("now")).where(has_status)
        found += [{"status": status, **row} for row in fetch_all(connection, query)]
    return found


def size_bytes(connection: Connection) -> int:
    """Return the size of the database on disk in bytes, without its journal."""
    if connection.dialect.name == "postgresql":
        return connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    pages, size = (connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size"))
    return pages * size
