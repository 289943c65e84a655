"""Transitions of a job's row. Each is one conditional UPDATE, so that no worker overwrites the change of another."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from redraft.domain.jobs.states import LIVE, JobStatus, StopReason
from redraft.storage.engine import driver
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.statements import Change, Rows, all_or_none, run, run_all_or_none
from redraft.storage.engine.tables import TOKENS, jobs
from redraft.storage.jobs.calls import has_other_reply
from redraft.storage.jobs.jobs import JobRecord

_LIVE = tuple(status.value for status in JobStatus if status in LIVE)


class DueStep(NamedTuple):
    step: str
    job_id: str
    step_no: int
    run_id: str | None


# Return `run_id`, and not `run_id IS NOT NULL`: an UPDATE of SQLite 3.40 always returns true for the latter
DUE_STEP_COLUMNS = (jobs.c.step, jobs.c.id, jobs.c.step_no, jobs.c.run_id)

# If a step has lost more leases than this, it may have killed its workers, so it runs in a process of its own
SHARED_LOSSES_MAX = 1
# If a step has lost more leases than this, the last one in a process of its own, it probably killed these processes,
# so its job fails
ALONE_LOSSES_MAX = 2
# A worker that stops in order releases its leases, so an expired lease that nobody released counts as lost, too
LOST_LEASES = jobs.c.lost_leases + sa.case((jobs.c.lease_expires_at.is_not(None), 1), else_=0)

_USAGE = ("calls", *TOKENS, "cost_nano_usd", "unpriced_calls")


def advance(
    connection: sa.Connection, job_id: str, token: int, values: Mapping[str, Any], *, new_events: int = 0
) -> int | None:
    """Set `values` in a job's row and release its lease, if `token` is the current lease token.

    Returns the first of `new_events` reserved event numbers, or None if another worker has the lease.
    """
    change = _advancing(job_id, token, Advance(values, {}, new_events, keep_lease_s=None))
    row = run(connection, change.statement, change.values)
    return None if row is None else row[0] - new_events + 1


@dataclass(frozen=True, slots=True)
class Advance:
    """The change of a job's row at the end of a step.

    Attributes:
        values: the new values of columns; a `DbNow` is a time by the clock of the database.
        usage: the amounts that are added to the usage columns.
        new_events: the number of event numbers to reserve.
        keep_lease_s: the length of the lease for the next step of the same worker; None releases the lease.
    """

    values: Mapping[str, Any]
    usage: Mapping[str, int]
    new_events: int
    keep_lease_s: float | None


def advance_with(
    connection: sa.Connection, job: JobRecord, advance: Advance, changes: Sequence[Change], rows: Sequence[Rows]
) -> list[Any] | None:
    """Advance a job, make other changes (close its calls) and add rows, if `job` has the current lease token.

    Returns what each change returned: the new status of a call, or None for a call that was already closed. Returns
    None and changes nothing if another worker has the lease. Raises RuntimeError if the events in `rows` have wrong
    numbers.
    """
    found = run_all_or_none(connection, _advancing(job.id, job.lease_token, advance), changes, rows)
    if found is None:
        return None
    last, *changed = found
    # Every writer of an event also changes the token, so the worker with the current token knows the last number
    if last != job.event_seq + advance.new_events:
        raise RuntimeError(f"The events of job {job.id} are numbered to {last}, not from {job.event_seq}.")
    return changed


def single_advance(
    connection: sa.Connection,
    job: JobRecord,
    advance: Advance,
    call_id: str,
    changes: Sequence[Change],
    rows: Sequence[Rows],
) -> driver.Statement:
    """Return a PostgreSQL statement that does the same as `advance_with`, for a step of one call.

    The first column of its row is None, and it changes nothing, if another worker has the lease, or if the slot of the
    call already has a reply.
    """
    change = _advancing(job.id, job.lease_token, advance, is_single=True)
    change = Change(change.statement, {**change.values, "p_call": call_id, "p_last_event": job.event_seq})
    return all_or_none(connection, change, changes, rows)


def _advancing(job_id: str, token: int, advance: Advance, *, is_single: bool = False) -> Change:
    values, keep_lease_s = advance.values, advance.keep_lease_s
    kinds = tuple((name, isinstance(value, DbNow)) for name, value in values.items())
    parameters = {f"p_{name}": value.seconds if isinstance(value, DbNow) else value for name, value in values.items()}
    sums = {f"p_add_{name}": advance.usage.get(name, 0) for name in _USAGE}
    parameters = {**parameters, **sums, "p_job": job_id, "p_token": token, "p_events": advance.new_events}
    parameters |= {} if keep_lease_s is None else {"p_lease_s": keep_lease_s}
    keeps_lease = keep_lease_s is not None
    statement = _advance_statement(kinds, keeps_lease=keeps_lease, is_single=is_single)
    return Change(statement, parameters)


@cache
def _advance_statement(kinds: tuple[tuple[str, bool], ...], *, keeps_lease: bool, is_single: bool) -> sa.Update:
    # Cached, because building the statement takes longer than running it. There are few different sets of columns
    columns: dict[str, Any] = {
        name: DbNow(sa.bindparam(f"p_{name}", type_=sa.Float))
        if is_time
        else sa.bindparam(f"p_{name}", type_=jobs.c[name].type)
        for name, is_time in kinds
    }
    if keeps_lease:
        columns["lease_expires_at"] = DbNow(sa.bindparam("p_lease_s", type_=sa.Float))
    else:
        columns |= {"lease_owner": None, "lease_expires_at": None}
    conditions = [jobs.c.id == sa.bindparam("p_job"), jobs.c.lease_token == sa.bindparam("p_token"), is_open()]
    if is_single:
        conditions.append(jobs.c.event_seq == sa.bindparam("p_last_event", type_=sa.Integer))
        conditions.append(~has_other_reply(sa.bindparam("p_call", type_=sa.String)))
    return (
        sa.update(jobs)
        .where(*conditions)
        .values(
            # The token changes, so that a repetition of this UPDATE after a commit with unknown outcome changes nothing
            lease_token=jobs.c.lease_token + 1,
            version=jobs.c.version + 1,
            event_seq=jobs.c.event_seq + sa.bindparam("p_events", type_=sa.Integer),
            **{name: jobs.c[name] + sa.bindparam(f"p_add_{name}", type_=jobs.c[name].type) for name in _USAGE},
            **columns,
        )
        .returning(jobs.c.event_seq)
    )


def change(
    connection: sa.Connection,
    job_id: str,
    values: Mapping[str, Any],
    *,
    when: sa.ColumnElement[bool],
    new_events: int = 0,
) -> int | None:
    """Set `values` in the row of a job that meets `when`, and release the lease, whichever worker has the lease.

    The new token keeps the previous lease holder from changing the job. Returns the first of `new_events` reserved
    event numbers, or None if the row does not meet the condition.
    """
    statement = (
        sa.update(jobs)
        .where(jobs.c.id == job_id, when)
        .values(
            lease_token=jobs.c.lease_token + 1,
            lease_owner=None,
            lease_expires_at=None,
            version=jobs.c.version + 1,
            event_seq=jobs.c.event_seq + new_events,
            **values,
        )
        .returning(jobs.c.event_seq)
    )
    last = connection.scalar(statement)
    return None if last is None else last - new_events + 1


def is_status(*statuses: str) -> sa.ColumnElement[bool]:
    return jobs.c.status.in_(statuses)


def is_live() -> sa.ColumnElement[bool]:
    return jobs.c.status.in_([sa.literal_column(f"'{status}'") for status in _LIVE])


def is_open() -> sa.ColumnElement[bool]:
    """Whether a job has a next step: it is live, or it has ended and its answer is still evaluated."""
    # The text must be that of the partial index on open jobs, which SQLite does not use for parameters
    return sa.or_(is_live(), is_answered())


def is_answered() -> sa.ColumnElement[bool]:
    return jobs.c.stop_reason == sa.literal_column(f"'{StopReason.ANSWERED}'")


def holds_lease(connection: sa.Connection, job_id: str, token: int) -> bool:
    """Whether the lease is current and the job has a next step.

    Locks the row. Until the unit of work ends, no worker can claim the job, and no client can cancel it.
    """
    is_held = sa.and_(jobs.c.id == job_id, jobs.c.lease_token == token, is_open())
    return connection.scalar(sa.select(jobs.c.id).where(is_held).with_for_update(key_share=True)) is not None


def lock(connection: sa.Connection, job_ids: Collection[str]) -> None:
    connection.execute(_locked_ids(jobs.c.id.in_(job_ids)))


def _locked_ids(condition: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
    """Select and lock jobs."""
    # Jobs are locked in the order of their ids, and before calls, because transactions with other orders deadlock
    return sa.select(jobs.c.id).where(condition).order_by(jobs.c.id).with_for_update()


def add_usage(connection: sa.Connection, job_id: str, usage: Mapping[str, int]) -> None:
    # There is no condition on the token, because a late reply costs money even if its worker has lost the lease
    values = {name: jobs.c[name] + amount for name, amount in usage.items() if amount}
    if values:
        connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(**values, version=jobs.c.version + 1))


def reserve_event_number(connection: sa.Connection, job_id: str) -> int:
    """Reserve one event number, and return that number."""
    statement = sa.update(jobs).where(jobs.c.id == job_id).values(event_seq=jobs.c.event_seq + 1)
    return connection.execute(statement.returning(jobs.c.event_seq)).scalar_one()


def mark_unnotified(connection: sa.Connection, job_id: str) -> None:
    """Reset the notification of a job whose message could not be sent, so that the next sweep notifies at once."""
    connection.execute(
        sa.update(jobs).where(jobs.c.id == job_id, is_open()).values(rung_at=None, available_at=due_at())
    )


def extend_leases(connection: sa.Connection, owner: str, job_ids: Collection[str], lease_s: float) -> dict[str, int]:
    """Extend the leases of a worker's steps. Return the token of each lease that the worker still has, by job id."""
    held = sa.and_(jobs.c.id.in_(job_ids), is_open(), jobs.c.lease_owner == owner)
    statement = (
        sa.update(jobs)
        .where(jobs.c.id.in_(_locked_ids(held)))
        .values(lease_expires_at=DbNow(lease_s))
        .returning(jobs.c.id, jobs.c.lease_token)
    )
    return {row.id: row.lease_token for row in connection.execute(statement)}


def open_among(connection: sa.Connection, job_ids: Collection[str]) -> set[str]:
    return set(connection.scalars(sa.select(jobs.c.id).where(jobs.c.id.in_(job_ids), is_open())))


def expire_leases(connection: sa.Connection) -> int:
    """Expire all leases. Return their number. The caller must know that no worker is alive."""
    held = sa.and_(is_open(), jobs.c.lease_expires_at.is_not(None))
    expired = sa.update(jobs).where(jobs.c.id.in_(_locked_ids(held)))
    return connection.execute(expired.values(lease_expires_at=DbNow(-1.0), rung_at=None)).rowcount


def release_leases(connection: sa.Connection, owner: str) -> list[DueStep]:
    """Release all leases of a stopping worker. Return their steps."""
    released = {"lease_owner": None, "lease_expires_at": None, "lease_token": jobs.c.lease_token + 1}
    statement = (
        sa.update(jobs)
        .where(jobs.c.id.in_(_locked_ids(sa.and_(is_open(), jobs.c.lease_owner == owner))))
        .values(**released, rung_at=DbNow(), available_at=due_at())
        .returning(*DUE_STEP_COLUMNS)
    )
    return [DueStep(*row) for row in connection.execute(statement)]


def is_due() -> sa.ColumnElement[bool]:
    # A step that was due when it was notified or claimed stays due, even if the clock was set back since then
    was_claimed = jobs.c.lease_expires_at.is_not(None)
    return sa.or_(jobs.c.available_at <= DbNow(), jobs.c.available_at <= jobs.c.rung_at, was_claimed)


def due_at() -> sa.ColumnElement[Any]:
    # Only due steps use this expression. If the clock was set back, their `available_at` is in the future
    return sa.case((jobs.c.available_at > DbNow(), DbNow()), else_=jobs.c.available_at)


def is_free(*, with_expired: bool = True) -> sa.ColumnElement[bool]:
    """Whether a step has no lease. If `with_expired`, a step with an expired lease is also free."""
    has_no_lease = jobs.c.lease_expires_at.is_(None)
    return sa.or_(has_no_lease, jobs.c.lease_expires_at < DbNow()) if with_expired else has_no_lease


def is_token(token: int) -> sa.ColumnElement[bool]:
    return jobs.c.lease_token == token


def is_version(version: int) -> sa.ColumnElement[bool]:
    return jobs.c.version == version
