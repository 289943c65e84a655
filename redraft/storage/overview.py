"""What the overview shows of single jobs: few columns of few rows, however long the texts in them are."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import JSON, ColumnElement, Connection, Float, String, cast, func, literal_column, select

from redraft.storage.columns import DbNow
from redraft.storage.moves import is_live
from redraft.storage.tables import jobs

# All live rows: without a word on the index's column SQLite reads the whole table.
_AGES_S = 1e9
_TEXT_CHARS = 300


@dataclass(frozen=True, slots=True)
class JobLine:
    """One line about a job; `task` is the beginning of its instruction."""

    id: str
    kind: str
    status: str
    stop_reason: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    model: str | None
    step: str
    iteration: int
    iteration_limit: int
    best_score: float | None
    cost_nano_usd: int
    unpriced_calls: int
    task: str
    score_threshold: float


def running(connection: Connection, *, limit: int) -> list[JobLine]:
    """Jobs that are being worked on, newest first."""
    query = select(*_line(connection)).where(jobs.c.status == "running")
    query = query.order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(limit)
    return [JobLine(**row) for row in connection.execute(query).mappings()]


def last_ended(connection: Connection, *, limit: int) -> list[JobLine]:
    """Jobs that have ended, the latest first."""
    query = select(*_line(connection)).where(jobs.c.finished_at.is_not(None))
    query = query.order_by(jobs.c.finished_at.desc()).limit(limit)
    return [JobLine(**row) for row in connection.execute(query).mappings()]


def steps_in_flight(connection: Connection) -> dict[str, int]:
    """How many steps each worker holds now."""
    query = (
        select(jobs.c.lease_owner, func.count())
        .where(is_live(), jobs.c.available_at < DbNow(_AGES_S), jobs.c.lease_expires_at >= DbNow())
        .group_by(jobs.c.lease_owner)
    )
    return {owner: count for owner, count in connection.execute(query) if owner}


def _line(connection: Connection) -> list[ColumnElement[object]]:
    names = [name for name in JobLine.__dataclass_fields__ if name not in {"task", "score_threshold"}]
    task = func.substr(_of_request(connection, "instruct"), 1, _TEXT_CHARS)
    threshold = cast(_of_request(connection, "score_threshold"), Float)
    return [*(jobs.c[name] for name in names), task.label("task"), threshold.label("score_threshold")]


def _of_request(connection: Connection, name: str) -> ColumnElement[str]:
    if connection.dialect.name == "postgresql":
        return cast(jobs.c.request, JSON)[name].as_string()
    return func.json_extract(jobs.c.request, literal_column(f"'$.{name}'"), type_=String)
