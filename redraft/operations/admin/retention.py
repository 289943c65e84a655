"""Deletes jobs that ended long ago, with their iterations, calls and events, and old calls that drafted jobs.

The setting `retention_days` in `redraft/settings.py` says how long jobs are kept.
Each unit of work takes about 50 ms. A pause follows, so that workers and requests are not blocked.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from redraft.domain.jobs.states import TERMINAL
from redraft.errors import Invalid
from redraft.operations.services import Services
from redraft.storage.admin import retention, workers
from redraft.storage.admin.retention import EndedJob
from redraft.storage.engine.columns import database_time

ENDED_STATUSES = tuple(sorted(status.value for status in TERMINAL))

_BATCH = 20
_BATCH_MAX = 500
# SQLite has one writer: workers wait for a batch that takes longer
_BATCH_S = 0.05
_PAUSE_MIN_S = 0.01
_PERSIST_S = 60.0
_FORGET_EVERY_S = 15.0
_DAY_S = 86_400.0
_FORGET_WORKERS_S = 24 * 3600.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Retention:
    """Selects the jobs that ended before a time. If statuses are given, only jobs with one of them are selected."""

    before: datetime
    statuses: tuple[str, ...]


def too_old(services: Services, older_s: float, statuses: Sequence[str] = ()) -> Retention:
    """Select the jobs that ended at least `older_s` seconds ago by the clock of the database.

    Raises Invalid if a status is not the status of an ended job, or the time is before the year 1.
    """
    unknown = [status for status in statuses if status not in ENDED_STATUSES]
    if unknown:
        words = f"{unknown[0]!r} is not one of {', '.join(ENDED_STATUSES)}."
        raise Invalid.at("/status", words, "status")
    with services.database.read() as connection:
        return Retention(database_time(connection, ago_s=older_s), tuple(statuses))


def count(services: Services, what: Retention) -> dict[str, int]:
    """Count the selected jobs, by status."""
    with services.database.read() as connection:
        return retention.count_ended(connection, what.before, what.statuses)


def prune(services: Services, what: Retention, on_progress: Progress = lambda _done, _of: None) -> dict[str, int]:
    """Delete the selected jobs. Returns the number of deleted jobs by status.

    A deletion can be interrupted at any time and repeated. `on_progress` gets the number of deleted jobs and the total.
    """
    total = sum(count(services, what).values())
    removed: Counter[str] = Counter()
    size, last = _BATCH, None
    while batch := _find(services, what, last, size):
        last, ids = batch[-1], [job.id for job in batch]
        began = time.monotonic()
        removed += services.database.persist(
            lambda connection, ids=ids: retention.remove_ended(connection, ids, what.before), for_s=_PERSIST_S
        )
        took_s = time.monotonic() - began
        on_progress(removed.total(), total)
        size = next_size(size, took_s)
        time.sleep(max(_PAUSE_MIN_S, took_s))
    with services.database.write() as connection:
        workers.remove_silent(connection, for_s=_FORGET_WORKERS_S)
    return dict(removed)


def _find(services: Services, what: Retention, last: EndedJob | None, limit: int) -> list[EndedJob]:
    # The search begins after the last batch, because the index entries of deleted jobs would slow it down
    with services.database.read() as connection:
        return retention.find_ended(connection, what.before, what.statuses, after=last, limit=limit)


def count_drafts(services: Services, what: Retention) -> int:
    """Count the old calls of drafts. The count is 0 if the selection names statuses, since drafts have no status."""
    with services.database.read() as connection:
        return 0 if what.statuses else retention.count_jobless(connection, what.before)


def prune_drafts(services: Services, what: Retention) -> int:
    """Delete the old calls of drafts, and return the number of deleted calls."""
    if what.statuses:
        return 0
    return in_batches(
        services, lambda connection, limit: retention.remove_jobless(connection, what.before, limit=limit)
    )


def in_batches(services: Services, remove: Callable[[Connection, int], int]) -> int:
    """Call `remove` with the maximum number of rows until it deletes no row. Returns the number of deleted rows."""
    size, total = _BATCH, 0
    while True:
        limit, began = size, time.monotonic()
        removed = services.database.persist(lambda connection, limit=limit: remove(connection, limit), for_s=_PERSIST_S)
        if not removed:
            return total
        total += removed
        took_s = time.monotonic() - began
        size = next_size(size, took_s)
        # SQLite has one writer: without a pause, workers would wait for the whole deletion
        time.sleep(max(_PAUSE_MIN_S, took_s / 2))


def forget_some(services: Services) -> None:
    """Delete some old jobs and calls of drafts. Every sweep calls this function, which acts about every 15 seconds.

    Raises Unavailable if the database does not answer; a later sweep tries again.
    """
    settings = services.settings
    # Every worker sweeps. A random choice makes it unlikely that two workers delete at the same time
    is_turn = random.random() * _FORGET_EVERY_S < settings.sweep_s  # noqa: S311 - spreads load, guards nothing
    if settings.retention_days is None or not is_turn:
        return
    with services.database.read() as connection:
        before = database_time(connection, ago_s=settings.retention_days * _DAY_S)
        found = retention.find_ended(connection, before, (), after=None, limit=_BATCH)
        has_drafts = retention.count_jobless(connection, before) > 0
    if found or has_drafts:
        with services.database.write() as connection:
            retention.remove_ended(connection, [job.id for job in found], before)
            retention.remove_jobless(connection, before, limit=_BATCH)


def next_size(size: int, took_s: float) -> int:
    """Return the size of the next batch, computed from the duration of the last one, because jobs differ in size."""
    if took_s > _BATCH_S:
        return max(1, size // 2)
    return min(_BATCH_MAX, size * 2) if took_s < _BATCH_S / 3 else size
