"""Starts the next items of a run when jobs of the run end. The window is the number of jobs that run at the same time.

Every worker schedules runs. It locks a run while it starts items, so that no item is started twice.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import structlog
from pydantic_core import from_json, to_json
from sqlalchemy import Connection

from redraft.datasets.items import Merger
from redraft.datasets.rows import BadRow, Row
from redraft.domain.jobs.requests import AnyRequest, ContinueJob
from redraft.domain.jobs.states import JobKind
from redraft.errors import FieldError, Invalid, Unavailable
from redraft.operations.bulk.deliveries import check_batches
from redraft.operations.bulk.run_completion import end_run, send_round
from redraft.operations.calls.budgets import spent_of_run, stopped_items, worst_cost
from redraft.operations.jobs import lifecycle, submit
from redraft.operations.jobs.lifecycle import Continuation
from redraft.operations.jobs.submit import Ready
from redraft.operations.request_views import parse_request
from redraft.operations.services import Services
from redraft.operations.steps import context
from redraft.operations.steps.leases import message_for
from redraft.storage.bulk import batches, run_items, runs
from redraft.storage.bulk.run_items import Slots
from redraft.storage.bulk.runs import RunRecord
from redraft.storage.jobs import jobs, parked_steps
from redraft.storage.jobs.jobs import JobRecord

log = structlog.get_logger()

# One unit of work starts a batch and locks the run meanwhile, so the batch must be short
_BATCH = 25
_STOPPED_MAX = 200
# Jobs that end within a pause are replaced together. One start per ended job would double the queries of a run. The
# pause is a multiple of the time of the last round within these limits, so that busy workers make fewer rounds
_PAUSE_PER_ROUND, _PAUSE_MIN_S, _PAUSE_MAX_S = 3, 0.03, 0.2
# The share of all workers' slots that runs may use: the remaining slots are free for single jobs
_SHARE = 0.75
# If no worker is alive, a few items are started, and the first worker fills the window
_WITHOUT_WORKERS = 4
# Another worker may not have these errors, because each worker has its own keys, prices and profiles
_ERRORS_OF_THIS_WORKER = frozenset({"provider_auth", "unpriced_model", "unknown_profile"})
# After an administrator has set a missing key, items start within a minute
_LONGEST_PAUSE_S = 60.0
_UNUSABLE = FieldError("", "The row cannot become a job; the worker's log says why.", "row_unusable")
_NOT_SCHEDULED = FieldError("", "The run's items cannot be started; the worker's log says why.", "run_not_fed")


@dataclass(frozen=True, slots=True)
class _Prepared:
    """An item before it is stored.

    Attributes:
        ready: the job or the continuation to store.
        errors: the reasons why the item has no job.
        is_postponed: whether the item is tried again later or by another worker, in spite of `errors`.
        live_job_id: the job of the item, if a user has continued it.
        delivery: `batch` if the calls of the job go into batches.
    """

    number: int
    ready: Ready | Continuation | None = None
    errors: list[dict[str, Any]] | None = None
    is_postponed: bool = False
    live_job_id: str | None = None
    delivery: str | None = None


class _Pauses:
    """The pauses of this process before it retries items that it could not start. Each pause doubles the last."""

    def __init__(self) -> None:
        self._until: dict[str, tuple[float, float]] = {}

    def is_over(self, run_id: str) -> bool:
        return time.monotonic() >= self._until.get(run_id, (0.0, 0.0))[0]

    def lengthen(self, run_id: str, first_s: float) -> None:
        pause_s = min(_LONGEST_PAUSE_S, max(first_s, 2 * self._until.get(run_id, (0.0, 0.0))[1]))
        self._until[run_id] = time.monotonic() + pause_s, pause_s

    def end(self, run_id: str) -> None:
        self._until.pop(run_id, None)


_pauses = _Pauses()


class RunScheduler:
    """Schedules runs in one worker process. A separate thread calls `run_once` repeatedly."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._is_closing = False

    def run_once(self) -> None:
        """Wait until a job of a run ends, at most `sweep_s`, and start items.

        Raises Unavailable if the database cannot be reached.
        """
        changed = self._services.database.changed_tables["runs"]
        changed.wait(self._services.settings.sweep_s)
        changed.clear()
        if not self._is_closing:
            started_at = time.monotonic()
            schedule_all(self._services)
            pause_s = _PAUSE_PER_ROUND * (time.monotonic() - started_at)
            time.sleep(min(max(pause_s, _PAUSE_MIN_S), _PAUSE_MAX_S))

    def close(self) -> None:
        """Start no further item."""
        self._is_closing = True


def schedule_all(services: Services) -> None:
    """Start items of all active runs. Raises Unavailable if the database cannot be reached."""
    with services.database.read() as connection:
        active = runs.list_active(connection)
    for run in active:
        _schedule(services, run)


def schedule(services: Services, run_id: str) -> None:
    """Start items of a run, if it is active. Raises Unavailable if the database cannot be reached."""
    with services.database.read() as connection:
        run = runs.get(connection, run_id)
    if run is not None and run.status == "running":
        _schedule(services, run)


def _schedule(services: Services, run: RunRecord) -> None:
    """Start items until the window of the run is full. End the run if no item is left, or if no item can be started.

    When no step of a run with batches can be executed now, the collected calls become the next round of batches.
    """
    run_id = run.id
    try:
        if run.delivery == "batch":
            _resume_some(services, run_id)
        while _start_some(services, run):
            pass
        if run.delivery == "batch":
            send_round(services, run_id)
    except Unavailable:
        raise
    except Exception:
        # The failure of one run must not block the other runs
        log.exception("run_not_scheduled", run_id=run_id)
        _pauses.lengthen(run_id, services.settings.sweep_s)
        with services.database.write() as connection:
            if runs.is_running(connection, run_id):
                _postpone(connection, run_id, [asdict(_NOT_SCHEDULED)])
        _give_up(services, run_id)


def _start_some(services: Services, run: RunRecord) -> bool:
    """Start one batch of items; returns whether more items may be startable."""
    run_id = run.id
    with services.database.read() as connection:
        # A resumed run first waits for the results of its canceled batches, because these results are paid
        if run.delivery == "batch" and batches.has_round_out(connection, run_id):
            return False
        slots = _count_slots(services, connection, run)
        room = min(_BATCH, _room(run, slots))
        items = run_items.take_queued(connection, run, room) if room > 0 else []
        only_postponed = room > 0 and not items
        if only_postponed and _pauses.is_over(run_id):
            items = run_items.take_queued(connection, run, room, are_postponed=True)
    made = [_prepared(services, run, item) for item in items]
    # If there is nothing to start, `_stored` can only end the run, and no job of the run may be running then
    started = _stored(services, run_id, made) if made or not slots.of_run else []
    for job in started:
        context.notify(services, context.message_of(job))
    if any(each.is_postponed for each in made):
        _pauses.lengthen(run_id, services.settings.sweep_s)
    elif started and only_postponed:
        _pauses.end(run_id)
    if only_postponed:
        _give_up(services, run_id)
    # Items that cannot be started use no slot, so other items can be started
    has_room = any(each.errors is not None for each in made) and not only_postponed
    return has_room or (bool(started) and len(items) == _BATCH)


def _resume_some(services: Services, run_id: str) -> None:
    """Resume steps whose batches have ended, until the window of the run is full."""
    with services.database.read() as connection:
        if not parked_steps.has_resumable(connection, run_id):
            return
    with services.database.write() as connection:
        run = runs.lock(connection, run_id)
        room = 0 if run is None else _room(run, _count_slots(services, connection, run))
        due = parked_steps.resume(connection, run_id, room) if room > 0 else []
    for step in due:
        context.notify(services, message_for(step))


def _stored(services: Services, run_id: str, made: Sequence[_Prepared]) -> list[JobRecord]:
    """Store the items and return their jobs. An item that cannot be stored becomes invalid; the others are stored."""
    try:
        with services.database.write() as connection:
            return _store(services, connection, run_id, made)
    except Unavailable:
        raise
    except Exception:
        if not made or (made[0].errors is not None and len(made) == 1):
            raise
        log.exception("items_could_not_be_stored", run_id=run_id, items=len(made))
    # Store each item alone, so that the failure of one item does not prevent the others from being stored
    if len(made) > 1:
        return [job for each in made for job in _stored(services, run_id, [each])]
    return _stored(services, run_id, [_Prepared(made[0].number, errors=[asdict(_UNUSABLE)])])


def _postpone(connection: Connection, run_id: str, errors: list[dict[str, Any]], number: int | None = None) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    noted = [{**error, "since": since} for error in errors]
    if run_items.postpone(connection, run_id, noted, None if number is None else [number]):
        runs.change(connection, run_id)


def _give_up(services: Services, run_id: str) -> None:
    """Cancel the items that could not be started for too long; this may end the run."""
    since = datetime.now(UTC) - timedelta(seconds=services.settings.run_give_up_s)
    with services.database.write() as connection:
        run = runs.lock(connection, run_id)
        if run is not None and run.status == "running" and run_items.cancel_postponed(connection, run_id, since):
            runs.change(connection, run_id)
            _end_if_done(services, connection, run)


def _count_slots(services: Services, connection: Connection, run: RunRecord) -> Slots:
    return run_items.count_slots(connection, run, alive_within_s=3 * services.settings.heartbeat_s)


def _room(run: RunRecord, slots: Slots) -> int:
    """The number of further jobs of the run that may run now. Runs leave some slots of the workers to single jobs."""
    window = max(1, int(slots.total * _SHARE) - slots.of_other_runs) if slots.total else _WITHOUT_WORKERS
    return min(run.max_in_flight, window) - slots.of_run


def _prepared(services: Services, run: RunRecord, item: dict[str, Any]) -> _Prepared:
    """Prepare the job of an item, or collect the errors that prevent it."""
    try:
        return _continued(services, run, item) or _new(services, run, item)
    except Invalid as error:
        errors = error.errors or (FieldError("", error.message, error.code),)
        is_postponed = any(each.code in _ERRORS_OF_THIS_WORKER for each in errors)
        if is_postponed:
            log.warning("item_postponed", run_id=run.id, item=item["number"], reason=error.message)
        return _Prepared(item["number"], errors=[asdict(each) for each in errors], is_postponed=is_postponed)
    except Unavailable:
        raise
    except Exception:
        log.exception("item_unusable", run_id=run.id, item=item["number"])
        return _Prepared(item["number"], errors=[asdict(_UNUSABLE)])


def _continued(services: Services, run: RunRecord, item: dict[str, Any]) -> _Prepared | None:
    """Continue the job of an item, so that no call is paid twice. None if the item has no job to continue."""
    if item["job_id"] is None:
        return None
    with services.database.read() as connection:
        job = jobs.get(connection, item["job_id"])
    # The item gets a new job if its job was deleted, or is of a kind that cannot be continued
    if job is None or job.kind != JobKind.GENERATE_ANSWER:
        return None
    # A user has continued the job, so the item gets the result of the running job
    if job.finished_at is None:
        return _Prepared(item["number"], live_job_id=job.id)
    ready = lifecycle.plan_continuation(services, job, ContinueJob(), keeps_limit=True)
    delivery = _delivery_of(services, run, parse_request(job))
    return _Prepared(item["number"], ready, delivery=delivery)


def _new(services: Services, run: RunRecord, item: dict[str, Any]) -> _Prepared:
    made = _merger(to_json(run.defaults), to_json(run.overrides)).item(Row(**item["row"]))
    if isinstance(made, BadRow):
        return _Prepared(item["number"], errors=[asdict(each) for each in made.errors])
    ready = submit.prepare(services, made.request, is_row=True)
    submit.check_priced(services, ready.request, run.max_cost_nano_usd)
    return _Prepared(item["number"], ready, delivery=_delivery_of(services, run, ready.request))


def _delivery_of(services: Services, run: RunRecord, request: AnyRequest) -> str | None:
    """The delivery of a job. If `auto` chose batches for the run, a job with a model without batches is delivered live.

    Raises Invalid if the run was asked for batches, and a model of the job has no batch endpoint.
    """
    if run.delivery != "batch":
        return None
    try:
        check_batches(services, request)
    except Invalid:
        if run.delivery_reason is None:
            raise
        return None
    return "batch"


# Cached, because building a merger checks the defaults and overrides, which all items of a run share
@lru_cache(maxsize=64)
def _merger(defaults: bytes, overrides: bytes) -> Merger:
    return Merger(from_json(defaults), from_json(overrides))


def _store(services: Services, connection: Connection, run_id: str, made: Sequence[_Prepared]) -> list[JobRecord]:
    """Store the jobs of the items that are still queued, up to the room in the window."""
    run = runs.lock(connection, run_id)
    if run is None or run.status != "running":
        _pauses.end(run_id)
        return []
    if _is_spent(services, connection, run):
        run_items.end_queued(connection, run_id)
        made = ()
    # Checked again under the lock of the run, since another worker may have started the same items
    queued = run_items.still_queued(connection, run_id, [each.number for each in made])
    room = min(_room(run, _count_slots(services, connection, run)), _affordable(services, connection, run, made))
    started: list[JobRecord] = []
    for each in made:
        # An item without a job needs no room. If it stayed queued, it would be taken again and again
        if each.number not in queued or (each.errors is None and len(started) >= room):
            continue
        if job := _start(connection, run_id, each):
            started.append(job)
    if not started:
        _end_if_done(services, connection, run)
    return started


def _start(connection: Connection, run_id: str, each: _Prepared) -> JobRecord | None:
    """Store an item. Returns its job; None if the item gets no job."""
    if each.is_postponed:
        _postpone(connection, run_id, each.errors or [], each.number)
    elif each.errors is not None:
        run_items.update_item(connection, run_id, each.number, status="invalid", errors=each.errors)
    elif isinstance(each.ready, Ready):
        row = submit.row_of(each.ready, run_id=run_id, delivery=each.delivery)
        return submit.store(connection, each.ready, row, [run_items.start_change(run_id, each.number, row["id"])])
    elif (job := _known_job(connection, each)) is not None:
        # The continued job may just have ended and stored the status of its item. Then this update changes nothing
        is_running = run_items.update_item(
            connection, run_id, each.number, status="running", job_id=job.id, errors=None
        )
        return job if is_running else None
    return None


def _affordable(services: Services, connection: Connection, run: RunRecord, made: Sequence[_Prepared]) -> int:
    """The number of further jobs that the budget allows if each job makes its most expensive call.

    It is at least 1 if no job is running: otherwise a run with a small budget would never start or end.
    """
    requests = [each.ready.request for each in made if isinstance(each.ready, Ready)]
    if run.max_cost_nano_usd is None or not requests:
        return len(made)
    is_batch = run.delivery == "batch"
    dearest = max(worst_cost(services, request, is_batch=is_batch) for request in requests)
    left = run.max_cost_nano_usd - spent_of_run(connection, services, run.id)
    under_way = run_items.count_running(connection, run.id)
    return max(0 if under_way else 1, left // max(1, dearest) - under_way)


def _known_job(connection: Connection, item: _Prepared) -> JobRecord | None:
    """Continue the job of an item. None if the job was changed at the same time; the item then stays queued."""
    if isinstance(item.ready, Continuation):
        return lifecycle.store_continuation(connection, item.ready, delivery=item.delivery)
    return jobs.get(connection, item.live_job_id or "")


def _is_spent(services: Services, connection: Connection, run: RunRecord) -> bool:
    """Whether the budget of the run is used up, or has stopped a job."""
    limit = run.max_cost_nano_usd
    if limit is None:
        return False
    return spent_of_run(connection, services, run.id) >= limit or bool(stopped_items(connection, run.id, _STOPPED_MAX))


def _end_if_done(services: Services, connection: Connection, run: RunRecord) -> None:
    if run_items.has_queued(connection, run.id) or run_items.count_running(connection, run.id):
        return
    status, reason = "succeeded", "finished"
    if _is_spent(services, connection, run):
        reason = "budget_exhausted"
    elif run_items.has_canceled_postponed(connection, run.id):
        status, reason = "canceled", "error"
    end_run(connection, run.id, status, reason)
    log.info("run_finished", run_id=run.id, reason=reason)
