"""The ledger: one row per call to a provider, also for failed and lost calls. Rows are added and closed, not edited."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from redraft.domain.calls.model_names import FREE_PROVIDER
from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.states import Step, StopReason
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.query_parts import exists, fetch_all, fetch_one
from redraft.storage.engine.statements import Change, Rows, add_rows, run
from redraft.storage.engine.tables import TOKENS, calls, jobs

# Iteration, candidate, and the number of the call among the calls for this candidate
SlotKey = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ClosedCall:
    """The new status of a call. `was_lost`: the call had the status `unknown` before. `is_free`: its model is free."""

    status: str
    was_lost: bool
    is_free: bool = False


_IS_FREE = calls.c.provider == FREE_PROVIDER


def _lost(message: str, code: str = "worker_lost") -> dict[str, Any]:
    return {
        "status": "unknown",
        "finished_at": DbNow(),
        "cost_nano_usd": sa.case((_IS_FREE, 0)),
        "error": job_error(code, message),
    }


_LOST = _lost("The worker that made this call was lost before its outcome was known.")
_STOPPED = _lost("The worker that made this call was stopped before its outcome was known.")
_ABORTED = _lost("The call was aborted, because its job was canceled.", "canceled")
_LOST_COLUMNS = (calls.c.job_id, calls.c.provider)
_SLOT = ("job_id", "iteration", "candidate", "step", "seq")
_CLOSE_COLUMNS = (
    *("cached", "response", "reply_text", "http_status", "response_headers", "finish_reason", "error"),
    *(*TOKENS, "cost_nano_usd", "latency_ms"),
)
_SPENT = ("input_tokens", "output_tokens", "cost_nano_usd")
_SUMMED = (*TOKENS, "cost_nano_usd", "latency_ms")
_SUMMARY_COLUMNS = (
    *("id", "type", "step", "iteration", "candidate", "seq", "model", "attempt", "status", "cached", "http_status"),
    "finish_reason",
    *("input_tokens", "output_tokens", "cost_nano_usd", "latency_ms", "error", "started_at", "finished_at"),
)
_RECORDED_COLUMNS = (
    *("id", "iteration", "candidate", "seq", "model", "status", "request"),
    *("reply_text", "finish_reason", "output_tokens", "error"),
)


def recorded_replies(
    connection: sa.Connection, job_id: str, step: str, iteration: int | None, *, with_failures: bool
) -> dict[SlotKey, Mapping[str, Any]]:
    """Return the replies and permanent failures that earlier workers recorded for this step, by slot.

    Transient failures are not returned, so that their calls are made again. Answers that were cut off are returned.
    `with_failures` is False after a continuation, because the cause of a permanent failure may be gone. `iteration` is
    None for a step that covers several iterations.
    """
    query = (
        sa.select(*(calls.c[name] for name in _RECORDED_COLUMNS))
        .where(calls.c.job_id == job_id, calls.c.step == step, calls.c.status.in_(("ok", "error")))
        .order_by(calls.c.status.desc(), calls.c.id)
    )
    if iteration is not None:
        query = query.where(calls.c.iteration == iteration)
    found: dict[SlotKey, Mapping[str, Any]] = {}
    for row in fetch_all(connection, query):
        is_cut_answer = step == Step.GENERATE and row["reply_text"] is not None
        if row["status"] == "ok" or is_cut_answer or (with_failures and not row["error"]["retryable"]):
            found.setdefault((row["iteration"], row["candidate"], row["seq"]), row)
    return found


def open_calls(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    add_rows(connection, *rows_of(rows))


def rows_of(rows: Sequence[Mapping[str, Any]]) -> Rows:
    return calls, rows


def lost_usage(closed: Iterable[bool]) -> Counter[str]:
    """Return the usage of calls with unknown outcome. `closed` has one item per call: whether its model is free."""
    free = list(closed)
    return Counter(calls=len(free), unpriced_calls=free.count(False))


def close_lost(connection: sa.Connection, job_id: str, token: int) -> Mapping[str, int]:
    """Close the calls of lost workers as unknown. Return the usage that these calls add to their job."""
    # A call in a batch is not lost with its worker, because the results of the batch close it
    is_live = calls.c.batch_id.is_(None)
    is_lost = sa.and_(calls.c.job_id == job_id, calls.c.status == "started", calls.c.lease_token < token, is_live)
    lost = sa.update(calls).where(is_lost).values(_LOST).returning(*_LOST_COLUMNS)
    return _close_all(connection, lost).get(job_id, {})


def close_stopped(connection: sa.Connection, in_flight: Sequence[tuple[str, int]]) -> Mapping[str, Mapping[str, int]]:
    """Close the open calls of a stopping worker. Return their usage by job id.

    `in_flight` has a job id and a lease token for each step of the worker. The calls of a canceled job get the error
    `canceled`, because their worker has aborted them.
    """
    is_stopped = sa.tuple_(calls.c.job_id, calls.c.lease_token).in_(in_flight)
    stopped = sa.update(calls).where(is_stopped, calls.c.status == "started").returning(*_LOST_COLUMNS)
    is_canceled = calls.c.job_id.in_(sa.select(jobs.c.id).where(jobs.c.status == "canceled"))
    aborted = _close_all(connection, stopped.where(is_canceled).values(_ABORTED))
    return aborted | _close_all(connection, stopped.values(_STOPPED))


def close_abandoned(
    connection: sa.Connection, *, after_s: float, ended_s: float, limit: int
) -> Mapping[str, Mapping[str, int]]:
    """Close at most `limit` calls of lost processes. Return their usage by job id.

    A call without a job is closed `after_s` seconds after its start. A call of an ended job is closed `ended_s` seconds
    after the end of the job, because a live process has aborted the call by then.
    """
    # These are two statements, because PostgreSQL may repeat a subquery with a limit for each call that an UPDATE tests
    ids = list(connection.scalars(_abandoned_query(after_s, ended_s, limit)))
    if not ids:
        return {}
    is_open = sa.and_(calls.c.id.in_(ids), calls.c.status == "started")
    return _close_all(connection, sa.update(calls).where(is_open).values(_LOST).returning(*_LOST_COLUMNS))


def _close_all(connection: sa.Connection, statement: sa.Executable) -> dict[str, Counter[str]]:
    usage = defaultdict[str, Counter[str]](Counter)
    for job_id, provider in connection.execute(statement):
        if job_id:
            usage[job_id] += lost_usage([provider == FREE_PROVIDER])
    return usage


@cache
def _abandoned_query(after_s: float, ended_s: float, limit: int) -> sa.Select[tuple[str]]:
    # The literal must be that of the partial index on started calls, which SQLite does not use for a parameter
    is_started = calls.c.status == sa.literal("started", literal_execute=True)
    has_no_job = calls.c.job_id.is_(None)
    # A job with the stop reason `answered` still has a step, whose calls may be in flight
    has_ended = (jobs.c.finished_at < DbNow(-ended_s)) & (jobs.c.stop_reason != StopReason.ANSWERED.value)
    return (
        sa.select(calls.c.id)
        .outerjoin(jobs, jobs.c.id == calls.c.job_id)
        .where(is_started, calls.c.batch_id.is_(None), calls.c.started_at < DbNow(-min(after_s, ended_s)))
        .where(sa.or_(has_no_job & (calls.c.started_at < DbNow(-after_s)), has_ended))
        .limit(limit)
    )


def close(connection: sa.Connection, call_id: str, values: Mapping[str, Any]) -> ClosedCall | None:
    """Store the outcome of a call. Return None if the call already has an outcome.

    A second reply for a slot gets the status `dup`. A call with the status `unknown` is closed again, because a late
    worker may still report the outcome.
    """
    for was_lost in (False, True):
        change = close_change(call_id, values, was_lost=was_lost)
        row = run(connection, change.statement, change.values)
        if row is not None:
            status, provider = row
            return ClosedCall(status, was_lost, provider == FREE_PROVIDER)
    return None


def close_change(call_id: str, values: Mapping[str, Any], *, number: int = 0, was_lost: bool = False) -> Change:
    """Return the change that `close` makes. `number` makes the parameter names of one statement unique."""
    name = f"c{number}_"
    parameters = {f"{name}{column}": values.get(column) for column in _CLOSE_COLUMNS} | {
        f"{name}cached": values.get("cached", False),
        f"{name}reusable": values.get("is_reusable", True),
        f"{name}id": call_id,
        f"{name}open": "unknown" if was_lost else "started",
        f"{name}status": values["status"],
    }
    return Change(_close_statement(name), parameters)


def has_other_reply(call_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether the slot of a call already has the reply of another call."""
    call, other = calls.alias(), calls.alias()
    same_slot = sa.and_(*(other.c[column] == call.c[column] for column in _SLOT), other.c.status == "ok")
    return sa.select(1).where(call.c.id == call_id, same_slot).exists()


@cache
def _close_statement(name: str) -> sa.Update:
    # If two workers close a slot at once, the index `uq_calls_ok` refuses the second row, and `persist` tries again
    other = calls.alias()
    same_slot = sa.and_(*(other.c[column] == calls.c[column] for column in _SLOT), other.c.status == "ok")
    is_second = sa.and_(sa.bindparam(f"{name}status", type_=sa.String) == "ok", sa.select(1).where(same_slot).exists())
    return (
        sa.update(calls)
        .where(calls.c.id == sa.bindparam(f"{name}id"), calls.c.status == sa.bindparam(f"{name}open"))
        .values(
            status=sa.case((is_second, "dup"), else_=sa.bindparam(f"{name}status", type_=sa.String)),
            finished_at=DbNow(),
            cache_key=sa.case((sa.bindparam(f"{name}reusable", type_=sa.Boolean), calls.c.cache_key)),
            **{column: sa.bindparam(f"{name}{column}", type_=calls.c[column].type) for column in _CLOSE_COLUMNS},
        )
        .returning(calls.c.status, calls.c.provider)
    )


def find_reusable(connection: sa.Connection, cache_key: str) -> dict[str, Any] | None:
    """Return the text, the body and the finish reason of the oldest reply to an identical call, if there is one."""
    # The conditions have no parameters, because SQLite does not use the partial index with parameters
    is_reusable = calls.c.cache_key.is_not(None) & (calls.c.status == sa.literal("ok", literal_execute=True))
    query = sa.select(calls.c.reply_text, calls.c.response, calls.c.finish_reason)
    query = query.where(calls.c.cache_key == cache_key, is_reusable).order_by(calls.c.finished_at).limit(1)
    return fetch_one(connection, query)


def usage_of_job(connection: sa.Connection, job_id: str) -> list[dict[str, Any]]:
    """Return the usage of each call of a job, with the request, from which unknown usage is estimated."""
    names = ("model", "status", "cached", "http_status", "request", "batch_id", *_SPENT)
    return fetch_all(connection, sa.select(*(calls.c[name] for name in names)).where(calls.c.job_id == job_id))


def open_in_run(connection: sa.Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the live calls in flight of a run's jobs."""
    query = (
        sa.select(calls.c.model, calls.c.request)
        .join_from(calls, jobs, jobs.c.id == calls.c.job_id)
        .where(calls.c.status == sa.literal("started", literal_execute=True), jobs.c.run_id == run_id)
        .where(calls.c.batch_id.is_(None))
    )
    return fetch_all(connection, query)


def unpriced_in_run(connection: sa.Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the ended calls of a run's jobs whose cost is unknown."""
    names = ("model", "request", "status", "http_status", "batch_id")
    query = (
        sa.select(*(calls.c[name] for name in names))
        .join_from(jobs, calls, calls.c.job_id == jobs.c.id)
        .where(jobs.c.run_id == run_id, jobs.c.unpriced_calls > 0)
        .where(calls.c.status != sa.literal("started", literal_execute=True))
        .where(calls.c.input_tokens.is_(None), calls.c.cached.is_(False))
    )
    return fetch_all(connection, query)


def usage_by_attempt(connection: sa.Connection, job_id: str) -> dict[tuple[int, int], dict[str, int]]:
    sums = {
        "calls": sa.func.count(),
        "unpriced_calls": sa.func.count().filter(calls.c.cost_nano_usd.is_(None)),
        **{name: sa.func.coalesce(sa.func.sum(calls.c[name]), 0) for name in _SUMMED},
    }
    query = (
        sa.select(calls.c.iteration, calls.c.candidate, *(each.label(name) for name, each in sums.items()))
        .where(calls.c.job_id == job_id)
        .group_by(calls.c.iteration, calls.c.candidate)
    )
    rows = fetch_all(connection, query)
    return {(row["iteration"], row["candidate"]): {name: int(row[name]) for name in sums} for row in rows}


def release_slot(connection: sa.Connection, call_id: str) -> None:
    """Set the status of an unused reply to `dup`, so that its slot can get another reply."""
    connection.execute(sa.update(calls).where(calls.c.id == call_id).values(status="dup"))


def has_open(connection: sa.Connection, job_id: str) -> bool:
    return exists(connection, calls.c.job_id == job_id, calls.c.status == "started")


def of_job(connection: sa.Connection, job_id: str) -> list[dict[str, Any]]:
    query = sa.select(calls).where(calls.c.job_id == job_id)
    return fetch_all(connection, query.order_by(calls.c.started_at, calls.c.id))


def summaries_of_job(connection: sa.Connection, job_id: str, limit: int) -> list[dict[str, Any]]:
    """Return the first calls of a job without their texts, which may be large."""
    query = sa.select(*(calls.c[name] for name in _SUMMARY_COLUMNS)).where(calls.c.job_id == job_id)
    return fetch_all(connection, query.order_by(calls.c.started_at, calls.c.id).limit(limit))


def get(connection: sa.Connection, job_id: str, call_id: str) -> dict[str, Any] | None:
    return fetch_one(connection, sa.select(calls).where(calls.c.job_id == job_id, calls.c.id == call_id))
