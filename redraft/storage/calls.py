"""The ledger: one row per call to a provider, failures and lost ones included. Rows are only added and closed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from redraft.domain.failures import job_error
from redraft.storage.columns import DbNow
from redraft.storage.tables import calls, jobs


@dataclass(frozen=True, slots=True)
class Closed:
    """How a call was closed, and whether it had been written off before."""

    status: str
    was_lost: bool


_LOST: dict[str, Any] = {
    "status": "unknown",
    "finished_at": DbNow(),
    "error": job_error("worker_lost", "The worker that made this call was lost before it told the outcome."),
}
_MEMO = ("id", "candidate", "seq", "status", "reply_text", "finish_reason", "error")


def memo(connection: Connection, job_id: str, iteration: int, step: str) -> dict[tuple[int, int], Mapping[str, Any]]:
    """What earlier holders of this step already got, by (candidate, seq): replies, and final refusals.

    A failure that may pass is none: its call is made again.
    """
    query = (
        select(*(calls.c[name] for name in _MEMO))
        .where(
            calls.c.job_id == job_id,
            calls.c.iteration == iteration,
            calls.c.step == step,
            calls.c.status.in_(("ok", "error")),
        )
        .order_by(calls.c.status.desc(), calls.c.id)
    )
    found: dict[tuple[int, int], Mapping[str, Any]] = {}
    for row in connection.execute(query).mappings():
        if row["status"] == "ok" or not row["error"]["retryable"]:
            found.setdefault((row["candidate"], row["seq"]), dict(row))
    return found


def open_calls(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(insert(calls), list(rows))


def lost_usage(count: int) -> dict[str, int]:
    """What calls without a known outcome add to their job's sums: nobody knows what they cost."""
    return {"calls": count, "unpriced_calls": count}


def close_lost(connection: Connection, job_id: str, token: int) -> int:
    """Calls whose worker is gone: nobody will learn what became of them."""
    is_lost = and_(calls.c.job_id == job_id, calls.c.status == "started", calls.c.lease_token < token)
    return connection.execute(update(calls).where(is_lost).values(_LOST)).rowcount


def close_abandoned(connection: Connection, *, after_s: float, limit: int) -> dict[str, int]:
    """Calls of jobs that ended meanwhile, whose worker never came back; how many by job."""
    # Spelled out as in the index on started calls: SQLite takes it for no parameters
    is_started = calls.c.status == bindparam("started", "started", literal_execute=True)
    old = (
        select(calls.c.id)
        .join(jobs, jobs.c.id == calls.c.job_id)
        .where(is_started, calls.c.started_at < DbNow(-after_s), jobs.c.finished_at.is_not(None))
        .limit(limit)
    )
    statement = update(calls).where(calls.c.id.in_(old), calls.c.status == "started").values(_LOST)
    return Counter(connection.scalars(statement.returning(calls.c.job_id)))


def close(connection: Connection, call_id: str, values: Mapping[str, Any]) -> Closed | None:
    """Store an outcome. A reply that came second becomes `dup`. None: the call was closed already.

    Rows that were written off as `unknown` may still be closed: a late worker knows better.
    """
    for was_lost in (False, True):
        is_open = and_(calls.c.id == call_id, calls.c.status == ("unknown" if was_lost else "started"))
        for status in (values["status"], "dup"):
            statement = update(calls).where(is_open).values({"finished_at": DbNow(), "error": None, **values})
            with suppress(IntegrityError), connection.begin_nested():
                if connection.execute(statement.values(status=status)).rowcount == 1:
                    return Closed(status, was_lost)
                break
    return None


def of_job(connection: Connection, job_id: str) -> list[dict[str, Any]]:
    query = select(calls).where(calls.c.job_id == job_id).order_by(calls.c.started_at, calls.c.id)
    return [dict(row) for row in connection.execute(query).mappings()]


def get(connection: Connection, job_id: str, call_id: str) -> dict[str, Any] | None:
    query = select(calls).where(calls.c.job_id == job_id, calls.c.id == call_id)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)
