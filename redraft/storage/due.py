"""What a sweep looks for: steps that are due and unheard, and jobs that must end.

Each query is built once: workers sweep all the time.
"""

from functools import cache

from sqlalchemy import ColumnElement, Connection, Executable, and_, case, or_, select, update

from redraft.storage.columns import DbNow
from redraft.storage.moves import ALONE_LOSSES, DUE, FREE_LOSSES, LOSSES, DueStep, is_free, is_live
from redraft.storage.tables import jobs


def take_due(
    connection: Connection,
    *,
    pause_s: float,
    limit: int,
    with_expired: bool = True,
    losses: tuple[int, int] = (0, FREE_LOSSES),
) -> list[DueStep]:
    """Jobs whose step is due and unheard, marked as rung now.

    The pause before a job is rung again doubles with each ring that led to no claim, up to two minutes.
    Only steps that have lost `losses` holders, from the one number to the other.
    """
    statement = _due_statement(pause_s, limit, losses, with_expired=with_expired)
    return [DueStep(*row) for row in connection.execute(statement)]


@cache
def _due_statement(pause_s: float, limit: int, losses: tuple[int, int], *, with_expired: bool) -> Executable:
    ring_pause = [(jobs.c.ring_count <= n, jobs.c.rung_at < DbNow(-pause_s * 2**n)) for n in range(6)]
    due = (
        select(jobs.c.id)
        .where(
            is_live(),
            jobs.c.available_at <= DbNow(),
            is_free(with_expired=with_expired),
            LOSSES.between(*losses),
            or_(jobs.c.rung_at.is_(None), case(*ring_pause, else_=jobs.c.rung_at < DbNow(-pause_s * 64))),
        )
        .order_by(jobs.c.available_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return (
        update(jobs)
        .where(jobs.c.id.in_(due.scalar_subquery()))
        .values(rung_at=DbNow(), ring_count=jobs.c.ring_count + 1)
        .returning(*DUE)
    )


def guilty(connection: Connection, *, limit: int) -> list[str]:
    """Live jobs whose step has ended its process even alone."""
    return list(connection.execute(_guilty_query(limit)).scalars())


@cache
def _guilty_query(limit: int) -> Executable:
    return select(jobs.c.id).where(is_live(), is_guilty()).limit(limit)


def is_guilty() -> ColumnElement[bool]:
    return is_free() & (LOSSES > ALONE_LOSSES)


def overdue(connection: Connection, *, slack_s: float, limit: int) -> list[str]:
    """Live jobs past their deadline; those in somebody's hands get some slack to end themselves."""
    return list(connection.execute(_overdue_query(slack_s, limit)).scalars())


@cache
def _overdue_query(slack_s: float, limit: int) -> Executable:
    return select(jobs.c.id).where(is_live(), is_overdue(slack_s)).limit(limit)


def is_overdue(slack_s: float) -> ColumnElement[bool]:
    return or_(and_(is_free(), jobs.c.deadline_at < DbNow()), jobs.c.deadline_at < DbNow(-slack_s))
