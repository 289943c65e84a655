"""Sums up the usage of model calls in the database."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, FromClause, and_, cast, func, select

from redraft.storage.engine.columns import utc_period
from redraft.storage.engine.query_parts import fetch_all, matches
from redraft.storage.engine.tables import TOKENS, calls, jobs

_SUMMED = (*TOKENS, "cost_nano_usd")


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """The filter of calls: calls that ended at or after `since`, and before `until`."""

    since: datetime
    until: datetime
    model: str | None = None
    kind: str | None = None


def total(connection: Connection, criteria: UsageFilter) -> Mapping[str, Any]:
    return fetch_all(connection, select(*_SUMS).select_from(calls).where(*_conditions(criteria)))[0]


def by_day_and_model(connection: Connection, criteria: UsageFilter, limit: int) -> list[dict[str, Any]]:
    """Return the sums of each day (UTC) and model, newest day first."""
    day = utc_period(connection, calls.c.finished_at, "day")
    query = select(day.label("day"), calls.c.model, *_SUMS).where(*_conditions(criteria)).group_by(day, calls.c.model)
    return fetch_all(connection, query.order_by(day.desc(), calls.c.model).limit(limit))


def _conditions(criteria: UsageFilter) -> list[ColumnElement[bool]]:
    # The first condition is that of the partial index, which SQLite does not infer from the other conditions
    found: list[ColumnElement[bool]] = [calls.c.finished_at.is_not(None)]
    found += [calls.c.finished_at >= criteria.since, calls.c.finished_at < criteria.until]
    found += matches(calls, criteria, ("model",))
    if criteria.kind is not None:
        found.append(calls.c.job_id.in_(select(jobs.c.id).where(jobs.c.kind == criteria.kind)))
    return found


def is_unpriced(table: FromClause) -> ColumnElement[bool]:
    """Whether the cost of a call is unknown. Failed calls cost nothing. Calls with unknown outcome may cost money."""
    return and_(table.c.cost_nano_usd.is_(None), table.c.status.in_(("ok", "dup", "unknown")))


_SUMS = (
    func.count().label("calls"),
    func.count().filter(calls.c.status.in_(("error", "unknown"))).label("failed_calls"),
    func.count().filter(calls.c.cached).label("cached_calls"),
    func.count().filter(is_unpriced(calls)).label("unpriced_calls"),
    # The sums are cast, because on PostgreSQL the sum of bigint values is numeric
    *(cast(func.coalesce(func.sum(calls.c[name]), 0), BigInteger).label(name) for name in _SUMMED),
)
