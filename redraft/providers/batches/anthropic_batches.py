"""The batch API of Anthropic and of servers with the same API: message batches.

A message batch has no metadata. Only its results have our ids, and they do not exist before the batch has ended.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, BinaryIO

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
from redraft.providers.batches.batch_transport import ANY_TYPE, TRANSFER_S, BatchCall, lines_as_array
from redraft.providers.shared.error_bodies import json_or_text
from redraft.providers.shared.failures import Answer
from redraft.providers.shared.replies import object_of, text_of, token_count

ANTHROPIC_LIMITS = BatchLimits(requests=100_000, bytes=256_000_000)
_STATES = {
    "in_progress": BatchState.IN_PROGRESS,
    "canceling": BatchState.CANCELING,
    "ended": BatchState.COMPLETED,
}
# https://platform.claude.com/docs/en/api/errors. A line of results has the type of an error, but no status
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_UNKNOWN_ERROR = 500
_START, _END = b'{"requests":[', b"]}"


class AnthropicBatches(BatchClient):
    """See `BatchEndpoint`."""

    path = "v1/messages/batches"
    cursor = "after_id"

    def url_of(self, body: Mapping[str, Any]) -> str:
        """See `BatchEndpoint.url_of`."""
        del body
        return "/v1/messages"

    def in_line(self, request: BatchRequest, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `BatchClient.in_line`."""
        return {"custom_id": request.call_id, "params": body}

    async def submit(self, file: RequestFile, batch_id: str, confirm: Callable[[], None]) -> ProviderBatch:
        """See `BatchEndpoint.submit`."""
        del batch_id
        size = len(_START) + file.size + len(file.call_ids) - 1 + len(_END)
        headers = {"content-type": "application/json", "content-length": str(size)}
        # `confirm` is called before the last bytes. If it raises, the request is incomplete, and no batch is created
        content = {"content": lines_as_array(file.path, _START, _END, confirm)}
        call = BatchCall("POST", self.path, content=content, headers=headers, transfer_s=TRANSFER_S)
        return self.batch_of(await self._transport.send(call))

    async def find(
        self, batch_id: str, call_ids: Collection[str], since: datetime, known: Collection[str] = ()
    ) -> ProviderBatch | None:
        """See `BatchEndpoint.find`. Batches with another number of requests are skipped."""
        del batch_id
        ids, others, undecided = frozenset(call_ids), frozenset(known), ""
        async for batch in self.newest_first(since):
            if batch.id in others or batch.counts.total not in {None, len(ids)}:
                continue
            if not batch.state.is_ended:
                undecided = undecided or batch.id
            elif await self._first_id(batch) in ids:
                return batch
        if undecided:
            words = (
                f"The batch {undecided} may be the wanted one: {self._vendor.label} shows its requests when it ends."
            )
            raise ProviderError("provider_unavailable", words)
        return None

    async def _first_id(self, batch: ProviderBatch) -> str:
        line = await self._transport.first_line(BatchCall("GET", self._results(batch), headers=ANY_TYPE))
        return text_of(object_of(json_or_text(line.decode("utf-8", "replace"))).get("custom_id"))

    def batch_in(self, body: dict[str, Any]) -> ProviderBatch:
        """See `BatchClient.batch_in`."""
        status, counts = text_of(body.get("processing_status")), object_of(body.get("request_counts"))
        numbers = {name: token_count(number) for name, number in counts.items()}
        known = [number for number in numbers.values() if number is not None]
        state = _STATES.get(status, BatchState.UNKNOWN)
        errors = [numbers.get(name) or 0 for name in ("errored", "canceled", "expired")]
        return ProviderBatch(
            id=text_of(body.get("id")),
            state=state,
            reported_state=status,
            counts=BatchCounts(sum(known), numbers.get("succeeded"), sum(errors)) if known else BatchCounts(),
            created_at=time_of(body.get("created_at")),
            expires_at=time_of(body.get("expires_at")),
            ended_at=time_of(body.get("ended_at")),
        )

    async def discard(self, batch: ProviderBatch) -> None:
        """See `BatchEndpoint.discard`. A message batch has no files, and its results expire."""
        del batch

    async def write_results(self, batch: ProviderBatch, file: BinaryIO) -> None:
        """See `BatchClient.write_results`."""
        # The address of the results in the batch is not used: it could name another host, which must not get the key
        call = BatchCall("GET", self._results(batch), transfer_s=TRANSFER_S, headers=ANY_TYPE)
        await self._transport.download(call, file)

    def _results(self, batch: ProviderBatch) -> str:
        return f"{self.path_of(batch.id)}/results"

    def result_in(self, line: dict[str, Any]) -> tuple[LineKind, Answer | None]:
        """See `BatchClient.result_in`."""
        result = object_of(line.get("result"))
        match result.get("type"):
            case "succeeded":
                return LineKind.ANSWERED, Answer(200, result.get("message"), {})
            case "errored":
                error = object_of(result.get("error"))
                kind = text_of(object_of(error.get("error")).get("type")) or text_of(error.get("type"))
                headers = {"request-id": text_of(error.get("request_id"))}
                return LineKind.ANSWERED, Answer(_STATUSES.get(kind, _UNKNOWN_ERROR), error, headers)
            case "canceled":
                return LineKind.CANCELED, None
            case "expired":
                return LineKind.EXPIRED, None
            case _:
                return LineKind.MALFORMED, None
