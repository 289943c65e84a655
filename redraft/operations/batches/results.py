"""Imports the results of a batch into the ledger, page by page, and resumes the steps that waited for these results.

An import that was interrupted starts anew. A call has only one result, so storing a result again changes nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog
from sqlalchemy import Connection

from redraft.errors import ProviderError
from redraft.operations.bulk.run_completion import end_round
from redraft.operations.calls.budgets import worst_of
from redraft.operations.calls.call_outcomes import batch_outcome, saved_by_batch
from redraft.operations.calls.ledger import RECORD_REPLY_S, record_outcomes
from redraft.operations.calls.model_calls import Outcome
from redraft.operations.fault_points import FaultPoint, reached
from redraft.operations.services import Services
from redraft.operations.steps import context
from redraft.operations.steps.leases import message_for
from redraft.providers.batches.batch_endpoint import BatchEndpoint, BatchLine, ProviderBatch
from redraft.providers.shared.protocol import ChatReply, NotExecuted
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from redraft.storage.bulk import batches, runs
from redraft.storage.bulk.batches import BatchRecord
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.unit_of_work import notify_after_commit
from redraft.storage.jobs import parked_steps, transitions
from redraft.storage.jobs.transitions import DueStep

log = structlog.get_logger()

_PAGE = 100
_ODD_LINES_MAX = 100


class BatchLost(Exception):  # noqa: N818 - a state, like LeaseLost
    """Another worker has claimed the batch, because this worker seemed lost. This worker makes no further change."""


class OddLines:
    """Counts the lines of a result file that are malformed, are duplicates, or belong to no call of the batch."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[dict[str, Any]] = []

    def add(self, line: BatchLine) -> None:
        self.count += 1
        if len(self.first) < _ODD_LINES_MAX:
            self.first.append({"number": line.number, "kind": str(line.kind), "text": line.text})


def import_results(services: Services, endpoint: BatchEndpoint, batch: BatchRecord, found: ProviderBatch) -> bool:
    """Store the results of a batch that has ended at the provider, and end the batch.

    Returns whether each line of the results was the result of a call.

    Raises:
        ProviderError: the results could not be transferred. The import can be repeated.
        BatchLost: another worker has claimed the batch.
    """
    with services.database.read() as connection:
        call_ids = frozenset(batches.call_ids(connection, batch.id))
    odd, lines = OddLines(), dict[str, BatchLine]()
    with TemporaryDirectory(prefix="redraft-results-") as folder:
        path = Path(folder) / "results.jsonl"
        CALLS_LOOP.run(endpoint.download(found, path))
        for line in endpoint.lines(path, call_ids):
            if not line.kind.is_result:
                odd.add(line)
                continue
            lines[line.call_id] = line
            if len(lines) == _PAGE:
                _store_lines(services, endpoint, batch, lines)
                lines = {}
        _store_lines(services, endpoint, batch, lines)
    words = f"The batch ended at the provider ({found.reported_state}) without a result for this call. {found.error}"
    error = NotExecuted("canceled" if batch.is_canceled else "provider_unavailable", words.strip())
    facts = {"provider_batch_id": found.id, "provider_status": found.reported_state, "expires_at": found.expires_at}
    evidence = {"odd_lines": odd.first or None, "odd_line_count": odd.count}
    _end(services, batch, error, error=found.error or None, **facts, **evidence)
    return odd.count == 0


def end_without_results(services: Services, batch: BatchRecord, error: ProviderError) -> None:
    """End a batch that the provider does not have or does not accept. Its calls get the error."""
    is_refused = error.code != "canceled"
    log.warning("batch_not_delivered", batch_id=batch.id, code=error.code, reason=error.message)
    _end(services, batch, error, error=error.message if is_refused else None, provider_status=batch.provider_status)


def _end(services: Services, batch: BatchRecord, missing: ProviderError, **facts: Any) -> None:
    """End a batch. Its calls without a result get the error `missing`."""
    with services.database.read() as connection:
        left = batches.open_call_ids(connection, batch.id)
    store_failures(services, batch, left, missing)
    with services.database.write() as connection:
        runs.lock(connection, batch.run_id)
        has_ended = {"status": "ended", "ended_at": DbNow(), "next_at": None, "lease_owner": None}
        if not batches.change(connection, batch, **has_ended, **facts, reserved_nano_usd=0):
            raise BatchLost
        if batch.round is not None and not batches.has_round_out(connection, batch.run_id):
            end_round(connection, batch.run_id, batch.round)
        notify_after_commit(connection, "runs")


def store_failures(services: Services, batch: BatchRecord, call_ids: Sequence[str], error: ProviderError) -> None:
    """Close calls of a batch with an error. Raises BatchLost if another worker has claimed the batch."""

    def fail(_row: Mapping[str, Any]) -> ChatReply:
        raise error

    for page in batches.pages(call_ids, _PAGE):
        _store(services, batch, page, fail)


def _store_lines(
    services: Services, endpoint: BatchEndpoint, batch: BatchRecord, lines: Mapping[str, BatchLine]
) -> None:
    def read(row: Mapping[str, Any]) -> ChatReply:
        try:
            return endpoint.reply(lines[row["id"]], row["request"])
        except NotExecuted as error:
            if error.code != "canceled" or batch.is_canceled:
                raise
            # Somebody canceled the batch at the provider, so the call goes into the next batch
            raise NotExecuted("provider_unavailable", error.message) from error

    _store(services, batch, list(lines), read)
    reached(FaultPoint.IMPORTING, batch.id)


def _store(
    services: Services, batch: BatchRecord, call_ids: Sequence[str], read: Callable[[Mapping[str, Any]], ChatReply]
) -> None:
    """Store the results of some calls, and resume the steps that now have all their results."""
    with services.database.read() as connection:
        found = batches.calls_by_id(connection, batch.id, call_ids)
    rows = [row for row in found if row["status"] == "started"]
    outcomes = defaultdict[str, list[Outcome]](list)
    changes: dict[str, dict[str, Any]] = {}
    for row in rows:
        is_last = row["attempt"] >= services.settings.batch_attempts_max
        is_final = is_last and services.settings.batch_fallback == "fail"
        outcome = batch_outcome(services, row, partial(read, row), is_last=is_final)
        outcomes[row["job_id"]].append(outcome)
        if outcome.error and (outcome.error.retryable or outcome.error.is_adapted):
            changes[row["job_id"]] = _next_attempt(services.settings, row["attempt"], is_last=is_last)
    work = partial(_write, services, batch, rows, outcomes, changes)
    for step in services.database.persist(work, for_s=RECORD_REPLY_S):
        context.notify(services, message_for(step))


def _next_attempt(settings: Settings, attempt: int, *, is_last: bool) -> dict[str, Any]:
    """Return the columns of a step after a transient failure. The step uses another batch, calls live, or ends."""
    if not is_last:
        return {"step_attempt": attempt}
    if settings.batch_fallback == "live":
        return {"step_attempt": 0, "delivery": None}
    # With this value, the next attempt of the step is its last attempt, so the step ends if it fails again
    return {"step_attempt": settings.step_attempts_max - 1}


def _write(
    services: Services,
    batch: BatchRecord,
    rows: Sequence[Mapping[str, Any]],
    outcomes: Mapping[str, Sequence[Outcome]],
    changes: Mapping[str, Mapping[str, Any]],
    connection: Connection,
) -> list[DueStep]:
    if not batches.holds(connection, batch):
        raise BatchLost
    # Without the locks, two batches with calls of one job could each miss the results of the other, and no batch would
    # make the step due
    transitions.lock(connection, outcomes)
    closed = [each for job_id, theirs in outcomes.items() for each in record_outcomes(connection, job_id, theirs)]
    failed = sum(each.status == "error" for each in closed)
    saved = sum(saved_by_batch(services, outcome) for theirs in outcomes.values() for outcome in theirs)
    reserved = worst_of(services, rows) if batch.reserved_nano_usd and closed else 0
    amounts = {"succeeded": len(closed) - failed, "failed": failed, "reserved_nano_usd": -reserved}
    batches.add_results(connection, batch, **amounts, saved_nano_usd=saved if closed else 0)
    notify_after_commit(connection, "runs")
    # The scheduler resumes the steps of a run that has not ended
    at_once = not runs.is_running(connection, batch.run_id)
    return parked_steps.return_steps(connection, outcomes, changes, at_once=at_once)
