"""What the overview shows of single jobs: few columns of few rows, however long the texts in them are."""

from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Float, String, cast, func, literal_column, select

from redraft.storage.columns import DbNow
from redraft.storage.moves import is_live
from redraft.storage.tables import jobs

# All live rows: without a word on the index's column SQLite reads the whole table.
_AGES_S = 1e9
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


def steps_in_flight(connection: Connection) -> dict[str, int]:
    """How many steps each worker holds now."""
    query = (
        select(jobs.c.lease_owner, func.count())
        .where(is_live(), jobs.c.available_at < DbNow(_AGES_S), jobs.c.lease_expires_at >= DbNow())
        .group_by(jobs.c.lease_owner)
    )
    return {owner: count for owner, count in connection.execute(query) if owner}


def _line(connection: Connection) -> list[ColumnElement[Any]]:
    """Of the request the beginning of its task, and the threshold."""
    task = func.substr(_of_request(connection, "instruct"), 1, _TEXT_CHARS)
    threshold = cast(_of_request(connection, "score_threshold"), Float)
    return [*(jobs.c[name] for name in _COLUMNS), task.label("task"), threshold.label("score_threshold")]


def _of_request(connection: Connection, name: str) -> ColumnElement[str]:
    if connection.dialect.name == "postgresql":
        return cast(jobs.c.request, JSON)[name].as_string()
    return func.json_extract(jobs.c.request, literal_column(f"'$.{name}'"), type_=String)
