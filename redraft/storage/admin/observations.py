"""Stores and reads observations.

An observation records the ranked sources of an accepted answer, and which of them the answer cites.
Observations never change. They are removed with their job.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, select

from redraft.storage.engine.query_parts import (
    ListPosition,
    fetch_all,
    insert_if_absent,
    is_after_position,
    is_between,
    matches,
)
from redraft.storage.engine.tables import observations

_ROWS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class ObservationRecord:
    """One row of `observations`."""

    id: str
    job_id: str
    iteration: int
    candidate: int
    query: str
    sources: list[dict[str, Any]]
    score: float | None
    grounding_score: float | None
    generator_model: str | None
    evaluator_model: str | None
    profile: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ObservationFilter:
    """The filter of a list of observations. A field that is None matches all observations."""

    job_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


def add(connection: Connection, values: Mapping[str, Any]) -> None:
    """Store an observation, unless the answer already has an observation."""
    # A continuation may return the same answer again
    insert_if_absent(connection, observations, values, ("job_id", "iteration", "candidate"))


def position_of(connection: Connection, observation_id: str) -> ListPosition | None:
    query = select(observations.c.created_at, observations.c.id).where(observations.c.id == observation_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.created_at, row.id)


def list_page(
    connection: Connection, criteria: ObservationFilter, *, after: ListPosition | None, limit: int
) -> list[ObservationRecord]:
    """Return the observations after a position, oldest first."""
    query = select(observations).where(*_conditions(criteria))
    if after is not None:
        query = query.where(is_after_position(observations, after, newest_first=False))
    query = query.order_by(observations.c.created_at, observations.c.id).limit(limit)
    return [ObservationRecord(**row) for row in fetch_all(connection, query)]


def stream_sources(connection: Connection, criteria: ObservationFilter) -> Iterator[list[dict[str, Any]]]:
    """Yield the sources of each observation. Only a hundred observations are in memory at a time."""
    yield from connection.execution_options(yield_per=_ROWS_AT_ONCE).scalars(select_sources(criteria))


def select_sources(criteria: ObservationFilter) -> Executable:
    return select(observations.c.sources).where(*_conditions(criteria))


def _conditions(criteria: ObservationFilter) -> list[ColumnElement[bool]]:
    within = is_between(observations.c.created_at, criteria.created_after, criteria.created_before)
    return [*matches(observations, criteria, ("job_id",)), *within]
