"""The ledger: one row per call to a provider, failures and lost ones included. Rows are only added and closed."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    Boolean,
    Connection,
    Executable,
    String,
    Update,
    and_,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from redraft.domain.calls.models import FREE_PROVIDER
from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.states import Step
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.statements import Change, add_rows, run
from redraft.storage.engine.tables import calls, jobs

SlotKey = tuple[int, int, int]
"""Iteration, candidate, and the number of the call among those for it."""


@dataclass(frozen=True, slots=True)
class Closed:
    """How a call was closed, whether it had been written off before, and whether it costs nothing in any case."""

    status: str
    was_lost: bool
    is_free: bool = False


_IS_FREE = calls.c.provider == FREE_PROVIDER


def _lost(words: str, code: str = "worker_lost") -> dict[str, Any]:
    return {
        "status": "unknown",
        "finished_at": DbNow(),
        "cost_nano_usd": case((_IS_FREE, 0)),
        "error": job_error(code, words),
    }


_LOST = _lost("The worker that made this call was lost before its outcome was known.")
_LEFT = _lost("The worker that made this call was stopped before its outcome was known.")
_ABORTED = _lost("The call was aborted, because its job was canceled.", "canceled")
_AS_LOST = (calls.c.job_id, calls.c.provider)
_SLOT = ("job_id", "iteration", "candidate", "step", "seq")
_CLOSE_COLUMNS = (
    "cached",
    "response",
    "reply_text",
    "http_status",
    "response_headers",
    "finish_reason",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_nano_usd",
    "latency_ms",
    "error",
)
_SUMMED = ("input_tokens", "cached_input_tokens", "output_tokens", "cost_nano_usd", "latency_ms")
_LINE = (
    *("id", "type", "iteration", "candidate", "model", "attempt", "status", "cached", "http_status", "finish_reason"),
    *("input_tokens", "output_tokens", "cost_nano_usd", "latency_ms", "error", "started_at", "finished_at"),
)
_RECORDED = (
    *("id", "iteration", "candidate", "seq", "model", "status", "request"),
    *("reply_text", "finish_reason", "output_tokens", "error"),
)


def recorded_replies(
    connection: Connection, job_id: str, step: str, iteration: int | None, *, with_failures: bool
) -> dict[SlotKey, Mapping[str, Any]]:
    """The replies and permanent failures that earlier holders of this step recorded.

    Transient failures are left out, so their calls are made again. After a continuation permanent failures are left out
    too, because their cause may be gone; answers that were cut off still count. `iteration`: None for a step that works
    on several.
    """
    query = (
        select(*(calls.c[name] for name in _RECORDED))
        .where(
            calls.c.job_id == job_id,
            calls.c.step == step,
            calls.c.status.in_(("ok", "error")),
        )
        .order_by(calls.c.status.desc(), calls.c.id)
    )
    if iteration is not None:
        query = query.where(calls.c.iteration == iteration)
    found: dict[SlotKey, Mapping[str, Any]] = {}
    for row in connection.execute(query).mappings():
        if row["status"] == "ok" or _is_final(step, row, with_failures=with_failures):
            found.setdefault((row["iteration"], row["candidate"], row["seq"]), dict(row))
    return found


def _is_final(step: str, row: Mapping[Any, Any], *, with_failures: bool) -> bool:
    is_cut_answer = step == Step.GENERATE and row["reply_text"] is not None
    return is_cut_answer or (with_failures and not row["error"]["retryable"])


def open_calls(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    add_rows(connection, calls, rows)


def lost_usage(closed: Iterable[bool]) -> Counter[str]:
    """The usage of calls with unknown outcome, each free or not: a call that is not free counts as unpriced."""
    free = list(closed)
    return Counter(calls=len(free), unpriced_calls=free.count(False))


def close_lost(connection: Connection, job_id: str, token: int) -> Mapping[str, int]:
    """Close the calls of lost workers as unknown; returns the usage that they add to their job."""
    is_lost = and_(calls.c.job_id == job_id, calls.c.status == "started", calls.c.lease_token < token)
    return _close_all(connection, update(calls).where(is_lost).values(_LOST).returning(*_AS_LOST)).get(job_id, {})


def close_left(connection: Connection, in_flight: Sequence[tuple[str, int]]) -> Mapping[str, Mapping[str, int]]:
    """Close the open calls of these jobs and tokens when their worker stops; returns their usage by job.

    A call of a canceled job was aborted: it was not lost with its worker.
    """
    is_left = tuple_(calls.c.job_id, calls.c.lease_token).in_(in_flight)
    left = update(calls).where(is_left, calls.c.status == "started").returning(*_AS_LOST)
    is_canceled = calls.c.job_id.in_(select(jobs.c.id).where(jobs.c.status == "canceled"))
    aborted = _close_all(connection, left.where(is_canceled).values(_ABORTED))
    return aborted | _close_all(connection, left.values(_LEFT))


def close_abandoned(
    connection: Connection, *, after_s: float, ended_s: float, limit: int
) -> Mapping[str, Mapping[str, int]]:
    """Close calls for no job, or for one that ended meanwhile, whose process never came back.

    Args:
        connection: the unit of work.
        after_s: how long after its start a call for no job is given up.
        ended_s: how long after the end of its job a call is given up: whoever lives has aborted it by then.
        limit: how many calls at once.

    Returns:
        What they add to their jobs' sums, by job.
    """
    return _close_all(connection, _abandoned_statement(after_s, ended_s, limit))


def _close_all(connection: Connection, statement: Executable) -> dict[str, Counter[str]]:
    usage = defaultdict[str, Counter[str]](Counter)
    for job_id, provider in connection.execute(statement):
        if job_id:
            usage[job_id] += lost_usage([provider == FREE_PROVIDER])
    return usage


@cache
def _abandoned_statement(after_s: float, ended_s: float, limit: int) -> Executable:
    # Spelled out as in the index on started calls: SQLite takes it for no parameters
    is_started = calls.c.status == bindparam("started", "started", literal_execute=True)
    old = (
        select(calls.c.id)
        .outerjoin(jobs, jobs.c.id == calls.c.job_id)
        .where(is_started, calls.c.started_at < DbNow(-min(after_s, ended_s)))
        .where(
            or_(
                and_(calls.c.job_id.is_(None), calls.c.started_at < DbNow(-after_s)),
                jobs.c.finished_at < DbNow(-ended_s),
            )
        )
        .limit(limit)
    )
    is_open = and_(calls.c.id.in_(old), calls.c.status == "started")
    return update(calls).where(is_open).values(_LOST).returning(*_AS_LOST)


def close(connection: Connection, call_id: str, values: Mapping[str, Any]) -> Closed | None:
    """Store an outcome; None if the call was already closed. A second reply for a slot becomes `dup`.

    A call that was closed as `unknown` can still be closed: its worker came late, and knows the outcome.
    """
    for was_lost in (False, True):
        change = close_change(call_id, values, was_lost=was_lost)
        row = run(connection, change.statement, change.values).one_or_none()
        if row is not None:
            return Closed(row.status, was_lost, row.provider == FREE_PROVIDER)
    return None


def close_change(call_id: str, values: Mapping[str, Any], *, number: int = 0, was_lost: bool = False) -> Change:
    """The change that `close` makes, the `number`-th of one statement."""
    name = f"c{number}_"
    given = {f"{name}{column}": values.get(column) for column in _CLOSE_COLUMNS} | {
        f"{name}cached": values.get("cached", False),
        f"{name}reusable": values.get("is_reusable", True),
        f"{name}id": call_id,
        f"{name}open": "unknown" if was_lost else "started",
        f"{name}status": values["status"],
    }
    return Change(_close_statement(name), given)


@cache
def _close_statement(name: str) -> Update:
    """Built once. Two that close a slot at the same moment meet in the index `uq_calls_ok`; `persist` repeats."""
    other = calls.alias()
    same_slot = and_(*(other.c[column] == calls.c[column] for column in _SLOT), other.c.status == "ok")
    is_second = and_(bindparam(f"{name}status", type_=String) == "ok", select(1).where(same_slot).exists())
    return (
        update(calls)
        .where(calls.c.id == bindparam(f"{name}id"), calls.c.status == bindparam(f"{name}open"))
        .values(
            status=case((is_second, "dup"), else_=bindparam(f"{name}status", type_=String)),
            finished_at=DbNow(),
            cache_key=case((bindparam(f"{name}reusable", type_=Boolean), calls.c.cache_key)),
            **{column: bindparam(f"{name}{column}", type_=calls.c[column].type) for column in _CLOSE_COLUMNS},
        )
        .returning(calls.c.status, calls.c.provider)
    )


def find_reusable(connection: Connection, cache_key: str) -> dict[str, Any] | None:
    """The oldest reply to an identical call: its text, its body and its finish reason."""
    # Spelled out as in the index: SQLite takes it for no parameters
    is_ok = calls.c.status == bindparam("ok", "ok", literal_execute=True)
    query = (
        select(calls.c.reply_text, calls.c.response, calls.c.finish_reason)
        .where(calls.c.cache_key == cache_key, calls.c.cache_key.is_not(None), is_ok)
        .order_by(calls.c.finished_at)
        .limit(1)
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def usage_of_job(connection: Connection, job_id: str) -> list[dict[str, Any]]:
    """The usage of each call of a job, with its request where the usage is unknown."""
    names = ("model", "status", "cached", "http_status", "request", "input_tokens", "output_tokens", "cost_nano_usd")
    query = select(*(calls.c[name] for name in names)).where(calls.c.job_id == job_id)
    return [dict(row) for row in connection.execute(query).mappings()]


def open_in_run(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """The calls that a run's jobs are making now."""
    query = (
        select(calls.c.model, calls.c.request)
        .join_from(calls, jobs, jobs.c.id == calls.c.job_id)
        .where(calls.c.status == literal("started", literal_execute=True), jobs.c.run_id == run_id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def untold_in_run(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """The calls of a run's jobs that are over, and of which nobody knows what they cost."""
    names = ("model", "request", "status", "http_status")
    query = (
        select(*(calls.c[name] for name in names))
        .join_from(jobs, calls, calls.c.job_id == jobs.c.id)
        .where(jobs.c.run_id == run_id, jobs.c.unpriced_calls > 0)
        .where(calls.c.status != literal("started", literal_execute=True))
        .where(calls.c.input_tokens.is_(None), calls.c.cached.is_(False))
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def usage_by_attempt(connection: Connection, job_id: str) -> dict[tuple[int, int], dict[str, int]]:
    """The usage of each candidate, by (iteration, candidate)."""
    sums = {
        "calls": func.count(),
        "unpriced_calls": func.sum(case((calls.c.cost_nano_usd.is_(None), 1), else_=0)),
        **{name: func.coalesce(func.sum(calls.c[name]), 0) for name in _SUMMED},
    }
    query = (
        select(calls.c.iteration, calls.c.candidate, *(each.label(name) for name, each in sums.items()))
        .where(calls.c.job_id == job_id)
        .group_by(calls.c.iteration, calls.c.candidate)
    )
    rows = connection.execute(query).mappings()
    return {(row["iteration"], row["candidate"]): {name: int(row[name]) for name in sums} for row in rows}


def set_aside(connection: Connection, call_id: str) -> None:
    """Free the slot of a reply that is not used."""
    connection.execute(update(calls).where(calls.c.id == call_id).values(status="dup"))


def has_open(connection: Connection, job_id: str) -> bool:
    """Whether the job has an open call."""
    query = select(calls.c.id).where(calls.c.job_id == job_id, calls.c.status == "started").limit(1)
    return connection.execute(query).first() is not None


def of_job(connection: Connection, job_id: str) -> list[dict[str, Any]]:
    query = select(calls).where(calls.c.job_id == job_id).order_by(calls.c.started_at, calls.c.id)
    return [dict(row) for row in connection.execute(query).mappings()]


def lines_of_job(connection: Connection, job_id: str, limit: int) -> list[dict[str, Any]]:
    """The same without the texts, which may be large."""
    query = (
        select(*(calls.c[name] for name in _LINE))
        .where(calls.c.job_id == job_id)
        .order_by(calls.c.started_at, calls.c.id)
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def get(connection: Connection, job_id: str, call_id: str) -> dict[str, Any] | None:
    query = select(calls).where(calls.c.job_id == job_id, calls.c.id == call_id)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)
