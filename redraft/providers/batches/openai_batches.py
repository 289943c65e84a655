"""The batch API of OpenAI and of servers with the same API: a file of requests is uploaded, then a batch is created."""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, BinaryIO
from urllib.parse import quote

from redraft.errors import ProviderError
from redraft.providers.batches.batch_client import BatchClient, time_of
from redraft.providers.batches.batch_endpoint import (
    BatchCounts,
    BatchLimits,
    BatchRequest,
    BatchState,
    LineKind,
    ProviderBatch,
    RequestFile,
)
from redraft.providers.batches.batch_transport import ANY_TYPE, TRANSFER_S, BatchCall
from redraft.providers.shared.error_bodies import read_error_body
from redraft.providers.shared.failures import Answer
from redraft.providers.shared.replies import array_of, object_of, text_of, token_count

OPENAI_LIMITS = BatchLimits(requests=50_000, bytes=200_000_000)
_ID_NAME = "redraft_batch_id"
_NOT_FOUND = 404
_STATES = {
    **{str(state): state for state in BatchState},
    "cancelling": BatchState.CANCELING,
    "cancelled": BatchState.CANCELED,
}
# OpenAI limits the tokens and the requests that wait for one model, in all batches together
_QUEUE_FULL = re.compile(r"token_limit_exceeded|enqueued (token|request)", re.IGNORECASE)
_NOT_EXECUTED = {
    "batch_expired": LineKind.EXPIRED,
    "batch_cancelled": LineKind.CANCELED,
    "batch_canceled": LineKind.CANCELED,
}


class OpenAIBatches(BatchClient):
    """See `BatchEndpoint`."""

    path = "batches"
    cursor = "after"

    def url_of(self, body: Mapping[str, Any]) -> str:
        """See `BatchEndpoint.url_of`."""
        return "/v1/responses" if "input" in body else "/v1/chat/completions"

    def in_line(self, request: BatchRequest, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `BatchClient.in_line`."""
        return {"custom_id": request.call_id, "method": "POST", "url": self.url_of(body), "body": body}

    async def submit(self, file: RequestFile, batch_id: str, confirm: Callable[[], None]) -> ProviderBatch:
        """See `BatchEndpoint.submit`."""
        with file.path.open("rb") as requests:
            content = {
                "data": {"purpose": "batch"},
                "files": {"file": (f"{batch_id}.jsonl", requests, "application/jsonl")},
            }
            upload = BatchCall("POST", "files", content=content, transfer_s=TRANSFER_S)
            uploaded = await self._transport.send(upload)
        wanted = {
            "input_file_id": text_of(uploaded.body.get("id")),
            "endpoint": file.url,
            "completion_window": "24h",
            "metadata": {_ID_NAME: batch_id},
        }
        await asyncio.to_thread(confirm)
        return self.batch_of(await self._transport.send(BatchCall("POST", self.path, content={"json": wanted})))

    async def find(
        self, batch_id: str, call_ids: Collection[str], since: datetime, known: Collection[str] = ()
    ) -> ProviderBatch | None:
        """See `BatchEndpoint.find`. The metadata of a batch contain our id, so the ids of the calls are not needed."""
        del call_ids, known
        async for batch in self.newest_first(since):
            if batch.batch_id == batch_id and not batch.is_queue_full:
                return batch
        return None

    def batch_in(self, body: dict[str, Any]) -> ProviderBatch:
        """See `BatchClient.batch_in`."""
        status, counts = text_of(body.get("status")), object_of(body.get("request_counts"))
        error = read_error_body(array_of(object_of(body.get("errors")).get("data")))
        ends = ("completed_at", "failed_at", "expired_at", "cancelled_at")
        files = (text_of(body.get(name)) for name in ("output_file_id", "error_file_id"))
        return ProviderBatch(
            id=text_of(body.get("id")),
            state=_STATES.get(status, BatchState.UNKNOWN),
            reported_state=status,
            counts=BatchCounts(*(token_count(counts.get(name)) for name in ("total", "completed", "failed"))),
            batch_id=text_of(object_of(body.get("metadata")).get(_ID_NAME)),
            created_at=time_of(body.get("created_at")),
            expires_at=time_of(body.get("expires_at")),
            ended_at=next((time for name in ends if (time := time_of(body.get(name)))), None),
            error=self._vendor.redact(error.message),
            is_queue_full=status == "failed" and bool(_QUEUE_FULL.search(f"{error.codes} {error.message}")),
            result_files=tuple(filter(None, files)),
            request_file=text_of(body.get("input_file_id")),
        )

    async def discard(self, batch: ProviderBatch) -> None:
        """See `BatchEndpoint.discard`."""
        failed: ProviderError | None = None
        for file_id in filter(None, (batch.request_file, *batch.result_files)):
            try:
                await self._transport.send(BatchCall("DELETE", _path_of_file(file_id)))
            except ProviderError as error:
                failed = failed if error.http_status == _NOT_FOUND else error
        if failed is not None:
            raise failed

    async def write_results(self, batch: ProviderBatch, file: BinaryIO) -> None:
        """See `BatchClient.write_results`. The results without errors come first."""
        for file_id in batch.result_files:
            path = f"{_path_of_file(file_id)}/content"
            await self._transport.download(BatchCall("GET", path, transfer_s=TRANSFER_S, headers=ANY_TYPE), file)
            # The last line of a file may have no line end
            file.write(b"\n")

    def result_in(self, line: dict[str, Any]) -> tuple[LineKind, Answer | None]:
        """See `BatchClient.result_in`."""
        response, error = object_of(line.get("response")), object_of(line.get("error"))
        if error:
            kind = _NOT_EXECUTED.get(text_of(error.get("code")), LineKind.FAILED)
            return kind, Answer(200, {"error": error}, {})
        status = response.get("status_code")
        if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
            return LineKind.MALFORMED, None
        headers = {"x-request-id": text_of(response.get("request_id"))}
        return LineKind.ANSWERED, Answer(status, response.get("body"), headers)


def _path_of_file(file_id: str) -> str:
    return f"files/{quote(file_id, safe='')}"
