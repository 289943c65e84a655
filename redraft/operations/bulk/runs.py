"""Creates, reads, cancels and resumes bulk runs. The scheduler starts their items."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from itertools import count
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection

from redraft.datasets.items import Item, Merger
from redraft.datasets.reports import ERRORS_SHOWN, no_good_rows
from redraft.datasets.rows import BadRow, Row
from redraft.domain.bulk.phrases import dollars
from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import AnyRequest
from redraft.domain.text.cleaning import clean_json
from redraft.errors import Conflict, FieldError, Invalid, NotFound, existing
from redraft.operations.bulk import scheduler
from redraft.operations.bulk.datasets import find as find_dataset
from redraft.operations.bulk.deliveries import choose_delivery
from redraft.operations.bulk.run_completion import end_run
from redraft.operations.bulk.run_resources import Run, run_resource
from redraft.operations.calls.budgets import spent_of_run, stopped_items
from redraft.operations.cursors import next_cursor, read_cursor
from redraft.operations.jobs import lifecycle, submit
from redraft.operations.jobs.cost_estimates import most_expensive_call
from redraft.operations.jobs.submit import Idempotency
from redraft.operations.jobs.webhooks import check_webhook
from redraft.operations.resource_base import NANO, cost_usd
from redraft.operations.services import Services
from redraft.storage.bulk import batches, datasets, run_items, runs
from redraft.storage.bulk.datasets import DatasetRecord
from redraft.storage.bulk.runs import RunRecord

_PAGE = 200
_STEM_MAX = 490
# The number of an earlier copy, but not a year
_NUMBER = re.compile(r" \(\d{1,3}\)$")
# Errors that every item of the run would have
_COMMON_ERRORS = frozenset({"unknown_model", "provider_auth", "unpriced_model", "unknown_profile"})


def create_run(services: Services, body: CreateRun, idempotency: Idempotency | None = None) -> tuple[Run, bool]:
    """Store a run with all its items, and start the first items.

    Returns the run, and whether it is a replay: the idempotency key was used before for the same request.

    Raises:
        NotFound: there is no such dataset.
        Invalid: the defaults, the overrides or the webhook are not valid; every item would fail (no criteria, a model
            that cannot be called, or a budget and an unknown price); a model has no batch endpoint, and the run asks
            for batches; or the key was used with another body.
    """
    # If a request does not use a later field, its digest must equal the digest that a version without this field stored
    left_out = {*(() if body.webhook else ("webhook",)), *(("delivery",) if body.delivery == "live" else ())}
    asked = body.model_dump(exclude=left_out)
    digest = hashlib.sha256(to_json(clean_json(asked))).hexdigest()
    known = _find_replay(services, idempotency, digest)
    if known is not None:
        return get_run(services, known), True
    check_webhook(services, body.webhook)
    merger = Merger(body.defaults, body.overrides)
    with services.database.read() as connection:
        dataset = find_dataset(connection, body.dataset_id)
    first = ensure_startable(services, dataset.id, merger, body)
    items = dataset.rows * body.repeat
    delivery, reason = choose_delivery(services, body.delivery, items, first)
    row = {**_row(body, dataset), "request_hash": digest}
    row |= {"delivery": delivery, "delivery_reason": reason}
    if idempotency:
        row |= {"idempotency_scope": idempotency.scope, "idempotency_key": idempotency.key}
    with services.database.write() as connection:
        datasets.lock(connection, dataset.id, is_shared=True)
        # Checked again under the lock, since the dataset may have been deleted after the first check
        find_dataset(connection, dataset.id)
        is_new = runs.add(connection, row)
    if not is_new:
        # A simultaneous request with the same key has stored its run first
        return create_run(services, body, idempotency)
    scheduler.schedule(services, row["id"])
    return get_run(services, row["id"]), False


def _find_replay(services: Services, idempotency: Idempotency | None, digest: str) -> str | None:
    if idempotency is None:
        return None
    with services.database.read() as connection:
        known = runs.find_by_key(connection, idempotency.scope, idempotency.key)
    if known is None:
        return None
    if known.request_hash != digest:
        words = f"This Idempotency-Key was used for run {known.id} with another body; use a new key."
        raise Invalid.at("", words, "idempotency_key_reused")
    return known.id


def _row(body: CreateRun, dataset: DatasetRecord) -> dict[str, Any]:
    return {
        "id": new_id("run"),
        "name": (body.name or "").strip() or dataset.name,
        "dataset_id": dataset.id,
        "status": "running",
        "defaults": body.defaults,
        "overrides": body.overrides,
        "repeat": body.repeat,
        "max_in_flight": body.max_in_flight,
        "max_cost_nano_usd": None if body.max_cost_usd is None else _nano(body.max_cost_usd),
        "total": dataset.rows * body.repeat,
        "webhook": body.webhook and body.webhook.model_dump(),
    }


def _nano(usd: float) -> int:
    return round(usd * int(NANO))


def ensure_startable(services: Services, dataset_id: str, merger: Merger, body: CreateRun) -> AnyRequest:
    """Return the first request of the run. Raises Invalid if no row can become a job, or all rows have one error."""
    bad: list[BadRow] = []
    for row in _good_rows(services, dataset_id):
        found = _try_row(services, merger, row, body)
        if not isinstance(found, BadRow):
            return found
        bad.append(found)
        del bad[ERRORS_SHOWN:]
    raise no_good_rows(bad)


def _good_rows(services: Services, dataset_id: str) -> Iterator[Row]:
    after = -1
    while True:
        with services.database.read() as connection:
            page = datasets.list_items(connection, dataset_id, after=after, limit=_PAGE)
        if not page:
            return
        yield from (Row(**item["row"]) for item in page if item["row"])
        after = page[-1]["position"]


def _try_row(services: Services, merger: Merger, row: Row, body: CreateRun) -> AnyRequest | BadRow:
    """Return the request of a row, or its errors. Raises Invalid for an error that all rows have."""
    item = merger.item(row)
    if isinstance(item, BadRow):
        return item
    try:
        ready = submit.prepare(services, item.request, is_row=True)
        submit.check_priced(services, ready.request, body.max_cost_usd)
    except Invalid as error:
        errors = error.errors or (FieldError("", error.message, error.code),)
        if {each.code for each in errors} & _COMMON_ERRORS:
            raise
        return BadRow(row.line, row.last_line, row.custom_id, errors, row.digest)
    return ready.request


def get_run(services: Services, run_id: str) -> Run:
    """The current state of a run. Raises NotFound if there is no such run."""
    with services.database.read() as connection:
        return run_resource(connection, find(connection, run_id))


def list_runs(services: Services, *, cursor: str | None, limit: int) -> tuple[list[Run], str | None]:
    """A page of runs, newest first, and the cursor of the next page. Raises Invalid for a bad cursor."""
    after = read_cursor(cursor)
    with services.database.read() as connection:
        records = runs.list_page(connection, after=after, limit=limit)
        page = [run_resource(connection, record) for record in records[:limit]]
    return page, next_cursor(records, limit)


def name_of_copy(services: Services, name: str) -> str:
    """Return the name with a number that no copy among the latest runs has, such as `name (2)`."""
    stem = _NUMBER.sub("", name)[:_STEM_MAX]
    with services.database.read() as connection:
        used = {run.name for run in runs.list_page(connection, after=None, limit=_PAGE)}
    return next(copy for number in count(2) if (copy := f"{stem} ({number})") not in used)


def find_baseline_id(services: Services, run_id: str) -> str | None:
    """Return the id of the newest earlier run on the same rows that was not canceled. None if no run matches.

    Raises NotFound if there is no run with this id.
    """
    with services.database.read() as connection:
        return runs.latest_finished(connection, find(connection, run_id))


def cancel_run(services: Services, run_id: str) -> tuple[Run, bool]:
    """Cancel a run and its running jobs. The results of ended items are kept.

    Returns the run, and whether this call ended it. Raises NotFound if there is no such run.
    """
    with services.database.write() as connection:
        run = existing(runs.lock(connection, run_id), "run", run_id)
        is_ours = run.status == "running"
        if is_ours:
            batches.cancel_of_run(connection, run_id)
            run_items.end_queued(connection, run_id)
            end_run(connection, run_id, "canceled", "canceled")
        running = run_items.jobs_of_stopped_run(connection, run_id)
    _cancel_all(services, running)
    return get_run(services, run_id), is_ours


def _cancel_all(services: Services, running: list[tuple[str, int]]) -> None:
    """Cancel jobs, except jobs that a concurrent resume has continued since they were listed."""
    for job_id, continuations in running:
        with suppress(NotFound):  # The job was deleted after it was listed
            lifecycle.cancel(services, job_id, is_one_of_many=True, continuations=continuations)
    if running:
        services.queue.request_heartbeats()


def resume_run(services: Services, run_id: str, body: ResumeRun) -> Run:
    """Start items of a run again: the canceled items, the failed items or both, as `retry` says.

    Other ended items are not repeated. A larger budget also continues the items that the old budget stopped.

    Raises:
        NotFound: there is no such run.
        Conflict: the budget is used up, and the request has no larger budget.
        Invalid: the new budget is not larger than the old one.
    """
    with services.database.read() as connection:
        run = find(connection, run_id)
        late = run_items.jobs_of_stopped_run(connection, run_id)
    if run.stop_reason == "budget_exhausted" and body.max_cost_usd is None:
        raise Conflict(say_spent(services, run_id), code="run_budget_exhausted")
    # A job that the cancellation has not reached yet would run at the same time as its continuation
    _cancel_all(services, late)
    with services.database.write() as connection:
        run = existing(runs.lock(connection, run_id), "run", run_id)
        stopped = _raise_budget(connection, run, body.max_cost_usd)
        reopened = run_items.requeue_statuses(connection, run_id, statuses_of(run.status, body.retry)) + stopped
        if reopened and run.status != "running":
            runs.resume(connection, run)
    scheduler.schedule(services, run_id)
    return get_run(services, run_id)


def statuses_of(run_status: str, retry: str) -> list[str]:
    """The statuses of the items that a resume with this `retry` starts again."""
    statuses = ["canceled"] if run_status != "running" and retry != "failed" else []
    return [*statuses, *(["failed"] if retry != "open" else [])]


def _raise_budget(connection: Connection, run: RunRecord, max_cost_usd: float | None) -> int:
    """Raise the budget of a run, and reopen the items that the old budget stopped. Returns their number."""
    if max_cost_usd is None:
        return 0
    raised = _nano(max_cost_usd)
    if run.max_cost_nano_usd is None or raised <= run.max_cost_nano_usd:
        current = "none" if run.max_cost_nano_usd is None else f"one of ${cost_usd(run.max_cost_nano_usd)}"
        words = f"A budget can only be raised, and run {run.id} has {current}."
        raise Invalid.at("/max_cost_usd", words, "budget_not_raised")
    runs.change(connection, run.id, max_cost_nano_usd=raised)
    stopped = stopped_items(connection, run.id)
    run_items.requeue(connection, run.id, stopped)
    return len(stopped)


def say_spent(services: Services, run_id: str) -> str:
    """The message that the budget of a run is used up, with the maximum cost of a single call.

    Raises NotFound if there is no such run.
    """
    with services.database.read() as connection:
        run = find(connection, run_id)
        spent = spent_of_run(connection, services, run_id)
        first = datasets.list_items(connection, run.dataset_id, after=-1, limit=_PAGE)
    made = Merger(run.defaults, run.overrides).items(Row(**item["row"]) for item in first if item["row"])
    dearest = max(
        (most_expensive_call(services, item.request) for item in made if isinstance(item, Item)), default=Decimal(0)
    )
    return (
        f"The budget of run {run_id} is used up: ${cost_usd(spent)} of ${cost_usd(run.max_cost_nano_usd)} are spent or "
        f"may have been, and a single call can cost up to {dollars(dearest)}. A larger budget continues the run."
    )


def find(connection: Connection, run_id: str) -> RunRecord:
    """The record of a run. Raises NotFound if there is no such run."""
    return existing(runs.get(connection, run_id), "run", run_id)
