"""Items of a run that could not be started: put off with the reason and the time, and given up in the end."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, update

from redraft.storage.engine.bulk_tables import run_items

_Errors = list[dict[str, Any]]


def put_off(connection: Connection, run_id: str, errors: _Errors, numbers: Sequence[int] | None = None) -> int:
    """Note why queued items could not be started, all of them without numbers; how many were not put off before."""
    chosen = and_(run_items.c.run_id == run_id, run_items.c.status == "queued", run_items.c.errors.is_(None))
    if numbers is not None:
        chosen = and_(chosen, run_items.c.number.in_(numbers))
    return connection.execute(update(run_items).where(chosen).values(errors=errors)).rowcount


def give_up(connection: Connection, run_id: str, since: datetime) -> int:
    """Cancel the queued items that were put off before that time; how many. A resumed run takes them up again."""
    query = select(run_items.c.number, run_items.c.errors).where(_put_off(run_id), run_items.c.status == "queued")
    late = [row.number for row in connection.execute(query) if datetime.fromisoformat(row.errors[0]["since"]) <= since]
    if late:
        chosen = and_(run_items.c.run_id == run_id, run_items.c.number.in_(late))
        connection.execute(update(run_items).where(chosen).values(status="canceled"))
    return len(late)


def has_given_up(connection: Connection, run_id: str) -> bool:
    query = select(run_items.c.number).where(_put_off(run_id), run_items.c.status == "canceled").limit(1)
    return connection.scalar(query) is not None


def first(connection: Connection, run_id: str) -> tuple[dict[str, Any], int] | None:
    """The first reason for which items are put off or were given up, and how many such items there are."""
    count = connection.scalar(select(func.count()).where(_put_off(run_id))) or 0
    if not count:
        return None
    query = select(run_items.c.errors).where(_put_off(run_id)).order_by(run_items.c.number).limit(1)
    return connection.scalars(query).one()[0], count


def _put_off(run_id: str) -> ColumnElement[bool]:
    is_waiting = or_(run_items.c.status == "queued", run_items.c.status == "canceled")
    return and_(run_items.c.run_id == run_id, is_waiting, run_items.c.errors.is_not(None))
