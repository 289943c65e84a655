"""Submits a batch. The row of the batch and the set of its calls are stored before the provider gets it."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from redraft.errors import ProviderError, ProviderErrorCode
from redraft.operations.batches.results import BatchLost, store_failures
from redraft.operations.calls.attached_files import files_of
from redraft.operations.fault_points import FaultPoint, reached
from redraft.operations.services import Services
from redraft.providers.batches.batch_endpoint import BatchEndpoint, BatchRequest, ProviderBatch, RequestFile
from redraft.providers.batches.batch_files import BatchFileWriter
from redraft.providers.shared.protocol import NotExecuted
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.storage.bulk import batches
from redraft.storage.bulk.batches import BatchRecord
from redraft.storage.engine.columns import DbNow

__all__ = ["BatchLost", "submit"]

_PAGE = 100
# The clock of the provider may differ from that of the database
_CLOCKS_DIFFER = timedelta(hours=1)
_LONGEST_BATCH = timedelta(days=1)
_TOO_MANY = 429
_JOB_ENDED = "The job of the call ended before the provider got its batch."


def submit(services: Services, endpoint: BatchEndpoint, batch: BatchRecord) -> ProviderBatch | None:
    """Submit a batch, unless an earlier submission has reached the provider.

    Returns None if there is nothing to submit: the run was canceled, or the jobs of all calls have ended.

    Raises:
        ProviderError: the provider refused the batch, or cannot be asked.
        BatchLost: another worker has claimed the batch.
    """
    if batch.submitted_at is not None:
        found = _find(services, endpoint, batch)
        if found is not None:
            return found
        _ensure_lost(services, batch)
        if batch.is_canceled:
            return None
    elif batch.is_canceled:
        return None
    else:
        with services.database.read() as connection:
            ended = batches.calls_of_ended_jobs(connection, batch.id)
        store_failures(services, batch, ended, NotExecuted("canceled", _JOB_ENDED))
    with TemporaryDirectory(prefix="redraft-batch-") as folder:
        file = _write(services, endpoint, batch, Path(folder))
        if file is None:
            return None
        _fix_calls(services, batch, file)
        reached(FaultPoint.SUBMITTING, batch.id)
        sent = _send(services, endpoint, batch, file)
        reached(FaultPoint.SENT, batch.id)
    return sent


def _send(services: Services, endpoint: BatchEndpoint, batch: BatchRecord, file: RequestFile) -> ProviderBatch:
    """Submit a file, unless another worker claims the batch during the upload."""

    def confirm() -> None:
        with services.database.write() as connection:
            resubmit_at = DbNow(services.settings.batch_resubmit_s)
            if not batches.change(connection, batch, resubmit_at=resubmit_at):
                raise BatchLost

    try:
        return CALLS_LOOP.run(endpoint.submit(file, batch.id, confirm))
    except ProviderError as error:
        # The provider has refused the request and created no batch, so the next attempt may submit the batch
        if error.http_status == _TOO_MANY:
            with services.database.write() as connection:
                batches.change(connection, batch, resubmit_at=None)
        raise


def _ensure_lost(services: Services, batch: BatchRecord) -> None:
    """Raise ProviderError if the provider may still get or list the batch of an interrupted submission."""
    with services.database.read() as connection:
        may_arrive = batches.may_arrive(connection, batch)
    if may_arrive:
        words = (
            f"The submission was interrupted, and the provider may list the batch until {batch.resubmit_at:%H:%M} UTC."
        )
        raise ProviderError("provider_unavailable", words)


def _find(services: Services, endpoint: BatchEndpoint, batch: BatchRecord) -> ProviderBatch | None:
    since = (batch.submitted_at or batch.created_at) - _CLOCKS_DIFFER
    with services.database.read() as connection:
        call_ids = batches.call_ids(connection, batch.id)
        # These batches are not searched. Batches that were submitted long before this one may still run
        known = batches.provider_ids(connection, since - _LONGEST_BATCH)
    try:
        return CALLS_LOOP.run(endpoint.find(batch.id, call_ids, since, known))
    except ProviderError as error:
        # The provider may execute the batch although it refuses this request, for example because of an expired key.
        # So the error counts as transient, and the batch is neither ended nor submitted again
        words = f"The provider may have the batch, and does not list its batches: {error.message}"
        raise ProviderError("provider_unavailable", words, http_status=error.http_status) from error


def _write(services: Services, endpoint: BatchEndpoint, batch: BatchRecord, folder: Path) -> RequestFile | None:
    """Write the calls of a batch into a file, as many as the endpoint allows. None if no call is left."""
    with services.database.read() as connection:
        ids = batches.open_call_ids(connection, batch.id)
    writer = BatchFileWriter(endpoint, folder)
    for page in batches.pages(ids, _PAGE):
        with services.database.read() as connection:
            rows = batches.calls_by_id(connection, batch.id, page)
        for row in rows:
            try:
                files = files_of(services, row["job_id"], row["request"])
                full = writer.add(BatchRequest(row["id"], row["request"], files))
            except ProviderError as error:
                unsent = NotExecuted(cast("ProviderErrorCode", error.code), error.message)
                store_failures(services, batch, [row["id"]], unsent)
                continue
            if full is not None:
                writer.finish()
                return full
    return next(iter(writer.finish()), None)


def _fix_calls(services: Services, batch: BatchRecord, file: RequestFile) -> None:
    """Store that the batch has exactly the calls of the file. The other calls get a batch of their own."""
    with services.database.write() as connection:
        if not batches.holds(connection, batch):
            raise BatchLost
        others = _others(batches.open_call_ids(connection, batch.id), file)
        if others:
            batches.split(connection, batch, others)
        batches.change(connection, batch, submitted_at=batch.submitted_at or DbNow(), total=len(file.call_ids))


def _others(ids: Sequence[str], file: RequestFile) -> list[str]:
    written = set(file.call_ids)
    return [each for each in ids if each not in written]
