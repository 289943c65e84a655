"""Queries of the sweeper: due steps without a worker, and jobs that must end."""

from functools import cache

from sqlalchemy import ColumnElement, Connection, Executable, and_, case, or_, select, update

from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import jobs
from redraft.storage.jobs import transitions
from redraft.storage.jobs.transitions import LOSSES, DueStep, is_free, is_live

# No step is notified so far ahead: a later time means that the clock was set back
_NOTIFIED_AHEAD_S = 300.0


def take_due(
    connection: Connection, *, pause_s: float, limit: int, with_expired: bool = True, are_suspects: bool = False
) -> list[DueStep]:
    """Take the due steps that no worker has claimed, and mark them as notified now.

    The pause before the next message doubles with each one that led to no claim, up to two minutes, so that a stopped
    fleet does not flood the broker. `are_suspects`: only steps that have lost too many holders, otherwise all others.
    The pause of a suspect does not grow, because its process may have found it claimed.
    """
    statement = _due_statement(pause_s, limit, with_expired=with_expired, are_suspects=are_suspects)
    return [DueStep(*row) for row in connection.execute(statement)]


@cache  # workers sweep all the time, and building this statement takes longer than running it
def _due_statement(pause_s: float, limit: int, *, with_expired: bool, are_suspects: bool) -> Executable:
    losses = (transitions.ALONE_LOSSES, transitions.ALONE_LOSSES) if are_suspects else (0, transitions.FREE_LOSSES)
    *shorter, longest = (1,) if are_suspects else (1, 2, 4, 8, 16, 32, 64)
    waited = [(jobs.c.ring_count <= n, jobs.c.rung_at < DbNow(-pause_s * times)) for n, times in enumerate(shorter)]
    has_waited_longest = jobs.c.rung_at < DbNow(-pause_s * longest)
    has_waited = case(*waited, else_=has_waited_longest) if waited else has_waited_longest
    due = (
        select(jobs.c.id)
        .where(
            is_live(),
            transitions.is_due(),
            is_free(with_expired=with_expired),
            LOSSES.between(*losses),
            or_(jobs.c.rung_at.is_(None), jobs.c.rung_at > DbNow(_NOTIFIED_AHEAD_S), has_waited),
        )
        .order_by(jobs.c.available_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return (
        update(jobs)
        .where(jobs.c.id.in_(due.scalar_subquery()))
        .values(rung_at=DbNow(), ring_count=jobs.c.ring_count + 1, available_at=transitions.due_at())
        .returning(*transitions.DUE)
    )


def guilty(connection: Connection, *, limit: int) -> list[str]:
    """Live jobs whose step has ended even a process of its own."""
    return list(connection.scalars(select(jobs.c.id).where(is_live(), is_guilty()).limit(limit)))


def is_guilty() -> ColumnElement[bool]:
    return is_free() & (LOSSES > transitions.ALONE_LOSSES)


def overdue(connection: Connection, *, slack_s: float, limit: int) -> list[str]:
    """Live jobs past their deadline; a claimed job gets some slack, so that its holder can end it."""
    return list(connection.scalars(select(jobs.c.id).where(is_live(), is_overdue(slack_s)).limit(limit)))


def is_overdue(slack_s: float) -> ColumnElement[bool]:
    return or_(and_(is_free(), jobs.c.deadline_at < DbNow()), jobs.c.deadline_at < DbNow(-slack_s))
