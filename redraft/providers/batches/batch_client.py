"""The base class of the batch endpoints: the steps that the batch APIs of both wire formats have in common."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import quote

from redraft.errors import ProviderError, ProviderErrorCode
from redraft.providers.batches.batch_endpoint import (
    BatchLimits,
    BatchLine,
    BatchRequest,
    LineKind,
    ProviderBatch,
    RequestFile,
)
from redraft.providers.batches.batch_lines import read_lines
from redraft.providers.batches.batch_transport import BatchCall, BatchProvider, BatchTransport
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer, redacted
from redraft.providers.shared.media import with_data
from redraft.providers.shared.protocol import ChatReply, NotExecuted
from redraft.providers.shared.replies import array_of, object_of
from redraft.providers.shared.sending import encoded
from redraft.providers.shared.transport import Timeouts

# The provider's clock may differ from that of this machine
_CLOCK_SKEW = timedelta(minutes=10)
_PAGES_MAX = 200
_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class BatchAccess:
    """The parts of a batch endpoint that come from the settings."""

    provider: BatchProvider
    vendor: Vendor
    timeouts: Timeouts
    limits: BatchLimits


class BatchClient(ABC):
    """See `BatchEndpoint`."""

    cursor: str
    """The parameter for the next page of a list. Its value is the id of the last batch on the previous page."""
    path: str
    """The path of the list of batches below the base URL."""

    def __init__(self, access: BatchAccess) -> None:
        self.name = access.provider.name
        self.limits = access.limits
        self._vendor = access.vendor
        self._provider = access.provider
        self._transport = BatchTransport(access.provider, access.vendor, access.timeouts)

    @abstractmethod
    def url_of(self, body: Mapping[str, Any]) -> str:
        """See `BatchEndpoint.url_of`."""

    @abstractmethod
    async def submit(self, file: RequestFile, batch_id: str, confirm: Callable[[], None]) -> ProviderBatch:
        """See `BatchEndpoint.submit`."""

    @abstractmethod
    async def find(
        self, batch_id: str, call_ids: Collection[str], since: datetime, known: Collection[str] = ()
    ) -> ProviderBatch | None:
        """See `BatchEndpoint.find`."""

    @abstractmethod
    def in_line(self, request: BatchRequest, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the JSON object for one request in a request file. `body` contains the data of its files."""

    @abstractmethod
    def batch_in(self, body: dict[str, Any]) -> ProviderBatch:
        """Return the batch that an object of the API describes. Its id is empty if the object is no batch."""

    @abstractmethod
    def result_in(self, line: dict[str, Any]) -> tuple[LineKind, Answer | None]:
        """Return the kind of a line of results, and the response in it."""

    @abstractmethod
    async def discard(self, batch: ProviderBatch) -> None:
        """See `BatchEndpoint.discard`."""

    @abstractmethod
    async def write_results(self, batch: ProviderBatch, file: BinaryIO) -> None:
        """Write all results into a file while they arrive."""

    def line_of(self, request: BatchRequest) -> bytes:
        """See `BatchEndpoint.line_of`."""
        if request.body.get("stream"):
            raise ValueError("A request of a batch cannot be streamed.")
        return encoded(self.in_line(request, with_data(request.body, request.files))) + b"\n"

    async def read(self, provider_batch_id: str) -> ProviderBatch:
        """See `BatchEndpoint.read`."""
        return self.batch_of(await self._transport.send(BatchCall("GET", self.path_of(provider_batch_id))))

    async def cancel(self, provider_batch_id: str) -> ProviderBatch:
        """See `BatchEndpoint.cancel`."""
        try:
            return self.batch_of(
                await self._transport.send(BatchCall("POST", f"{self.path_of(provider_batch_id)}/cancel"))
            )
        except ProviderError:
            # A batch that has ended cannot be canceled
            batch = await self.read(provider_batch_id)
            if batch.state.is_ended:
                return batch
            raise

    async def download(self, batch: ProviderBatch, path: Path) -> None:
        """See `BatchEndpoint.download`."""
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as file:
                await self.write_results(batch, file)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def lines(self, path: Path, call_ids: Collection[str]) -> Iterator[BatchLine]:
        """See `BatchEndpoint.lines`."""
        return read_lines(path, call_ids, self._vendor, self.result_in)

    def reply(self, line: BatchLine, body: Mapping[str, Any]) -> ChatReply:
        """See `BatchEndpoint.reply`."""
        if line.kind is LineKind.CANCELED:
            raise NotExecuted("canceled", "The batch was canceled before this request was executed.")
        if line.kind is LineKind.EXPIRED:
            words = f"{self._vendor.capital} did not execute this request within the time limit of its batch."
            raise NotExecuted("provider_timeout", words)
        if line.answer is None or not line.kind.is_result:
            raise ValueError(f"A line of the kind {line.kind} has no reply.")
        if line.kind is LineKind.FAILED:
            error = failure_of_answer(self._vendor, line.answer)
            raise NotExecuted(cast("ProviderErrorCode", error.code), error.message, response=error.response)
        return self._provider.reply_in(body, line.answer)

    async def newest_first(self, since: datetime) -> AsyncIterator[ProviderBatch]:
        """Yield the batches that were created after a time, in the order of the provider: the newest first."""
        params: dict[str, str | int] = {"limit": _PAGE_SIZE}
        for _ in range(_PAGES_MAX):
            body = (await self._transport.send(BatchCall("GET", self.path, params=params))).body
            page = [self.batch_in(object_of(each)) for each in array_of(body.get("data"))]
            fresh = [each for each in page if each.created_at is None or each.created_at >= since - _CLOCK_SKEW]
            for batch in fresh:
                yield batch
            if body.get("has_more") is not True or not fresh or params.get(self.cursor) == page[-1].id:
                return
            params[self.cursor] = page[-1].id
        words = f"{self._vendor.capital} lists more than {_PAGES_MAX} pages of batches since {since:%Y-%m-%d %H:%M}."
        raise ProviderError("provider_unavailable", words)

    def batch_of(self, answer: Answer) -> ProviderBatch:
        """Return the batch in an answer.

        Raises:
            ProviderError: if the answer contains no batch (code `provider_unavailable`), as from a broken gateway.
        """
        batch = self.batch_in(answer.body)
        if not batch.id:
            words = f"{self._vendor.capital} answered {answer.status} with something that is no batch."
            response = redacted(self._vendor, answer.body)
            raise ProviderError("provider_unavailable", words, http_status=answer.status, response=response)
        return batch

    def path_of(self, provider_batch_id: str) -> str:
        return f"{self.path}/{quote(provider_batch_id, safe='')}"


def time_of(value: Any) -> datetime | None:
    """Return the time of a number (seconds since 1970) or of a text (RFC 3339), or None for any other value."""
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value).astimezone(UTC)
        return datetime.fromtimestamp(value, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
