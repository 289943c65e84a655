"""What calls to models took, added up in the database."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, String, and_, case, cast, func, select

from redraft.storage.engine.tables import calls, jobs

_SUMMED = ("input_tokens", "cached_input_tokens", "output_tokens", "cost_nano_usd")


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which calls count: those that ended from `since` on and before `until`."""

    since: datetime
    until: datetime
    model: str | None = None
    kind: str | None = None


def total(connection: Connection, criteria: UsageFilter) -> Mapping[str, Any]:
    """The sums over all calls."""
    query = select(*_sums()).select_from(calls).where(*_conditions(criteria))
    return dict(connection.execute(query).mappings().one())


def by_day_and_model(connection: Connection, criteria: UsageFilter, limit: int) -> list[Mapping[str, Any]]:
    """The sums of each day (UTC) and model, newest day first."""
    day = _day(connection)
    columns = (day.label("day"), calls.c.model)
    query = select(*columns, *_sums()).where(*_conditions(criteria)).group_by(day, calls.c.model)
    rows = connection.execute(query.order_by(day.desc(), calls.c.model).limit(limit)).mappings()
    return [dict(row) for row in rows]


def _day(connection: Connection) -> ColumnElement[str]:
    if connection.dialect.name == "sqlite":
        return func.substr(cast(calls.c.finished_at, String), 1, 10)
    return func.to_char(func.timezone("UTC", calls.c.finished_at), "YYYY-MM-DD")


def _conditions(criteria: UsageFilter) -> list[ColumnElement[bool]]:
    # The first one is the index's own condition
    found: list[ColumnElement[bool]] = [calls.c.finished_at.is_not(None)]
    found += [calls.c.finished_at >= criteria.since, calls.c.finished_at < criteria.until]
    if criteria.model is not None:
        found.append(calls.c.model == criteria.model)
    if criteria.kind is not None:
        found.append(calls.c.job_id.in_(select(jobs.c.id).where(jobs.c.kind == criteria.kind)))
    return found


def _sums() -> list[ColumnElement[int]]:
    is_unpriced = and_(calls.c.cost_nano_usd.is_(None), calls.c.status.in_(("ok", "dup", "unknown")))
    return [
        func.count().label("calls"),
        _count(calls.c.status.in_(("error", "unknown"))).label("failed_calls"),
        _count(calls.c.cached).label("cached_calls"),
        _count(is_unpriced).label("unpriced_calls"),
        *(cast(func.coalesce(func.sum(calls.c[name]), 0), BigInteger).label(name) for name in _SUMMED),
    ]


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return cast(func.coalesce(func.sum(case((condition, 1), else_=0)), 0), BigInteger)
