"""Inserts, reads and lists jobs. `transitions.py` changes the row of a job while the job is live."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.driver import Statement
from redraft.storage.engine.group_commit import GroupCommit
from redraft.storage.engine.query_parts import (
    fetch_all,
    fetch_one,
    insert_into,
)
from redraft.storage.engine.statements import Change, Rows, defaults_of, fetch, fetch_with, with_rows
from redraft.storage.engine.tables import jobs
from redraft.storage.jobs.job_filters import JobFilter, has_success, in_order, positions


@dataclass(frozen=True, slots=True)
class JobRecord:
    id: str
    kind: str
    status: str
    stop_reason: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    deadline_at: datetime
    request: dict[str, Any]
    metadata: dict[str, str]
    warnings: list[dict[str, str]]
    model: str | None
    evaluator_model: str
    rescored_job_id: str | None
    run_id: str | None
    idempotency_scope: str | None
    idempotency_key: str | None
    request_hash: str
    trace_id: str | None
    traceparent: str | None
    step: str
    step_no: int
    step_attempt: int
    step_claims: int
    available_at: datetime
    rung_at: datetime | None
    ring_count: int
    lease_token: int
    lease_owner: str | None
    lease_expires_at: datetime | None
    lost_leases: int
    iteration: int
    iteration_limit: int
    first_iteration: int
    continuations: int
    guidance: str | None
    delivery: str | None
    best_score: float | None
    best_iteration: int | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    calls: int
    input_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_nano_usd: int
    unpriced_calls: int
    event_seq: int
    version: int


def as_record(row: Any) -> JobRecord:
    return JobRecord(**row)


def add(
    connection: sa.Connection,
    values: Mapping[str, Any],
    deadline_s: float,
    rows: Sequence[Rows] = (),
    changes: Sequence[Change] = (),
) -> JobRecord | None:
    """Insert a job, with rows and changes of other tables, and return its record.

    Return None and change nothing if a job has the same id or idempotency key.
    """
    statement = _add_statement(connection.dialect.name, tuple(values))
    row = fetch_with(connection, statement, _add_parameters(values, deadline_s), rows, changes)
    return None if row is None else as_record(row)


def add_in_group(
    group_commit: GroupCommit, values: Mapping[str, Any], deadline_s: float, rows: Sequence[Rows]
) -> JobRecord | None:
    """Insert a job with rows of other tables as one statement, and return its record after the commit.

    Return None if a job has the same id or idempotency key, or if it is unknown whether the job was stored.
    """

    def build(connection: sa.Connection) -> Statement:
        statement = _add_statement(connection.dialect.name, tuple(values))
        return with_rows(connection, statement, _add_parameters(values, deadline_s), rows)

    row = group_commit.fetch(values["id"], build)
    return None if row is None else as_record(row)


def _add_parameters(values: Mapping[str, Any], deadline_s: float) -> dict[str, Any]:
    return {**{f"p_{name}": value for name, value in values.items()}, "p_deadline_s": deadline_s}


@cache
def _add_statement(dialect_name: str, names: tuple[str, ...]) -> sa.Insert:
    columns = {name: sa.bindparam(f"p_{name}", type_=jobs.c[name].type) for name in names}
    times = {"deadline_at": DbNow(sa.bindparam("p_deadline_s", type_=sa.Float)), "rung_at": DbNow()}
    return (
        insert_into(jobs, dialect_name)
        .values({**defaults_of(jobs, names), **columns, **times})
        .on_conflict_do_nothing()
        .returning(*jobs.c)
        .inline()
    )


def is_accepted(connection: sa.Connection) -> sa.ColumnElement[bool]:
    """Return an expression for whether the answer of a job is accepted."""
    # A continued job that found no better answer stays accepted, with another stop reason. Only its result shows this,
    # and to read a result is slow
    is_kept = sa.case((jobs.c.continuations > 0, has_success(connection, jobs)), else_=sa.false())
    return sa.func.coalesce(sa.or_(jobs.c.stop_reason == "accepted", is_kept), sa.false())


def count_accepted(
    connection: sa.Connection, condition: Callable[[sa.FromClause], sa.ColumnElement[bool]]
) -> sa.ColumnElement[int]:
    """Return an expression for the number of accepted jobs, for a query that reads only an index.

    The expression has a subquery for continued jobs, whose results are in the table. `condition` selects the jobs of
    this subquery.
    """
    accepted = sa.func.count().filter(jobs.c.stop_reason == "accepted")
    continued = jobs.alias("continued")
    kept = sa.select(sa.func.count()).where(has_kept_acceptance(connection, continued), condition(continued))
    return accepted + kept.scalar_subquery()


def has_kept_acceptance(connection: sa.Connection, continued: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether the answer of a continued job is still accepted, although the continuation has another stop reason."""
    # 0 is a literal, because SQLite does not use the partial index for a parameter
    is_continued = continued.c.continuations > sa.literal_column("0")
    return sa.and_(is_continued, continued.c.stop_reason != "accepted", has_success(connection, continued))


def get(connection: sa.Connection, job_id: str) -> JobRecord | None:
    row = fetch(connection, _get_statement(), {"p_id": job_id})
    return None if row is None else as_record(row)


@cache
def _get_statement() -> sa.Executable:
    return sa.select(jobs).where(jobs.c.id == sa.bindparam("p_id"))


def state_of(connection: sa.Connection, job_id: str) -> tuple[int, str, str | None] | None:
    """Return version, status and stop reason of a job. A conditional request needs only these columns."""
    columns = (jobs.c.version, jobs.c.status, jobs.c.stop_reason)
    row = connection.execute(sa.select(*columns).where(jobs.c.id == job_id)).one_or_none()
    return None if row is None else (row.version, row.status, row.stop_reason)


def find_by_key(connection: sa.Connection, scope: str, key: str) -> JobRecord | None:
    has_key = sa.and_(jobs.c.idempotency_scope == scope, jobs.c.idempotency_key == key)
    row = fetch_one(connection, sa.select(jobs).where(has_key))
    return None if row is None else as_record(row)


def list_page(connection: sa.Connection, criteria: JobFilter) -> list[JobRecord]:
    """Return one page and one more row, which shows whether there is a next page."""
    # The ids are selected first, because an index may have all that the filter needs, and the rows are large
    ids = [job_id for _, job_id in positions(connection, criteria, extra=1)]
    query = in_order(sa.select(jobs).where(jobs.c.id.in_(ids)), newest_first=criteria.newest_first)
    return [as_record(row) for row in fetch_all(connection, query)]


def remove(connection: sa.Connection, job_id: str) -> bool:
    """Remove a job that has ended. Return False if there is no such job."""
    statement = sa.delete(jobs).where(jobs.c.id == job_id, jobs.c.finished_at.is_not(None)).returning(jobs.c.id)
    return connection.scalar(statement) is not None
