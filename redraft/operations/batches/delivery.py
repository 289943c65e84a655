"""Submits the batches of runs to their providers, reads their states, and imports their results.

Every worker does this on a timer, one batch after another. If a provider cannot be reached, the
batch is tried again later.
"""

import random
from dataclasses import replace
from typing import Any

import structlog

from redraft.domain.calls.backoff import retry_wait_s
from redraft.domain.calls.model_names import parse_model
from redraft.errors import ProviderError
from redraft.operations.batches import results, submission
from redraft.operations.services import Services
from redraft.providers.batches.batch_endpoint import BatchEndpoint, BatchState, ProviderBatch
from redraft.providers.shared.protocol import NotExecuted
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.storage.admin import workers
from redraft.storage.bulk import batches
from redraft.storage.bulk.batches import BatchRecord
from redraft.storage.engine.columns import DbNow

log = structlog.get_logger()

_LONGEST_WAIT_S = 900.0
_NOT_FOUND = 404
# A provider may list the paid results of an ended batch late. With their waits, these attempts take over an hour
_MISSING_RESULTS_MAX = 10
_CANCELED = "The run was canceled before the provider got the batch."


class BatchDelivery:
    """Delivers batches in one worker process. A separate thread calls `run_once` repeatedly.

    Args:
        services: the services.
        owner: the id of this worker, which its heartbeats store.
    """

    def __init__(self, services: Services, owner: str) -> None:
        self._services = services
        self._owner = owner
        self._is_closing = False

    def run_once(self) -> None:
        """Handle all batches that are due. Raises Unavailable if the database cannot be reached."""
        while not self._is_closing and (batch := self._claim()):
            try:
                self._handle_due(batch)
            except submission.BatchLost:
                log.warning("batch_taken_over", batch_id=batch.id)

    def close(self) -> None:
        """Begin no further batch."""
        self._is_closing = True

    def _claim(self) -> BatchRecord | None:
        with self._services.database.read() as connection:
            # A read first, because most rounds find nothing, and on SQLite each write makes other writers wait
            if not batches.has_due(connection):
                return None
        with self._services.database.write() as connection:
            found = workers.alive(connection, within_s=3 * self._services.settings.heartbeat_s)
            alive = {worker["id"] for worker in found}
            # Without a heartbeat of this worker, other workers would claim the same batch
            if self._owner not in alive:
                return None
            return batches.claim_due(connection, self._owner, alive - {self._owner})

    def _handle_due(self, batch: BatchRecord) -> None:
        try:
            endpoint = self._services.providers.batches(parse_model(batch.model).provider)
            found = self._ask(endpoint, batch)
            if found is not None and found.is_queue_full and not batch.is_canceled:
                # The provider has ended this batch, so the next submission is another one
                again: dict[str, Any] = {"status": "ready", "provider_batch_id": None, "resubmit_at": None}
                self._delay(batch, found.error, **again)
                _discard(endpoint, batch, found)
            elif found is not None and found.state.is_ended:
                batch = self._store_end(batch, found)
                if results.import_results(self._services, endpoint, batch, found):
                    _discard(endpoint, batch, found)
            elif found is not None:
                self._release(batch, self._poll_s, **_facts(found), failures=0, error=None)
        except ProviderError as error:
            self._handle_error(batch, error)

    def _ask(self, endpoint: BatchEndpoint, batch: BatchRecord) -> ProviderBatch | None:
        """Return the batch as the provider reports it. None if this function has ended the calls without results."""
        if batch.provider_batch_id is None:
            found = submission.submit(self._services, endpoint, batch)
            if found is None:
                results.end_without_results(self._services, batch, NotExecuted("canceled", _CANCELED))
            return found
        try:
            found = CALLS_LOOP.run(endpoint.read(batch.provider_batch_id))
        except ProviderError as error:
            if error.http_status != _NOT_FOUND:
                raise
            self._end_lost(batch, error)
            return None
        if batch.is_canceled and not found.state.is_ended and found.state is not BatchState.CANCELING:
            found = CALLS_LOOP.run(endpoint.cancel(batch.provider_batch_id))
        return found

    def _store_end(self, batch: BatchRecord, found: ProviderBatch) -> BatchRecord:
        """Store that a batch has ended at the provider. From then on, failures delay the import and do not end it."""
        if (batch.provider_batch_id, batch.provider_status) == (found.id, found.reported_state):
            return batch
        with self._services.database.write() as connection:
            if not batches.change(connection, batch, **_facts(found), failures=0):
                raise submission.BatchLost
        return replace(batch, provider_batch_id=found.id, provider_status=found.reported_state, failures=0)

    def _handle_error(self, batch: BatchRecord, error: ProviderError) -> None:
        is_sent = batch.provider_batch_id is not None
        if is_sent and error.http_status == _NOT_FOUND and batch.failures >= _MISSING_RESULTS_MAX:
            self._end_lost(batch, error)
        elif is_sent or error.retryable:
            self._delay(batch, error.message, error.retry_after_s)
        else:
            results.end_without_results(self._services, batch, error)

    def _end_lost(self, batch: BatchRecord, error: ProviderError) -> None:
        words = f"The provider has no batch {batch.provider_batch_id} or no results of it any more: {error.message}"
        results.end_without_results(self._services, batch, NotExecuted("provider_unavailable", words))

    def _delay(self, batch: BatchRecord, reason: str, asked_s: float | None = None, **values: Any) -> None:
        settings, failures = self._services.settings, batch.failures + 1
        first_s = min(settings.batch_poll_s, settings.retry_wait_max_s)
        wait_s = retry_wait_s(failures, first_s=first_s, max_s=_LONGEST_WAIT_S, asked_s=asked_s)
        log.warning("batch_delayed", batch_id=batch.id, reason=reason, wait_s=round(wait_s, 1))
        self._release(batch, wait_s, **values, failures=failures, error=reason)

    @property
    def _poll_s(self) -> float:
        return self._services.settings.batch_poll_s * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, guards nothing

    def _release(self, batch: BatchRecord, wait_s: float, **values: Any) -> None:
        with self._services.database.write() as connection:
            batches.change(connection, batch, **values, next_at=DbNow(round(wait_s, 3)), lease_owner=None)


def _discard(endpoint: BatchEndpoint, batch: BatchRecord, found: ProviderBatch) -> None:
    """Delete the files of an ended batch at the provider. A file that cannot be deleted remains there."""
    try:
        CALLS_LOOP.run(endpoint.discard(found))
    except ProviderError as error:
        log.warning("batch_files_not_deleted", batch_id=batch.id, reason=error.message)


def _facts(found: ProviderBatch) -> dict[str, Any]:
    counts = found.counts
    return {
        "status": "sent",
        "provider_batch_id": found.id,
        "provider_status": found.reported_state,
        "done": (counts.succeeded or 0) + (counts.failed or 0),
        "expires_at": found.expires_at,
    }
