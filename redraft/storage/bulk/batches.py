"""Stores the batches of runs, and reads and moves their calls.

A worker claims a batch before it contacts the provider. Every later change has the condition that this worker still
holds the claim. So a worker that seemed to be dead, and whose batch another worker has claimed, changes nothing.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from redraft.domain.jobs.ids import new_id
from redraft.storage.engine import query_parts
from redraft.storage.engine.bulk_tables import batches
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import calls, jobs
from redraft.storage.jobs.transitions import is_open

_PAGE = 500


@dataclass(frozen=True, slots=True)
class BatchRecord:
    id: str
    run_id: str
    model: str
    status: str
    round: int | None
    provider_batch_id: str | None
    provider_status: str | None
    total: int
    done: int
    succeeded: int
    failed: int
    reserved_nano_usd: int
    saved_nano_usd: int
    created_at: datetime
    ready_at: datetime | None
    submitted_at: datetime | None
    resubmit_at: datetime | None
    expires_at: datetime | None
    ended_at: datetime | None
    next_at: datetime | None
    failures: int
    lease_owner: str | None
    is_canceled: bool
    error: str | None
    odd_lines: list[dict[str, Any]] | None
    odd_line_count: int


def collecting_id(connection: sa.Connection, run_id: str, model: str) -> str:
    """Return the id of the batch that collects the calls of a run to a model; create the batch if it does not exist.

    No other worker can make the batch ready before the unit of work ends.
    """
    is_collecting = sa.and_(batches.c.run_id == run_id, batches.c.model == model, batches.c.status == "collecting")
    # With the lock, no call is added to a batch that another worker makes ready at the same time
    query = sa.select(batches.c.id).where(is_collecting).with_for_update(read=True)
    found = connection.scalar(query)
    while found is None:
        insert = query_parts.insert_into(batches, connection.dialect.name)
        insert = insert.values(id=new_id("batch"), run_id=run_id, model=model).on_conflict_do_nothing(
            index_elements=[batches.c.run_id, batches.c.model], index_where=sa.text("status = 'collecting'")
        )
        connection.execute(insert)
        found = connection.scalar(query)
    return found


def reserve(connection: sa.Connection, batch_id: str, nano_usd: int) -> None:
    """Add the maximum cost of new calls to the amount that a batch reserves from the budget of its run."""
    reserved = batches.c.reserved_nano_usd + nano_usd
    connection.execute(sa.update(batches).where(batches.c.id == batch_id).values(reserved_nano_usd=reserved))


def reserved(connection: sa.Connection, run_id: str) -> int:
    """Return the amount that all batches of a run reserve, in 1e-9 USD: the maximum cost of calls without a result."""
    total = sa.func.coalesce(sa.func.sum(batches.c.reserved_nano_usd), 0)
    return int(connection.scalar(sa.select(total).where(batches.c.run_id == run_id)) or 0)


def has_round_out(connection: sa.Connection, run_id: str) -> bool:
    """Whether a batch of the run is ready or sent, and has not ended."""
    return query_parts.exists(connection, batches.c.run_id == run_id, _is_out())


def _is_out() -> sa.ColumnElement[bool]:
    # These are literals as in the condition of the partial index, which SQLite does not use for parameters
    return batches.c.status.in_([sa.literal_column("'ready'"), sa.literal_column("'sent'")])


def make_ready(connection: sa.Connection, run_id: str) -> int:
    """Make the collecting batches of a run ready to be sent, as the next round. Return their number."""
    last = sa.select(sa.func.coalesce(sa.func.max(batches.c.round), 0)).where(batches.c.run_id == run_id)
    number = (connection.scalar(last) or 0) + 1
    total = sa.select(sa.func.count()).where(calls.c.batch_id == batches.c.id).scalar_subquery()
    statement = (
        sa.update(batches)
        .where(batches.c.run_id == run_id, batches.c.status == "collecting")
        .values(status="ready", round=number, total=total, ready_at=DbNow(), next_at=DbNow())
    )
    return connection.execute(statement).rowcount


def cancel_of_run(connection: sa.Connection, run_id: str) -> None:
    """Mark the unfinished batches of a run as canceled, and make them due now."""
    # Also end the batches that still collect calls. Only a due batch is ended, and only a ready batch becomes due
    make_ready(connection, run_id)
    is_live = sa.and_(batches.c.run_id == run_id, batches.c.status != "ended")
    connection.execute(sa.update(batches).where(is_live).values(is_canceled=True, next_at=DbNow()))


def has_due(connection: sa.Connection) -> bool:
    return query_parts.exists(connection, _is_out(), batches.c.next_at <= DbNow())


def claim_due(connection: sa.Connection, owner: str, alive: Collection[str]) -> BatchRecord | None:
    """Claim a due batch that no other live worker has claimed. `alive` are the ids of the other live workers."""
    is_free = sa.or_(batches.c.lease_owner.is_(None), batches.c.lease_owner.not_in(alive))
    query = sa.select(batches.c.id).where(_is_out(), batches.c.next_at <= DbNow(), is_free)
    query = query.order_by(batches.c.next_at).limit(1).with_for_update(skip_locked=True)
    batch_id = connection.scalar(query)
    if batch_id is None:
        return None
    statement = sa.update(batches).where(batches.c.id == batch_id).values(lease_owner=owner).returning(batches)
    return BatchRecord(**connection.execute(statement).mappings().one())


def change(connection: sa.Connection, batch: BatchRecord, **values: Any) -> bool:
    """Change a batch that this worker has claimed. Return False if another worker has claimed it."""
    is_ours = sa.and_(batches.c.id == batch.id, batches.c.lease_owner == batch.lease_owner)
    return connection.execute(sa.update(batches).where(is_ours).values(**values)).rowcount > 0


def holds(connection: sa.Connection, batch: BatchRecord) -> bool:
    """Whether this worker still holds the claim. Until the unit of work ends, no other worker can claim the batch."""
    is_ours = sa.and_(batches.c.id == batch.id, batches.c.lease_owner == batch.lease_owner)
    return connection.scalar(sa.select(batches.c.id).where(is_ours).with_for_update()) is not None


def may_arrive(connection: sa.Connection, batch: BatchRecord) -> bool:
    """Whether the provider may still get or list the batch of an interrupted submission."""
    return query_parts.exists(connection, batches.c.id == batch.id, batches.c.resubmit_at > DbNow())


def add_results(connection: sa.Connection, batch: BatchRecord, **amounts: int) -> None:
    """Add amounts to the numeric columns of a batch."""
    values = {name: batches.c[name] + amount for name, amount in amounts.items()}
    connection.execute(sa.update(batches).where(batches.c.id == batch.id).values(**values))


def of_run(connection: sa.Connection, run_id: str) -> list[BatchRecord]:
    """Return the batches of a run in the order of their rounds, without those that still collect calls."""
    query = sa.select(batches).where(batches.c.run_id == run_id, batches.c.round.is_not(None))
    rows = query_parts.fetch_all(connection, query.order_by(batches.c.round, batches.c.id))
    return [BatchRecord(**row) for row in rows]


def provider_ids(connection: sa.Connection, since: datetime) -> list[str]:
    """Return the provider's ids of the batches that were submitted after a time."""
    query = sa.select(batches.c.provider_batch_id).where(batches.c.provider_batch_id.is_not(None))
    return [each for each in connection.scalars(query.where(batches.c.submitted_at >= since)) if each]


def open_call_ids(connection: sa.Connection, batch_id: str) -> list[str]:
    """Return the ids of the calls of a batch that have no result, in order."""
    query = sa.select(calls.c.id).where(calls.c.batch_id == batch_id, calls.c.status == "started")
    return list(connection.scalars(query.order_by(calls.c.id)))


def call_ids(connection: sa.Connection, batch_id: str) -> list[str]:
    """Return the ids of all calls of a batch, in order."""
    return list(connection.scalars(sa.select(calls.c.id).where(calls.c.batch_id == batch_id).order_by(calls.c.id)))


def calls_of_ended_jobs(connection: sa.Connection, batch_id: str) -> list[str]:
    """Return the ids of the calls of a batch that have no result and belong to jobs that have ended."""
    query = sa.select(calls.c.id).join_from(calls, jobs, jobs.c.id == calls.c.job_id)
    query = query.where(calls.c.batch_id == batch_id, calls.c.status == "started", ~is_open())
    return list(connection.scalars(query.order_by(calls.c.id)))


_CALL = ("id", "job_id", "batch_id", "step", "iteration", "candidate", "seq", "attempt", "model", "status", "request")


def calls_by_id(connection: sa.Connection, batch_id: str, ids: Collection[str]) -> list[dict[str, Any]]:
    """Return these calls of a batch with their requests, in order of their ids."""
    query = sa.select(*(calls.c[name] for name in _CALL)).where(calls.c.id.in_(ids), calls.c.batch_id == batch_id)
    return query_parts.fetch_all(connection, query.order_by(calls.c.id))


def split(connection: sa.Connection, batch: BatchRecord, moved: Sequence[str]) -> None:
    """Move calls of a batch to a new batch of the same round."""
    new = new_id("batch")
    values = {"id": new, "run_id": batch.run_id, "model": batch.model, "status": "ready", "round": batch.round}
    times: Mapping[str, Any] = {"ready_at": batch.ready_at, "next_at": DbNow()}
    connection.execute(sa.insert(batches).values(**values, **times, total=len(moved)))
    for page in pages(moved):
        connection.execute(sa.update(calls).where(calls.c.id.in_(page)).values(batch_id=new))


def pages(ids: Sequence[str], size: int = _PAGE) -> Iterator[Sequence[str]]:
    """Yield the ids a page at a time, because databases limit the parameters of a statement."""
    return (ids[at : at + size] for at in range(0, len(ids), size))
