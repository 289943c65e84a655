"""Stores and reads the heartbeats of workers."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, select

from redraft.storage.engine.admin_tables import worker_heartbeats as workers
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.query_parts import fetch_all, insert_into


def record_heartbeat(connection: Connection, values: Mapping[str, Any]) -> None:
    statement = insert_into(workers, connection.dialect.name).values(**values)
    connection.execute(statement.on_conflict_do_update(index_elements=[workers.c.id], set_={"seen_at": DbNow()}))


def remove(connection: Connection, worker_id: str) -> None:
    connection.execute(delete(workers).where(workers.c.id == worker_id))


def remove_silent(connection: Connection, *, for_s: float) -> None:
    connection.execute(delete(workers).where(workers.c.seen_at < DbNow(-for_s)))


def alive(connection: Connection, *, within_s: float) -> list[dict[str, Any]]:
    query = select(workers).where(workers.c.seen_at >= DbNow(-within_s)).order_by(workers.c.started_at)
    return fetch_all(connection, query)
