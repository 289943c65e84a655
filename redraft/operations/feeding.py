"""Runs are fed: as jobs of a run end, the next items become jobs, so that its window stays full.

Every worker feeds; a run is held while its items are started, so that none is started twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import structlog
from pydantic_core import from_json, to_json
from sqlalchemy import Connection

from redraft.datasets.items import Merger
from redraft.datasets.rows import BadRow, Row
from redraft.domain.requests import Limits
from redraft.errors import Flaw, Invalid
from redraft.operations import steps, submit
from redraft.operations.services import Services
from redraft.operations.submit import Ready
from redraft.storage import runs, workers
from redraft.storage.jobs import JobRecord
from redraft.storage.runs import RunRecord

log = structlog.get_logger()

_AT_ONCE = 25
# Of the threads of all workers: the rest is for people, who must not wait for a run.
_SHARE = 0.75
_NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Started:
    """An item before it is stored: what it becomes, or why it becomes nothing."""

    number: int
    ready: Ready | None
    errors: list[dict[str, Any]] | None = None


class Feeder:
    """One per worker process: `look` is called by a thread of its own, again and again."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._is_closing = False

    def look(self) -> None:
        """Wait for the end of a run's job, or a sweep's pause, then start what there is room for.

        Raises:
            Unavailable: the database is away.
        """
        news = self._services.database.news["runs"]
        news.wait(self._services.settings.sweep_s)
        news.clear()
        if not self._is_closing:
            feed_all(self._services)

    def close(self) -> None:
        """Start nothing more."""
        self._is_closing = True


def feed_all(services: Services) -> None:
    with services.database.read() as connection:
        active = runs.active_ids(connection)
    for run_id in active:
        feed(services, run_id)


def feed(services: Services, run_id: str) -> None:
    """Start items until the window is full, and end a run that has none left."""
    while _start_some(services, run_id):
        pass


def _start_some(services: Services, run_id: str) -> bool:
    """Start one batch; whether there may be more to start."""
    with services.database.read() as connection:
        run = runs.get(connection, run_id)
        if run is None or run.status != "running":
            return False
        room = min(_AT_ONCE, _room(services, connection, run))
        items = runs.take_queued(connection, run, room) if room > 0 else []
    made = [_prepared(services, run, item) for item in items]
    with services.database.write() as connection:
        started = _store(services, connection, run_id, made)
    for job in started:
        steps.ring(services, steps.message_of(job))
    return len(items) == _AT_ONCE


def _room(services: Services, connection: Connection, run: RunRecord) -> int:
    return window_of(services, connection, run) - runs.count_running(connection, run.id)


def window_of(services: Services, connection: Connection, run: RunRecord) -> int:
    """How many jobs of a run may be under way: some threads of the workers are left to people."""
    alive = workers.alive(connection, within_s=3 * services.settings.heartbeat_s)
    threads = sum(worker["concurrency"] for worker in alive)
    return min(run.max_in_flight, max(1, int(threads * _SHARE))) if threads else run.max_in_flight


def _prepared(services: Services, run: RunRecord, item: dict[str, Any]) -> _Started:
    made = _merger(to_json(run.defaults), to_json(run.overrides)).item(_row(item["row"]))
    if isinstance(made, BadRow):
        return _Started(item["number"], None, [_error(flaw) for flaw in made.errors])
    try:
        ready = submit.prepare(services, made.request)
        if run.max_cost_nano_usd is not None:
            limits = Limits(max_cost_usd=run.max_cost_nano_usd / _NANO)
            submit.check_priced(services, limits, submit.models_named(ready.request))
    except Invalid as error:
        flaws = error.flaws or (Flaw("", error.message, error.code),)
        return _Started(item["number"], None, [_error(flaw) for flaw in flaws])
    return _Started(item["number"], ready)


@lru_cache(maxsize=64)
def _merger(defaults: bytes, overrides: bytes) -> Merger:
    return Merger(from_json(defaults), from_json(overrides))


def _row(stored: dict[str, Any]) -> Row:
    return Row(**stored)


def _error(flaw: Flaw) -> dict[str, Any]:
    return {"pointer": flaw.pointer, "detail": flaw.detail, "code": flaw.code}


def _store(services: Services, connection: Connection, run_id: str, made: Sequence[_Started]) -> list[JobRecord]:
    """Start what is still to be started and fits; what others started meanwhile is left alone."""
    run = runs.hold(connection, run_id)
    if run is None or run.status != "running":
        return []
    if _is_spent(connection, run):
        runs.end_queued(connection, run_id)
        made = ()
    queued = runs.still_queued(connection, run_id, [each.number for each in made])
    room = _room(services, connection, run)
    started: list[JobRecord] = []
    for each in made:
        if each.number not in queued or len(started) >= room:
            continue
        if each.ready is None:
            runs.move_item(connection, run_id, each.number, status="invalid", errors=each.errors)
            continue
        job = submit.store(connection, each.ready, run_id=run_id)
        if job is None:
            raise RuntimeError("A job without an idempotency key met another one.")
        runs.move_item(connection, run_id, each.number, status="running", job_id=job.id)
        started.append(job)
    _end_if_done(connection, run)
    return started


def _is_spent(connection: Connection, run: RunRecord) -> bool:
    """Nothing is left of its budget, or not enough for one more call of a job that has no budget of its own."""
    limit = run.max_cost_nano_usd
    if limit is None:
        return False
    if runs.sums(connection, run.id).cost_nano_usd >= limit:
        return True
    exhausted = runs.limits_of_exhausted(connection, run.id)
    return any(each["max_cost_usd"] is None and each["max_tokens"] is None for each in exhausted)


def _end_if_done(connection: Connection, run: RunRecord) -> None:
    if runs.has_queued(connection, run.id) or runs.count_running(connection, run.id):
        return
    reason = "budget_exhausted" if _is_spent(connection, run) else "finished"
    runs.finish(connection, run.id, "succeeded", reason)
    log.info("run_finished", run_id=run.id, reason=reason)
