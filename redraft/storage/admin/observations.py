"""Observations: what accepted answers made of ranked sources. None is changed; they go with their job."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, literal, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

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
    """Which observations are looked at; None = all."""

    job_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


def add(connection: Connection, values: Mapping[str, Any]) -> None:
    """Store an observation, unless that answer has one: a continuation may return the same one once more."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    key = [observations.c.job_id, observations.c.iteration, observations.c.candidate]
    connection.execute(dialect.insert(observations).values(**values).on_conflict_do_nothing(index_elements=key))


def place_of(connection: Connection, observation_id: str) -> tuple[datetime, str] | None:
    """Where it stands in the order of a list."""
    query = select(observations.c.created_at, observations.c.id).where(observations.c.id == observation_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.created_at, row.id)


def list_page(
    connection: Connection, criteria: ObservationFilter, *, after: tuple[datetime, str] | None, limit: int
) -> list[ObservationRecord]:
    """The next ones, oldest first."""
    place = (observations.c.created_at, observations.c.id)
    query = select(observations).where(*_conditions(criteria)).order_by(*place).limit(limit)
    if after is not None:
        given = (literal(value, column.type) for value, column in zip(after, place, strict=True))
        query = query.where(tuple_(*place) > tuple_(*given))
    return [ObservationRecord(**row) for row in connection.execute(query).mappings()]


def stream_sources(connection: Connection, criteria: ObservationFilter) -> Iterator[list[dict[str, Any]]]:
    """The sources of each observation; a hundred at a time are in memory."""
    yield from connection.execution_options(yield_per=_ROWS_AT_ONCE).scalars(select_sources(criteria))


def select_sources(criteria: ObservationFilter) -> Executable:
    return select(observations.c.sources).where(*_conditions(criteria))


def _conditions(criteria: ObservationFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if criteria.job_id is not None:
        found.append(observations.c.job_id == criteria.job_id)
    if criteria.created_after is not None:
        found.append(observations.c.created_at > criteria.created_after)
    if criteria.created_before is not None:
        found.append(observations.c.created_at < criteria.created_before)
    return found
