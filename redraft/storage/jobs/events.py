"""The events of a job, numbered without gaps: the source of progress and server-sent events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from redraft.storage.engine.statements import add_rows
from redraft.storage.engine.tables import events
from redraft.storage.jobs import webhooks
from redraft.storage.jobs.jobs import JobRecord


@dataclass(frozen=True, slots=True)
class EventRecord:
    seq: int
    type: str
    data: dict[str, Any]
    at: datetime


def add(connection: Connection, job: JobRecord, first_seq: int, new: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Write events under numbers that were reserved on the job's row in the same unit of work.

    The job's webhook gets outbox entries for them in the same unit of work.
    """
    rows = [
        {"job_id": job.id, "seq": first_seq + offset, "type": kind, "data": dict(payload)}
        for offset, (kind, payload) in enumerate(new)
    ]
    add_rows(connection, events, rows)
    webhook = job.request.get("webhook")
    if webhook:
        webhooks.add(connection, job.id, webhook, rows)


def of_types(connection: Connection, job_id: str, types: Sequence[str]) -> list[EventRecord]:
    """The events of these types, in order."""
    query = (
        select(events.c.seq, events.c.type, events.c.data, events.c.at)
        .where(events.c.job_id == job_id, events.c.type.in_(types))
        .order_by(events.c.seq)
    )
    return [EventRecord(**row) for row in connection.execute(query).mappings()]


def moments(connection: Connection, job_id: str, types: Sequence[str]) -> list[tuple[str, datetime]]:
    """When each of these types happened, in order: their type and time alone."""
    query = (
        select(events.c.type, events.c.at)
        .where(events.c.job_id == job_id, events.c.type.in_(types))
        .order_by(events.c.seq)
    )
    return [(row[0], row[1]) for row in connection.execute(query)]


def after(connection: Connection, job_id: str, seq: int, limit: int = 1000) -> list[EventRecord]:
    query = (
        select(events.c.seq, events.c.type, events.c.data, events.c.at)
        .where(events.c.job_id == job_id, events.c.seq > seq)
        .order_by(events.c.seq)
        .limit(limit)
    )
    return [EventRecord(**row) for row in connection.execute(query).mappings()]
