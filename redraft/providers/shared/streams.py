"""Reads a streamed answer: emits its text as it arrives, and builds the body of the same answer without streaming."""

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from redraft.domain.calls.finish_reasons import Finish, classify_finish
from redraft.errors import ProviderError
from redraft.providers.shared.error_bodies import json_or_text, words_of
from redraft.providers.shared.event_stream import Evidence, StreamEvent, events_in
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer, redacted, selected_headers
from redraft.providers.shared.replies import mapping
from redraft.providers.shared.transport import TimeLeft

if TYPE_CHECKING:
    import httpx2

OnDelta = Callable[[str], None]
_EVIDENCE_SHOWN = 600
# After the finish reason only the usage may come; after the end nothing, but a connection that is read to its end can
# be used again
_AFTER_THE_REASON_S = 5.0
_AFTER_THE_END_S = 0.5


class Collector(Protocol):
    """Adds up the events of one wire format."""

    @property
    def is_ended(self) -> bool:
        """Whether the event that ends the stream arrived; later events are ignored."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether the answer is whole, with or without the event that ends the stream."""
        ...

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ended; None before its end."""
        ...

    def knows(self, event: dict[str, Any]) -> bool:
        """Whether an event, or a whole body, has the form of this wire format."""
        ...

    def error_in(self, event: dict[str, Any]) -> Any:
        """The error body in an event, or None."""
        ...

    def take(self, event: dict[str, Any]) -> str:
        """Add an event, and return its piece of the answer's text."""
        ...

    def end(self) -> None:
        """Note that `[DONE]` arrived."""
        ...

    def body(self) -> dict[str, Any]:
        """The body that the same answer has without streaming."""
        ...


class DeltaEmitter:
    """Emits the pieces of a text; joined, they are the text."""

    def __init__(self, on_delta: OnDelta | None) -> None:
        self._on_delta = on_delta
        self._chars = 0

    @property
    def has_emitted(self) -> bool:
        return self._chars > 0

    def emit(self, piece: str) -> None:
        self._chars += len(piece)
        if piece and self._on_delta is not None:
            self._on_delta(piece)

    def finish(self, text: str) -> None:
        """Emit the missing part of the whole text."""
        self.emit(text[self._chars :])


async def read_events(
    response: "httpx2.Response", reader: "StreamReader", clock: asyncio.Timeout, left: TimeLeft
) -> None:
    """Read the events of a streamed answer. A later error does not affect an answer that has its finish reason.

    Raises:
        ProviderError: one of the events is an error, in any form.
        TimeoutError: the stream was late; other errors of the connection come through.
    """
    loop = asyncio.get_running_loop()
    timeout_at = loop.time() + left.seconds
    has_begun = False
    reader.begin(response)
    async for event in events_in(response.aiter_text()):
        if not has_begun:
            has_begun = True
            clock.reschedule(timeout_at)
        wait_s = reader.take(event)
        if wait_s is not None:
            timeout_at = min(timeout_at, loop.time() + wait_s)
            clock.reschedule(timeout_at)


class StreamReader:
    """Passes the events of an answer to its collector, and keeps everything else as evidence of an error."""

    def __init__(self, vendor: Vendor, collector: Collector, emitter: DeltaEmitter) -> None:
        self._evidence = Evidence()
        self._vendor = vendor
        self._status = 0
        self._headers: dict[str, str] = {}
        self._collector = collector
        self._emitter = emitter

    def begin(self, response: "httpx2.Response") -> None:
        self._status, self._headers = response.status_code, dict(response.headers)

    @property
    def is_enough(self) -> bool:
        """Whether the answer, or the error, is known even if the connection breaks now."""
        return self._collector.is_whole or self._evidence.is_error

    def take(self, event: StreamEvent) -> float | None:
        """Read an event; returns how many seconds the rest of the stream gets, if the event ended the answer.

        Raises:
            ProviderError: the event is an error that ends the answer.
        """
        if self._collector.is_ended:
            return None
        was_whole = self._collector.is_whole
        self._take(event)
        if self._collector.is_ended:
            return _AFTER_THE_END_S
        # A finish reason before the first text is no end
        if self._collector.is_whole and not was_whole and self._emitter.has_emitted:
            return _AFTER_THE_REASON_S
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
        chunk = mapping(value)
        error = {"error": value} if event.name == "error" and not chunk else self._collector.error_in(chunk)
        is_error = bool(error) or event.name == "error"
        if is_error and not self._is_settled:
            raise self._failure(error or value)
        if is_error or not chunk or not self._collector.knows(chunk):
            if isinstance(value, str) and value.startswith("{") and not self._is_settled:
                # It may be a piece of the answer: without it the text would have a gap
                raise self._failure(value)
            self._evidence.add(event.data)
        elif piece := self._collector.take(chunk):
            self._emitter.emit(piece)

    @property
    def _is_settled(self) -> bool:
        """Whether the finish reason is final: later events change nothing."""
        return classify_finish(self._collector.finish_reason) not in {Finish.UNKNOWN, Finish.FAILED}

    def answer(self) -> Answer:
        """Return the answer.

        Raises:
            ProviderError: the stream held no whole answer, or an error.
        """
        body, found = self._collector.body(), self._evidence.body() if self._evidence else None
        if self._collector.finish_reason is None and found is not None:
            if self._collector.knows(mapping(found)):
                # Not streamed, and nevertheless called a stream
                return Answer(self._status, found, self._headers)
            if self._evidence.is_error or not self._emitter.has_emitted:
                raise self._failure(found)
        if not self._collector.is_whole:
            raise self._failure(body) if words_of(body).is_error else self._broken_off(body, found)
        return Answer(self._status, body, self._headers)

    def _broken_off(self, body: Any, found: Any) -> ProviderError:
        message = f"The stream of {self._vendor.label} ended before the answer was whole."
        if found is not None:
            said = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
            message += f" Beside it stood: {self._vendor.redact(said)[:_EVIDENCE_SHOWN]}"
            body = {"answer": body, "beside": found}
        return ProviderError(
            "provider_unavailable",
            message,
            http_status=self._status,
            response=redacted(self._vendor, body),
            headers=selected_headers(self._headers),
        )

    def _failure(self, body: Any) -> ProviderError:
        return failure_of_answer(self._vendor, Answer(self._status, body, self._headers))
