"""Runs: one row each, its state and its sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    and_,
    case,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from redraft.storage.engine.bulk_tables import dataset_items, datasets, run_items, runs
from redraft.storage.engine.columns import DbNow, moment
from redraft.storage.engine.tables import calls, jobs


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One row of `runs`."""

    id: str
    name: str
    dataset_id: str
    status: str
    stop_reason: str | None
    defaults: dict[str, Any]
    overrides: dict[str, Any]
    repeat: int
    max_in_flight: int
    max_cost_nano_usd: int | None
    total: int
    version: int
    created_at: datetime
    finished_at: datetime | None
    idempotency_scope: str | None
    idempotency_key: str | None
    request_hash: str
    resumed_at: datetime | None
    idle_ms: int | None
    webhook: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Sums:
    """What all jobs of a run have cost so far; `unpriced_calls`: of how many calls nobody knows."""

    calls: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_nano_usd: int
    unpriced_calls: int


def add(connection: Connection, values: Mapping[str, Any]) -> bool:
    """Store a run with all its items: the dataset's rows in order, each `repeat` times.

    Returns:
        False when there is one with its idempotency key already; nothing is stored then.
    """
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = (
        dialect.insert(runs)
        .values(**values)
        .on_conflict_do_nothing(index_elements=[runs.c.idempotency_scope, runs.c.idempotency_key])
        .returning(runs.c.id)
    )
    if connection.scalar(statement) is None:
        return False
    repeat: int = values["repeat"]
    for number in range(1, repeat + 1):
        is_bad = dataset_items.c.row.is_(None)
        rows = select(
            literal(values["id"]),
            dataset_items.c.position * repeat + number,
            dataset_items.c.position,
            literal(number, Integer),
            case((is_bad, "invalid"), else_="queued"),
            dataset_items.c.errors,
        ).where(dataset_items.c.dataset_id == values["dataset_id"])
        names = ["run_id", "number", "position", "repeat", "status", "errors"]
        connection.execute(insert(run_items).from_select(names, rows))
    return True


def find_by_key(connection: Connection, scope: str, key: str) -> RunRecord | None:
    condition = and_(runs.c.idempotency_scope == scope, runs.c.idempotency_key == key)
    row = connection.execute(select(runs).where(condition)).mappings().one_or_none()
    return None if row is None else RunRecord(**row)


def get(connection: Connection, run_id: str) -> RunRecord | None:
    row = connection.execute(select(runs).where(runs.c.id == run_id)).mappings().one_or_none()
    return None if row is None else RunRecord(**row)


def hold(connection: Connection, run_id: str) -> RunRecord | None:
    """A run, which nobody else can change before this unit of work is committed."""
    row = connection.execute(select(runs).where(runs.c.id == run_id).with_for_update()).mappings().one_or_none()
    return None if row is None else RunRecord(**row)


def is_running(connection: Connection, run_id: str) -> bool:
    return connection.scalar(select(runs.c.id).where(runs.c.id == run_id, is_active())) is not None


def active_ids(connection: Connection) -> list[str]:
    return list(connection.scalars(select(runs.c.id).where(is_active()).order_by(runs.c.id)))


def is_active() -> ColumnElement[bool]:
    # Spelled as in the index: SQLite takes it for no parameter
    return runs.c.status == literal("running", literal_execute=True)


def latest_finished(connection: Connection, run: RunRecord) -> str | None:
    """The newest run before this one, on the same rows, that was neither canceled nor stopped by its budget."""
    its_version = select(datasets.c.version).where(datasets.c.id == run.dataset_id).scalar_subquery()
    is_earlier = or_(runs.c.created_at < run.created_at, and_(runs.c.created_at == run.created_at, runs.c.id < run.id))
    query = (
        select(runs.c.id)
        .join(datasets, datasets.c.id == runs.c.dataset_id)
        .where(datasets.c.version == its_version, runs.c.stop_reason == "finished", is_earlier)
        .order_by(runs.c.created_at.desc(), runs.c.id.desc())
        .limit(1)
    )
    return connection.scalar(query)


def list_page(connection: Connection, *, after: tuple[datetime, str] | None, limit: int) -> list[RunRecord]:
    """Newest first: one page and one more."""
    query = select(runs)
    if after:
        at, run_id = after
        query = query.where(or_(runs.c.created_at < at, and_(runs.c.created_at == at, runs.c.id < run_id)))
    query = query.order_by(runs.c.created_at.desc(), runs.c.id.desc()).limit(limit + 1)
    return [RunRecord(**row) for row in connection.execute(query).mappings()]


def sums(connection: Connection, run_id: str) -> Sums:
    names = ("calls", "input_tokens", "cached_input_tokens", "output_tokens", "cost_nano_usd", "unpriced_calls")
    query = select(*(func.coalesce(func.sum(jobs.c[name]), 0) for name in names)).where(jobs.c.run_id == run_id)
    return Sums(*map(int, connection.execute(query).one()))


def max_cost(connection: Connection, run_id: str) -> int | None:
    """The run's budget in billionths of a USD."""
    return connection.scalar(select(runs.c.max_cost_nano_usd).where(runs.c.id == run_id))


def unpriced_models(connection: Connection, run_id: str) -> list[str]:
    """The models of calls whose tokens are known and whose price is not, in order."""
    query = (
        select(calls.c.model)
        .distinct()
        .join_from(jobs, calls, calls.c.job_id == jobs.c.id)
        .where(jobs.c.run_id == run_id, jobs.c.unpriced_calls > 0)
        .where(calls.c.cost_nano_usd.is_(None), calls.c.input_tokens.is_not(None))
        .order_by(calls.c.model)
    )
    return list(connection.scalars(query))


def change(connection: Connection, run_id: str, **values: Any) -> None:
    connection.execute(update(runs).where(runs.c.id == run_id).values(version=runs.c.version + 1, **values))


def go_on(connection: Connection, run: RunRecord) -> None:
    """A run that has ended is no longer at its end; the time since then is idle."""
    at = moment(connection, ago_s=0)
    since = at - (run.finished_at or at)
    idle_ms = (run.idle_ms or 0) + round(since.total_seconds() * 1000)
    ended_no_more = {"status": "running", "stop_reason": None, "finished_at": None}
    change(connection, run.id, **ended_no_more, resumed_at=at, idle_ms=idle_ms)


def finish(connection: Connection, run_id: str, status: str, stop_reason: str) -> RunRecord:
    """End a run that is held; the run as it has ended."""
    values = {"status": status, "stop_reason": stop_reason, "finished_at": DbNow()}
    change(connection, run_id, **values)
    return RunRecord(**connection.execute(select(runs).where(runs.c.id == run_id)).mappings().one())
