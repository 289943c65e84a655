"""Reads a streamed answer: emits its text as it arrives, and builds the body that it would have without streaming."""

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from redraft.domain.calls.finish_reasons import Finish, classify_finish
from redraft.errors import ProviderError
from redraft.providers.shared.error_bodies import json_or_text, read_error_body
from redraft.providers.shared.event_stream import Evidence, StreamEvent, events_in
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer, redacted, selected_headers
from redraft.providers.shared.replies import object_of
from redraft.providers.shared.response_bodies import texts_of
from redraft.providers.shared.transport import TimeLeft

if TYPE_CHECKING:
    import httpx2

OnDelta = Callable[[str], None]
_EVIDENCE_SHOWN = 600
# After the finish reason, only the usage may arrive. After the end, nothing arrives, but the HTTP client can use the
# connection again only if it has read the stream to its end
_AFTER_FINISH_REASON_S = 5.0
_AFTER_END_S = 0.5


class Collector(Protocol):
    """Builds an answer from the events of one wire format."""

    @property
    def is_ended(self) -> bool:
        """Whether the event that ends the stream has arrived. Later events are ignored."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether the answer is complete. Not all servers send an event that ends the stream."""
        ...

    @property
    def finish_reason(self) -> str | None:
        """The finish reason of the answer, or None before its end. Must be fast, because each event reads it often."""
        ...

    def matches_format(self, event: dict[str, Any]) -> bool:
        """Whether an event, or a whole body, has the form of this wire format."""
        ...

    def error_in(self, event: dict[str, Any]) -> Any:
        """Return the error body in an event, or None."""
        ...

    def take(self, event: dict[str, Any]) -> str:
        """Add an event. Return its part of the answer's text."""
        ...

    def end(self) -> None:
        """Record that `[DONE]` has arrived."""
        ...

    def body(self) -> dict[str, Any]:
        """Return the body that the same answer would have without streaming."""
        ...


class DeltaEmitter:
    """Emits a text in pieces. The joined pieces are the text.

    Attributes:
        error: the exception that `on_delta` raised, or None.
    """

    def __init__(self, on_delta: OnDelta | None) -> None:
        self._on_delta = on_delta
        self._chars = 0
        self.error: Exception | None = None

    @property
    def has_emitted(self) -> bool:
        return self._chars > 0

    def emit(self, piece: str) -> None:
        self._chars += len(piece)
        if piece and self._on_delta is not None:
            try:
                self._on_delta(piece)
            except Exception as error:
                self.error = error
                raise

    def finish(self, text: str) -> None:
        """Emit the part of the whole text that was not yet emitted."""
        self.emit(text[self._chars :])


async def read_events(
    response: "httpx2.Response", reader: "StreamReader", clock: asyncio.Timeout, left: TimeLeft
) -> None:
    """Read the events of a streamed answer. An error after the finish reason does not affect the answer.

    Raises:
        ProviderError: if an event is an error.
        TimeoutError: if the next event does not arrive in time. Errors of the connection are passed on.
    """
    loop = asyncio.get_running_loop()
    timeout_at = loop.time() + left.seconds
    has_begun = False
    reader.begin(response)
    async for event in events_in(texts_of(reader.vendor, response)):
        if not has_begun:
            has_begun = True
            clock.reschedule(timeout_at)
        wait_s = reader.take(event)
        if wait_s is not None:
            timeout_at = min(timeout_at, loop.time() + wait_s)
            clock.reschedule(timeout_at)


class StreamReader:
    """Passes the events of an answer to a collector, and keeps all other data as evidence of an error."""

    def __init__(self, vendor: Vendor, collector: Collector, emitter: DeltaEmitter) -> None:
        self._evidence = Evidence()
        self.vendor = vendor
        self._status = 0
        self._headers: dict[str, str] = {}
        self._collector = collector
        self._emitter = emitter

    def begin(self, response: "httpx2.Response") -> None:
        self._status, self._headers = response.status_code, dict(response.headers)

    @property
    def has_outcome(self) -> bool:
        """Whether the whole answer or an error has been read. If so, a broken connection does not matter."""
        return self._collector.is_whole or self._evidence.is_error

    def take(self, event: StreamEvent) -> float | None:
        """Read an event. If it ends the answer, return the time limit for the rest of the stream in seconds.

        Raises:
            ProviderError: if the event is an error that ends the answer.
        """
        if self._collector.is_ended:
            return None
        was_whole = self._collector.is_whole
        self._take(event)
        if self._collector.is_ended:
            return _AFTER_END_S
        # Some servers send a finish reason before the first text, so a finish reason without text is not the end
        if self._collector.is_whole and not was_whole and self._emitter.has_emitted:
            return _AFTER_FINISH_REASON_S
        return None

    def _take(self, event: StreamEvent) -> None:
        data = event.data.strip()
        if event.name is None:
            self._evidence.add(event.data)
        elif data == "[DONE]":
            self._collector.end()
        elif data:
            self._take_value(event, json_or_text(data))

    def _take_value(self, event: StreamEvent, value: Any) -> None:
        chunk = object_of(value)
        error = {"error": value} if event.name == "error" and not chunk else self._collector.error_in(chunk)
        is_error = bool(error) or event.name == "error"
        if is_error and not self._is_final:
            raise self._failure(error or value)
        if is_error or not chunk or not self._collector.matches_format(chunk):
            if isinstance(value, str) and value.startswith("{") and not self._is_final:
                # The broken JSON may be a part of the answer. If it were skipped, the text would have a gap
                raise self._failure(value)
            self._evidence.add(event.data)
        elif piece := self._collector.take(chunk):
            self._emitter.emit(piece)

    @property
    def _is_final(self) -> bool:
        """Whether the answer has a final finish reason. If so, an error in a later event does not matter."""
        return classify_finish(self._collector.finish_reason) not in {Finish.UNKNOWN, Finish.FAILED}

    def answer(self) -> Answer:
        """Return the answer.

        Raises:
            ProviderError: if the stream has an error, or no complete answer.
        """
        body, found = self._collector.body(), self._evidence.body() if self._evidence else None
        if self._collector.finish_reason is None and found is not None:
            if self._collector.matches_format(object_of(found)):
                # The server has sent a whole body, and not a stream
                return Answer(self._status, found, self._headers)
            if self._evidence.is_error or not self._emitter.has_emitted:
                raise self._failure(found)
        if not self._collector.is_whole:
            raise self._failure(body) if read_error_body(body).is_error else self._incomplete(body, found)
        return Answer(self._status, body, self._headers)

    def _incomplete(self, body: Any, found: Any) -> ProviderError:
        message = f"The stream of {self.vendor.label} ended before the answer was whole."
        if found is not None:
            text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
            message += f" The stream also contained: {self.vendor.redact(text)[:_EVIDENCE_SHOWN]}"
            body = {"answer": body, "beside": found}
        return ProviderError(
            "provider_unavailable",
            message,
            http_status=self._status,
            response=redacted(self.vendor, body),
            headers=selected_headers(self._headers),
        )

    def _failure(self, body: Any) -> ProviderError:
        return failure_of_answer(self.vendor, Answer(self._status, body, self._headers))
