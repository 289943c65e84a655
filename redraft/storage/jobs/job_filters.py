"""Filters and orders lists of jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from redraft.domain.jobs.states import JobKind
from redraft.storage.engine.query_parts import ListPosition, is_after_position, is_between, matches
from redraft.storage.engine.tables import OTHER_KINDS, jobs


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The filter of a list of jobs. `after` is the position of the last row of the previous page."""

    statuses: tuple[str, ...] = ()
    stop_reason: str | None = None
    kind: str | None = None
    model: str | None = None
    run_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    metadata: Mapping[str, str] | None = None
    newest_first: bool = True
    after: ListPosition | None = None
    limit: int = 20


def in_order(query: Any, *, newest_first: bool) -> Any:
    order = (jobs.c.created_at, jobs.c.id)
    return query.order_by(*(column.desc() if newest_first else column.asc() for column in order))


def conditions(connection: sa.Connection, criteria: JobFilter) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if criteria.statuses:
        found.append(jobs.c.status.in_(criteria.statuses))
    found += matches(jobs, criteria, ("stop_reason", "kind", "model", "run_id"))
    if criteria.kind not in {None, JobKind.GENERATE_ANSWER}:
        # The same text as in the partial index, because SQLite does not use the index for another text
        found.append(sa.text(OTHER_KINDS))  # pyright: ignore[reportArgumentType]
    found += is_between(jobs.c.created_at, criteria.created_after, criteria.created_before)
    found.extend(metadata_conditions(connection, criteria.metadata or {}))
    if criteria.after:
        found.append(is_after_position(jobs, criteria.after, newest_first=criteria.newest_first))
    return found


def metadata_conditions(connection: sa.Connection, wanted: Mapping[str, str]) -> list[sa.ColumnElement[bool]]:
    """Return conditions that a job has all these pairs in its metadata."""
    if not wanted:
        return []
    if connection.dialect.name == "postgresql":
        return [jobs.c.metadata.op("@>")(dict(wanted))]
    each = sa.func.json_each(jobs.c.metadata).table_valued("key", "value")
    return [
        sa.select(1).select_from(each).where(each.c.key == key, each.c.value == value).exists()
        for key, value in wanted.items()
    ]
