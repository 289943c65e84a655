"""The interface of a provider's batch endpoint, and its types.

A batch has one provider, one model and one URL. The caller calls `submit`, then `read` until the batch has ended, then
`download`, and then `lines` with `reply` for each line. After a crash or an error of `submit`, `find` says whether the
provider has the batch.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from redraft.providers.shared.failures import Answer
from redraft.providers.shared.protocol import ChatReply


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The maximum size of a batch."""

    requests: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a batch.

    Attributes:
        call_id: the id of the call. The provider returns it with the result.
        body: the result of `Provider.wire_body` for a chat that is not streamed.
        files: the base64 of the files that the body refers to, by digest.
    """

    call_id: str
    body: Mapping[str, Any]
    files: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class RequestFile:
    """The requests of one batch on disk, one JSON object per line.

    Attributes:
        path: the file.
        url: the path of the API that all requests are for, such as "/v1/chat/completions".
        model: the model of all requests.
        call_ids: the ids of the calls, in the order of the lines.
        size: the size of the file in bytes.
    """

    path: Path
    url: str
    model: str
    call_ids: tuple[str, ...]
    size: int


class BatchState(StrEnum):
    """The state of a batch at the provider."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    CANCELING = "canceling"
    COMPLETED = "completed"
    """All requests have a result. A result may be an error."""
    FAILED = "failed"
    """The provider refused the whole batch and executed no request."""
    EXPIRED = "expired"
    """The provider ended the batch at its time limit. Some requests may have results."""
    CANCELED = "canceled"
    """The batch was canceled. Some requests may have results."""
    UNKNOWN = "unknown"
    """A state that is not in this list. The batch is read again later."""

    @property
    def is_ended(self) -> bool:
        """Whether the state is final, so that the results are complete."""
        return self in {BatchState.COMPLETED, BatchState.FAILED, BatchState.EXPIRED, BatchState.CANCELED}


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """The numbers of requests by their state, as the provider reports them. None means unknown.

    Anthropic reports the numbers of ended requests only when the whole batch has ended.
    """

    total: int | None = None
    succeeded: int | None = None
    failed: int | None = None


@dataclass(frozen=True, slots=True)
class ProviderBatch:
    """A batch as the provider reports it.

    Attributes:
        id: the provider's id of the batch.
        state: the state.
        reported_state: the provider's own word for the state.
        batch_id: the id that `submit` was called with; empty if the provider does not store it.
        expires_at: the time at which the provider ends the batch at the latest.
        error: why the provider refused the whole batch; empty if the provider accepted the batch.
        is_queue_full: whether the provider refused the batch because too many requests of other batches wait. If so,
            submit the batch again later.
        result_files: the ids of the files with the results (OpenAI); empty for Anthropic.
        request_file: the id of the uploaded file (OpenAI); empty for Anthropic.
    """

    id: str
    state: BatchState
    reported_state: str
    counts: BatchCounts
    batch_id: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    ended_at: datetime | None = None
    error: str = ""
    is_queue_full: bool = False
    result_files: tuple[str, ...] = ()
    request_file: str = ""


class LineKind(StrEnum):
    """What a line of a result file is."""

    ANSWERED = "answered"
    """The provider executed the request: `answer` is its response, which may have an error status."""
    EXPIRED = "expired"
    """The provider did not execute the request before the time limit. The request costs nothing."""
    CANCELED = "canceled"
    """The provider did not execute the request, because the batch was canceled. The request costs nothing."""
    FAILED = "failed"
    """The provider reports an error instead of a response to the request. The request costs nothing."""
    MALFORMED = "malformed"
    """The line is cut, or is no JSON object of the known form. The line changes no call."""
    FOREIGN = "foreign"
    """The id belongs to no call of the batch. The line changes no call."""
    DUPLICATE = "duplicate"
    """An earlier line has the same id. The line changes no call."""

    @property
    def is_result(self) -> bool:
        """Whether the line is the first result of a call of the batch."""
        return self not in {LineKind.MALFORMED, LineKind.FOREIGN, LineKind.DUPLICATE}


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One line of the results.

    Attributes:
        number: the number of the line, from 1.
        call_id: the id of the call; empty if the line has none.
        answer: the response to the request; for `EXPIRED`, `CANCELED` and `FAILED` the provider's error. None for
            malformed lines.
        text: the beginning of the line, without secrets. It is the evidence of lines that are no result.
    """

    number: int
    kind: LineKind
    call_id: str
    answer: Answer | None
    text: str = ""


class BatchEndpoint(Protocol):
    """The batch API of one provider. Coroutines run on `CALLS_LOOP`; the other methods call no provider.

    Coroutines make one attempt and raise a `ProviderError`. If its `retryable` is true, the caller repeats them later.
    """

    name: str
    limits: BatchLimits

    def url_of(self, body: Mapping[str, Any]) -> str:
        """Return the path of the API for a body. Requests with different paths go into different batches."""
        ...

    def line_of(self, request: BatchRequest) -> bytes:
        """Return the line of a request file, with its line end."""
        ...

    async def submit(self, file: RequestFile, batch_id: str, confirm: Callable[[], None]) -> ProviderBatch:
        """Upload the file and create the batch.

        After any error the provider may have created the batch. Call `find` before another `submit`.

        Args:
            file: the requests.
            batch_id: our id of the batch.
            confirm: called in a thread after the upload, directly before the provider can create the batch. If it
                raises, the provider creates no batch.

        Raises:
            ProviderError: if the provider refused the batch, or its answer is missing.
        """
        ...

    async def find(
        self, batch_id: str, call_ids: Collection[str], since: datetime, known: Collection[str] = ()
    ) -> ProviderBatch | None:
        """Return the batch that an earlier `submit` has created, or None if the provider has no such batch.

        A batch of OpenAI contains our id. A batch of Anthropic contains ids of ours only in its results. So the
        results of each batch since `since` with the same number of requests are searched for the call ids.

        Args:
            batch_id: the id that `submit` was called with.
            call_ids: the ids of all calls of the batch.
            since: the time of the first `submit`. Older batches are not searched.
            known: the provider's ids of other batches of ours, which are not searched.

        Raises:
            ProviderError: if the provider does not answer, or (only Anthropic, code `provider_unavailable`) if a batch
                may be the wanted one, but its results do not exist yet. Call again later, and submit nothing before.
        """
        ...

    async def read(self, provider_batch_id: str) -> ProviderBatch:
        """Return the present state of a batch."""
        ...

    async def cancel(self, provider_batch_id: str) -> ProviderBatch:
        """Ask the provider to cancel a batch. The state `CANCELING` can last, so the batch is read until it has ended.

        A batch that has ended already is returned as it is.
        """
        ...

    async def download(self, batch: ProviderBatch, path: Path) -> None:
        """Write the results of an ended batch into a file, which exists only if it is complete.

        The results are not held in memory. A batch without results gives an empty file.

        Raises:
            ProviderError: if the transfer fails. The caller can repeat it from the start.
        """
        ...

    async def discard(self, batch: ProviderBatch) -> None:
        """Delete the files of an ended batch at the provider. Files that do not exist any more are no error."""
        ...

    def lines(self, path: Path, call_ids: Collection[str]) -> Iterator[BatchLine]:
        """Yield the lines of a downloaded file, one at a time. A call id without a line has no result.

        Args:
            path: the file that `download` has written.
            call_ids: the ids of all calls of the batch.
        """
        ...

    def reply(self, line: BatchLine, body: Mapping[str, Any]) -> ChatReply:
        """Return the reply in a line, by the same rules as for a live reply.

        Args:
            line: a line whose `kind.is_result` is true.
            body: the body of the request.

        Raises:
            ProviderError: as `Provider.send` does. A request that was not executed raises `NotExecuted`.
        """
        ...
