"""Reads and writes the events of a job, which are numbered without gaps. They show the progress of the job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Executable, select

from redraft.storage.engine.query_parts import fetch_all
from redraft.storage.engine.statements import Rows, add_rows
from redraft.storage.engine.tables import events
from redraft.storage.jobs import webhooks
from redraft.storage.jobs.jobs import JobRecord

_EVENTS = select(events.c.seq, events.c.type, events.c.data, events.c.at).order_by(events.c.seq)


@dataclass(frozen=True, slots=True)
class EventRecord:
    seq: int
    type: str
    data: dict[str, Any]
    at: datetime


def add(connection: Connection, job: JobRecord, first_seq: int, new: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Store events, and a delivery for each event that the job's webhook subscribes to.

    The caller has reserved the event numbers from `first_seq` on in the same unit of work.
    """
    table, rows = rows_of(job.id, first_seq, new)
    add_rows(connection, table, rows)
    add_deliveries(connection, job, rows)


def add_deliveries(connection: Connection, job: JobRecord, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store a delivery for each of these rows of events that the job's webhook subscribes to."""
    webhook = job.request.get("webhook")
    if webhook:
        webhooks.add(connection, job.id, webhook, rows)


def rows_of(job_id: str, first_seq: int, new: Sequence[tuple[str, Mapping[str, Any]]]) -> Rows:
    """Return the rows of events, without deliveries."""
    rows = [
        {"job_id": job_id, "seq": first_seq + offset, "type": kind, "data": dict(payload)}
        for offset, (kind, payload) in enumerate(new)
    ]
    return events, rows


def of_types(connection: Connection, job_id: str, types: Sequence[str]) -> list[EventRecord]:
    return _list(connection, _EVENTS.where(events.c.job_id == job_id, events.c.type.in_(types)))


def times(connection: Connection, job_id: str, types: Sequence[str]) -> list[tuple[str, datetime]]:
    """Return the types and times of the events of these types, in order."""
    query = select(events.c.type, events.c.at).where(events.c.job_id == job_id, events.c.type.in_(types))
    return [(kind, at) for kind, at in connection.execute(query.order_by(events.c.seq))]


def after(connection: Connection, job_id: str, seq: int, limit: int = 1000) -> list[EventRecord]:
    return _list(connection, _EVENTS.where(events.c.job_id == job_id, events.c.seq > seq).limit(limit))


def _list(connection: Connection, query: Executable) -> list[EventRecord]:
    return [EventRecord(**row) for row in fetch_all(connection, query)]
