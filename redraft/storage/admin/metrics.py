"""Counts for those who watch: each from an index that holds little, however many jobs are stored.

What goes on now is counted from the live rows; what came to an end, from those of the last minutes.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Float,
    Integer,
    Subquery,
    Table,
    and_,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
    text,
)

from redraft.storage.engine.columns import DbNow, moment
from redraft.storage.engine.tables import calls, jobs, webhook_deliveries
from redraft.storage.jobs.transitions import FREE_LOSSES, is_live

_AGES_S = 1e9
_ROWS_MAX = 1_000_000

Rows = list[dict[str, Any]]


def live_steps(connection: Connection) -> Rows:
    """The steps that come next, by kind of step: where they are, and since when the longest one waits."""
    now = DbNow()
    is_free = jobs.c.lease_expires_at.is_(None)
    is_due = and_(is_free, jobs.c.available_at <= now)
    is_lost = jobs.c.lease_expires_at < now
    unnotified_since = case(
        (and_(is_due, jobs.c.rung_at.is_(None)), jobs.c.available_at),
        (
            and_(is_lost, or_(jobs.c.rung_at.is_(None), jobs.c.rung_at < jobs.c.lease_expires_at)),
            jobs.c.lease_expires_at,
        ),
    )
    query = (
        select(
            jobs.c.step,
            jobs.c.status,
            func.count().label("jobs"),
            _count(is_due).label("waiting"),
            _count(and_(is_free, jobs.c.available_at > now)).label("delayed"),
            _count(jobs.c.lease_expires_at >= now).label("in_flight"),
            _count(is_lost).label("lost"),
            _count(jobs.c.lost_leases + case((is_lost, 1), else_=0) > FREE_LOSSES).label("suspects"),
            func.min(case((is_due, jobs.c.available_at))).label("due_since"),
            func.min(unnotified_since).label("unheard_since"),
            DbNow().label("now"),
        )
        # All of them; without a word on the index's column SQLite reads the whole table
        .where(is_live(), jobs.c.available_at < DbNow(_AGES_S))
        .group_by(jobs.c.step, jobs.c.status)
    )
    return _rows(connection, query)


def ended_jobs(connection: Connection, *, within_s: float) -> Rows:
    """Jobs that ended lately, by status and why."""
    names = ("status", "stop_reason")
    lately = _lately(connection, jobs, names, within_s)
    columns = [lately.c[name] for name in names]
    return _rows(connection, select(*columns, func.count().label("jobs")).group_by(*columns))


def closed_calls(connection: Connection, *, within_s: float) -> Rows:
    """Calls that ended lately, with what they cost, by model, kind and outcome."""
    names = ("model", "type", "status", "cached", "http_status")
    sums = ("input_tokens", "cached_input_tokens", "output_tokens", "cost_nano_usd", "latency_ms")
    lately = _lately(connection, calls, (*names, *sums), within_s)
    columns = [lately.c[name] for name in names]
    is_unpriced = and_(lately.c.cost_nano_usd.is_(None), lately.c.status.in_(("ok", "dup", "unknown")))
    query = select(
        *columns,
        func.count().label("calls"),
        _count(is_unpriced).label("unpriced"),
        *(cast(func.coalesce(func.sum(lately.c[name]), 0), Float).label(name) for name in sums),
    ).group_by(*columns)
    return _rows(connection, query)


def _lately(connection: Connection, table: Table, names: Sequence[str], within_s: float) -> Subquery:
    """Rows that ended lately, by the index on their end: in an order and with a limit SQLite takes no other."""
    ended_at = table.c.finished_at
    since = moment(connection, ago_s=within_s)
    query = select(*(table.c[name] for name in names)).where(ended_at.is_not(None), ended_at >= since)
    return query.order_by(ended_at.desc()).limit(_ROWS_MAX).subquery()


def open_calls(connection: Connection) -> Rows:
    """Calls that are being made, by model."""
    is_started = calls.c.status == bindparam("started", "started", literal_execute=True)
    query = select(calls.c.model, func.count().label("calls")).where(is_started).group_by(calls.c.model)
    return _rows(connection, query)


def deliveries(connection: Connection) -> Rows:
    """Webhooks that are to be sent, and since when the longest one is due; those that were given up."""
    found: Rows = []
    for status in ("pending", "failed"):
        is_so = webhook_deliveries.c.status == bindparam("status", status, literal_execute=True)
        oldest = func.min(webhook_deliveries.c.next_at).label("due_since")
        query = select(func.count().label("deliveries"), oldest, DbNow().label("now")).where(is_so)
        found += [{"status": status, **row} for row in _rows(connection, query)]
    return found


def size_bytes(connection: Connection) -> int:
    """What the database takes on its disk, its journal not counted."""
    if connection.dialect.name == "postgresql":
        return connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    pages, size = (connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size"))
    return pages * size


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return cast(func.coalesce(func.sum(case((condition, 1), else_=0)), 0), Integer)


def _rows(connection: Connection, query: Executable) -> Rows:
    return [dict(row) for row in connection.execute(query).mappings()]
