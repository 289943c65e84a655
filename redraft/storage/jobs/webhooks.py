"""Reads and writes the outbox of webhook deliveries. A delivery is stored in the unit of work of its event."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, literal_column, or_, select, update

from redraft.domain.admin.urls import read_url
from redraft.domain.jobs.ids import PREFIXES, new_id
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.query_parts import ListPosition, exists, fetch_all, fetch_one, list_newest
from redraft.storage.engine.statements import add_rows
from redraft.storage.engine.tables import events, jobs, webhook_deliveries
from redraft.storage.engine.unit_of_work import notify_after_commit

_rows = webhook_deliveries.c
# Literals, because SQLite uses the partial indexes on these statuses only for a condition without parameters
_IS_PENDING = _rows.status == literal_column("'pending'")
_IS_FAILED = _rows.status == literal_column("'failed'")
_IS_DUE = and_(
    _IS_PENDING, _rows.next_at <= DbNow(), or_(_rows.lease_expires_at.is_(None), _rows.lease_expires_at < DbNow())
)
# The last attempt failed, and another attempt follows. An attempt in flight has a lease
_IS_FAILING = and_(
    _IS_PENDING,
    _rows.attempts > _rows.attempts_before,
    or_(_rows.lease_expires_at.is_(None), _rows.lease_expires_at < DbNow()),
)
_HAS_FAILED = or_(_IS_FAILED, _IS_FAILING)


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    id: str
    job_id: str | None
    run_id: str | None
    seq: int
    event: dict[str, Any] | None
    type: str
    url: str
    receiver: str
    status: str
    attempts: int
    attempts_before: int
    next_at: datetime | None
    lease_expires_at: datetime | None
    last_status: int | None
    last_error: str | None
    created_at: datetime
    delivered_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery with a lease, and its event.

    Its number of attempts serves as the lease token: an attempt with an older number cannot change the delivery.
    """

    delivery: DeliveryRecord
    event: dict[str, Any]
    metadata: dict[str, str]


def add(connection: Connection, job_id: str, webhook: Mapping[str, Any], new: Sequence[Mapping[str, Any]]) -> None:
    """Store a delivery for each new event of a job, if the job's webhook subscribes to the event."""
    subscribed = [each for each in new if each["type"] in webhook["events"]]
    entries = [{"job_id": job_id, "seq": each["seq"], "type": each["type"]} for each in subscribed]
    _add(connection, webhook["url"], entries)


def add_of_run(
    connection: Connection, run_id: str, webhook: Mapping[str, Any], seq: int, kind: str, event: Mapping[str, Any]
) -> None:
    """Store the delivery of an event of a run, if the run's webhook subscribes to the event."""
    if kind in webhook["events"]:
        _add(connection, webhook["url"], [{"run_id": run_id, "seq": seq, "type": kind, "event": dict(event)}])


def _add(connection: Connection, url: str, entries: Sequence[Mapping[str, Any]]) -> None:
    if not entries:
        return
    target = {"url": url, "receiver": read_url(url).receiver}
    rows = [{"id": new_id("webhook delivery"), **entry, **target} for entry in entries]
    add_rows(connection, webhook_deliveries, rows)
    notify_after_commit(connection, "webhooks")


def has_due(connection: Connection) -> bool:
    return exists(connection, _IS_DUE)


def claim(connection: Connection, *, lease_s: float, except_receivers: Collection[str]) -> ClaimedDelivery | None:
    """Take a lease on the delivery with the earliest due time. Return None if no delivery is due.

    Deliveries to `except_receivers` are not taken.
    """
    due = (
        select(_rows.id)
        .where(_IS_DUE, _rows.receiver.not_in(except_receivers))
        .order_by(_rows.next_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    statement = (
        update(webhook_deliveries)
        .where(_rows.id == due.scalar_subquery(), _IS_DUE)
        .values(attempts=_rows.attempts + 1, lease_expires_at=DbNow(lease_s))
        .returning(*_rows)
    )
    row = fetch_one(connection, statement)
    if row is None:
        return None
    delivery = DeliveryRecord(**row)
    if delivery.event is not None:
        return ClaimedDelivery(delivery, delivery.event, {})
    content = select(events.c.data, jobs.c.metadata).join_from(events, jobs, jobs.c.id == events.c.job_id)
    is_event = and_(events.c.job_id == delivery.job_id, events.c.seq == delivery.seq)
    return ClaimedDelivery(delivery, *connection.execute(content.where(is_event)).one())


def close(connection: Connection, delivery: DeliveryRecord, values: Mapping[str, Any]) -> bool:
    """Store the outcome of an attempt. Return False if the lease had expired and another attempt has begun."""
    statement = (
        update(webhook_deliveries)
        .where(_rows.id == delivery.id, _rows.attempts == delivery.attempts, _IS_PENDING)
        .values(lease_expires_at=None, **values)
    )
    return connection.execute(statement).rowcount == 1


def redeliver(connection: Connection, owner_id: str, delivery_id: str) -> DeliveryRecord | None:
    """Make a delivery due now, with a new schedule of attempts. Return None if the job or run has no such delivery."""
    statement = (
        update(webhook_deliveries)
        .where(_belongs_to(owner_id), _rows.id == delivery_id)
        .values(status="pending", next_at=DbNow(), attempts_before=_rows.attempts)
        .returning(*_rows)
    )
    row = fetch_one(connection, statement)
    if row is None:
        return None
    notify_after_commit(connection, "webhooks")
    return DeliveryRecord(**row)


def redeliver_all(connection: Connection) -> int:
    """Make all deliveries that failed, or whose last attempt failed, due now. Return their number."""
    statement = update(webhook_deliveries).where(_HAS_FAILED)
    found = connection.execute(statement.values(status="pending", next_at=DbNow(), attempts_before=_rows.attempts))
    if found.rowcount:
        notify_after_commit(connection, "webhooks")
    return found.rowcount


def count_failed(connection: Connection) -> tuple[int, int]:
    """Return the number of deliveries that failed, and the number of those whose last attempt failed."""
    counts = [select(func.count()).where(each).select_from(webhook_deliveries) for each in (_IS_FAILED, _IS_FAILING)]
    failed, failing = (connection.scalar(each) or 0 for each in counts)
    return failed, failing


def list_of(connection: Connection, owner_id: str) -> list[DeliveryRecord]:
    query = select(*_rows).where(_belongs_to(owner_id)).order_by(_rows.seq)
    return [DeliveryRecord(**row) for row in fetch_all(connection, query)]


def _belongs_to(owner_id: str) -> ColumnElement[bool]:
    return (_rows.run_id if owner_id.startswith(PREFIXES["run"]) else _rows.job_id) == owner_id


def latest(
    connection: Connection, *, only_failed: bool, after: ListPosition | None, limit: int
) -> list[DeliveryRecord]:
    """Return one page of all deliveries, newest first, and one more row, which shows whether there is a next page."""
    if only_failed:
        query = list_newest(webhook_deliveries, after, limit, _IS_FAILED)
    else:
        # Ids grow with time, so the primary key gives the order. The index on the time has failed deliveries only
        query = select(*_rows).where(*([_rows.id < after[1]] if after else [])).order_by(_rows.id.desc())
        query = query.limit(limit + 1)
    return [DeliveryRecord(**row) for row in fetch_all(connection, query)]
