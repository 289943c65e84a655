"""Stores, reads, changes and removes runs. A run is removed a few items at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Integer,
    Select,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    literal_column,
    select,
    update,
)

from redraft.storage.engine import query_parts
from redraft.storage.engine.bulk_tables import dataset_items, datasets, run_items, runs
from redraft.storage.engine.columns import DbNow, database_time
from redraft.storage.engine.statements import fetch
from redraft.storage.engine.tables import TOKENS, calls, jobs


@dataclass(frozen=True, slots=True)
class RunRecord:
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
    delivery: str
    delivery_reason: str | None


@dataclass(frozen=True, slots=True)
class Sums:
    """The usage of all jobs of a run. `unpriced_calls` is the number of calls with unknown cost."""

    calls: int
    input_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_nano_usd: int
    unpriced_calls: int


def add(connection: Connection, values: Mapping[str, Any]) -> bool:
    """Store a run with its items: each row of the dataset, in order, `repeat` times.

    Returns False and stores nothing if a run has the same idempotency key.
    """
    if not query_parts.insert_if_absent(connection, runs, values, ("idempotency_scope", "idempotency_key")):
        return False
    repeat: int = values["repeat"]
    for number in range(1, repeat + 1):
        items = {
            "run_id": literal(values["id"]),
            "number": dataset_items.c.position * repeat + number,
            "position": dataset_items.c.position,
            "repeat": literal(number, Integer),
            "status": case((dataset_items.c.row.is_(None), "invalid"), else_="queued"),
            "errors": dataset_items.c.errors,
        }
        rows = select(*items.values()).where(dataset_items.c.dataset_id == values["dataset_id"])
        connection.execute(insert(run_items).from_select(list(items), rows))
    return True


def find_by_key(connection: Connection, scope: str, key: str) -> RunRecord | None:
    return _one(connection, select(runs).where(runs.c.idempotency_scope == scope, runs.c.idempotency_key == key))


def get(connection: Connection, run_id: str) -> RunRecord | None:
    return _one(connection, select(runs).where(runs.c.id == run_id))


def lock(connection: Connection, run_id: str) -> RunRecord | None:
    """Return a run and lock it until the unit of work ends. Return None if there is no such run."""
    row = fetch(connection, _lock_statement(), {"p_id": run_id})
    return None if row is None else RunRecord(**row)


@cache  # the scheduler often runs this statement
def _lock_statement() -> Executable:
    return select(runs).where(runs.c.id == bindparam("p_id")).with_for_update()


def _one(connection: Connection, query: Select[Any]) -> RunRecord | None:
    row = query_parts.fetch_one(connection, query)
    return None if row is None else RunRecord(**row)


def is_running(connection: Connection, run_id: str) -> bool:
    return query_parts.exists(connection, runs.c.id == run_id, is_active())


def list_active(connection: Connection) -> list[RunRecord]:
    return [RunRecord(**row) for row in query_parts.fetch_all(connection, _active_statement())]


@cache
def _active_statement() -> Executable:
    return select(runs).where(is_active()).order_by(runs.c.id)


def is_active() -> ColumnElement[bool]:
    # The literal must be that of the partial index, which SQLite does not use for a parameter
    return runs.c.status == literal_column("'running'")


def latest_finished(connection: Connection, run: RunRecord) -> str | None:
    """Return the newest earlier run of the same dataset version that finished all its items."""
    its_version = select(datasets.c.version).where(datasets.c.id == run.dataset_id).scalar_subquery()
    is_earlier = query_parts.is_after_position(runs, (run.created_at, run.id), newest_first=True)
    query = (
        select(runs.c.id)
        .join(datasets, datasets.c.id == runs.c.dataset_id)
        .where(datasets.c.version == its_version, runs.c.stop_reason == "finished", is_earlier)
        .order_by(runs.c.created_at.desc(), runs.c.id.desc())
        .limit(1)
    )
    return connection.scalar(query)


def list_page(connection: Connection, *, after: query_parts.ListPosition | None, limit: int) -> list[RunRecord]:
    return [RunRecord(**row) for row in query_parts.fetch_all(connection, query_parts.list_newest(runs, after, limit))]


def list_of_dataset(connection: Connection, dataset_id: str, *, limit: int) -> list[RunRecord]:
    """Return the newest runs of a dataset, newest first."""
    query = query_parts.list_newest(runs, None, limit, runs.c.dataset_id == dataset_id)
    # `list_newest` returns one row more than the limit
    return [RunRecord(**row) for row in query_parts.fetch_all(connection, query)[:limit]]


def sums(connection: Connection, run_id: str) -> Sums:
    names = ("calls", *TOKENS, "cost_nano_usd", "unpriced_calls")
    query = select(*(func.coalesce(func.sum(jobs.c[name]), 0) for name in names)).where(jobs.c.run_id == run_id)
    return Sums(*map(int, connection.execute(query).one()))


def max_cost(connection: Connection, run_id: str) -> int | None:
    """Return the budget of a run in 1e-9 USD. None means no budget."""
    return connection.scalar(select(runs.c.max_cost_nano_usd).where(runs.c.id == run_id))


def unpriced_models(connection: Connection, run_id: str) -> list[str]:
    """Return the models of calls with known tokens and unknown cost, in alphabetical order."""
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


def resume(connection: Connection, run: RunRecord) -> None:
    """Set an ended run to running again. The time since its end is added to its idle time."""
    at = database_time(connection, ago_s=0)
    since = at - (run.finished_at or at)
    idle_ms = (run.idle_ms or 0) + round(since.total_seconds() * 1000)
    is_open = {"status": "running", "stop_reason": None, "finished_at": None}
    change(connection, run.id, **is_open, resumed_at=at, idle_ms=idle_ms)


def finish(connection: Connection, run_id: str, status: str, stop_reason: str) -> RunRecord:
    """End a locked run. Return its record after the change."""
    change(connection, run_id, status=status, stop_reason=stop_reason, finished_at=DbNow())
    return RunRecord(**query_parts.fetch_all(connection, select(runs).where(runs.c.id == run_id))[0])


def live_job(connection: Connection, run_id: str) -> str | None:
    """Return the id of a job of this run that has not ended, or None."""
    return connection.scalar(select(jobs.c.id).where(jobs.c.run_id == run_id, jobs.c.finished_at.is_(None)).limit(1))


def one_of_dataset(connection: Connection, dataset_id: str) -> str | None:
    return connection.scalar(select(runs.c.id).where(runs.c.dataset_id == dataset_id).limit(1))


def first_items(connection: Connection, run_id: str, limit: int) -> list[tuple[int, str | None]]:
    """Return the number and the job id of the first remaining items."""
    query = select(run_items.c.number, run_items.c.job_id).where(run_items.c.run_id == run_id)
    return [(number, job_id) for number, job_id in connection.execute(query.order_by(run_items.c.number).limit(limit))]


def remove_jobs(connection: Connection, job_ids: Sequence[str]) -> str | None:
    """Remove the jobs that have ended, with all their rows. Return the id of a job that has not ended, or None."""
    chosen = jobs.c.id.in_(job_ids)
    connection.execute(delete(jobs).where(chosen, jobs.c.finished_at.is_not(None)))
    return connection.scalar(select(jobs.c.id).where(chosen).limit(1))


def remove_items(connection: Connection, run_id: str, numbers: Sequence[int]) -> None:
    connection.execute(delete(run_items).where(run_items.c.run_id == run_id, run_items.c.number.in_(numbers)))


def remove(connection: Connection, run_id: str) -> None:
    connection.execute(delete(runs).where(runs.c.id == run_id))
