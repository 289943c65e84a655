"""Queries of the sweeper: due steps that no worker has claimed, and jobs that must end."""

from functools import cache

from sqlalchemy import ColumnElement, Connection, Executable, Select, and_, case, or_, select, update

from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import jobs
from redraft.storage.jobs import transitions
from redraft.storage.jobs.transitions import ALONE_LOSSES_MAX, LOST_LEASES, SHARED_LOSSES_MAX, DueStep, is_free, is_open

# While a step waits for a slot of its model, `rung_at` is in the future, but by less than this time. A later `rung_at`
# means that the clock was set back
_NOTIFIED_AHEAD_S = 300.0


def take_due(
    connection: Connection, *, pause_s: float, limit: int, with_expired: bool = True, are_suspects: bool = False
) -> list[DueStep]:
    """Return due steps that no worker has claimed, and record that workers are notified of them now.

    A suspect is a step that has lost too many leases. If `are_suspects`, only suspects are returned, otherwise only
    other steps. `pause_s` is the shortest time between two messages for one step.
    """
    # These are two statements, because PostgreSQL may repeat a subquery with a limit for each job that an UPDATE tests
    ids = list(connection.scalars(_due_query(pause_s, limit, with_expired=with_expired, are_suspects=are_suspects)))
    if not ids:
        return []
    return [DueStep(*row) for row in connection.execute(_NOTIFIED.where(jobs.c.id.in_(ids)))]


_NOTIFIED = (
    update(jobs)
    .values(rung_at=DbNow(), ring_count=jobs.c.ring_count + 1, available_at=transitions.due_at())
    .returning(*transitions.DUE_STEP_COLUMNS)
)


@cache  # workers sweep all the time, and building this statement takes longer than running it
def _due_query(pause_s: float, limit: int, *, with_expired: bool, are_suspects: bool) -> Select[tuple[str]]:
    losses = (ALONE_LOSSES_MAX, ALONE_LOSSES_MAX) if are_suspects else (0, SHARED_LOSSES_MAX)
    # The pause doubles with each message that leads to no claim, so that steps without workers do not flood the broker.
    # The pause of a suspect does not grow, because its process may start while another worker has claimed the step
    *shorter, longest = (1,) if are_suspects else (1, 2, 4, 8, 16, 32, 64)
    waited = [(jobs.c.ring_count <= n, jobs.c.rung_at < DbNow(-pause_s * times)) for n, times in enumerate(shorter)]
    has_waited_longest = jobs.c.rung_at < DbNow(-pause_s * longest)
    has_waited = case(*waited, else_=has_waited_longest) if waited else has_waited_longest
    return (
        select(jobs.c.id)
        .where(
            is_open(),
            transitions.is_due(),
            is_free(with_expired=with_expired),
            LOST_LEASES.between(*losses),
            or_(jobs.c.rung_at.is_(None), jobs.c.rung_at > DbNow(_NOTIFIED_AHEAD_S), has_waited),
        )
        .order_by(jobs.c.available_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )


def poison_jobs(connection: Connection, *, limit: int) -> list[str]:
    """Return open jobs whose step has killed several workers, and then the process that ran only this step."""
    return list(connection.scalars(_poison_statement(limit)))


@cache
def _poison_statement(limit: int) -> Executable:
    return select(jobs.c.id).where(is_open(), is_poison()).limit(limit)


def is_poison() -> ColumnElement[bool]:
    return is_free() & (LOST_LEASES > ALONE_LOSSES_MAX)


def overdue(connection: Connection, *, slack_s: float, limit: int) -> list[str]:
    """Return open jobs whose deadline has passed, or if a worker has a lease, passed more than `slack_s` ago."""
    return list(connection.scalars(_overdue_statement(slack_s, limit)))


@cache
def _overdue_statement(slack_s: float, limit: int) -> Executable:
    return select(jobs.c.id).where(is_open(), is_overdue(slack_s)).limit(limit)


def is_overdue(slack_s: float) -> ColumnElement[bool]:
    # The slack lets the worker that has the lease end the job itself, with its latest answer
    return or_(and_(is_free(), jobs.c.deadline_at < DbNow()), jobs.c.deadline_at < DbNow(-slack_s))
