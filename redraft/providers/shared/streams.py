"""Read a streamed answer: tell its text as it comes, and put the body together that it stands for."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from redraft.domain.calls.finish_reasons import Finish, classify_finish
from redraft.errors import ProviderError
from redraft.providers.shared.error_bodies import parse_json, words_of
from redraft.providers.shared.event_stream import Evidence, StreamEvent
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer, redacted, selected_headers
from redraft.providers.shared.replies import mapping, read_answer
from redraft.providers.shared.transport import StreamDeadline

if TYPE_CHECKING:
    import httpx2

OnDelta = Callable[[str], None]
_EVIDENCE_SHOWN = 600


class Collector(Protocol):
    """One dialect's sum of its events."""

    @property
    def is_ended(self) -> bool:
        """Whether the stream's own end came: what follows is of no interest."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether the answer is, with or without that end."""
        ...

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ended, once it has."""
        ...

    def knows(self, event: dict[str, Any]) -> bool:
        """Whether an event, or a whole body, has the form of this dialect."""
        ...

    def error_in(self, event: dict[str, Any]) -> Any:
        """The error body that an event is, or None."""
        ...

    def take(self, event: dict[str, Any]) -> str:
        """Add an event; returns its piece of the answer's text."""
        ...

    def end(self) -> None:
        """`[DONE]` came."""
        ...

    def body(self) -> dict[str, Any]:
        """The body of an unstreamed answer."""
        ...


class DeltaEmitter:
    """Tells a text's pieces, so that their sum is the text."""

    def __init__(self, on_delta: OnDelta | None) -> None:
        self._on_delta = on_delta
        self._chars = 0

    @property
    def has_emitted(self) -> bool:
        return self._chars > 0

    def emit(self, piece: str) -> None:
        """Tell a piece."""
        self._chars += len(piece)
        if piece and self._on_delta is not None:
            self._on_delta(piece)

    def finish(self, text: str) -> None:
        """Tell what is left of the whole text."""
        self.emit(text[self._chars :])


def read_stream(
    vendor: Vendor, response: "httpx2.Response", collector: Collector, emitter: DeltaEmitter, deadline: StreamDeadline
) -> Answer:
    """The answer that the events add up to. Once its finish reason came, it is whole, whatever happens behind it.

    Raises:
        ProviderError: an error came among the events, in whatever shape, or the stream ended before the answer did.
        httpx2.HTTPError: the connection broke, or was late.
    """
    import httpx2

    if "json" in response.headers.get("content-type", "").lower():
        # A server without streaming sends a whole JSON body.
        response.read()
        return read_answer(vendor, response)
    reader = _Reader(vendor, response, collector, emitter)
    try:
        with deadline:
            for event in deadline.events():
                if collector.is_ended:
                    continue
                was_whole = collector.is_whole
                reader.take(event)
                # A finish reason before the first text is no end
                if collector.is_ended or (collector.is_whole and not was_whole and emitter.has_emitted):
                    deadline.shorten(is_ended=collector.is_ended)
    except httpx2.HTTPError:
        if not collector.is_whole and not reader.evidence.is_error:
            raise
    return reader.answer()


class _Reader:
    """Hands what belongs to the answer to its collector, and keeps the rest as evidence."""

    def __init__(
        self, vendor: Vendor, response: "httpx2.Response", collector: Collector, emitter: DeltaEmitter
    ) -> None:
        self.evidence = Evidence()
        self._vendor = vendor
        self._status = response.status_code
        self._headers = dict(response.headers)
        self._collector = collector
        self._emitter = emitter

    def take(self, event: StreamEvent) -> None:
        """Raises ProviderError for an error that ends the answer."""
        data = event.data.strip()
        if event.name is None:
            self.evidence.add(event.data)
        elif data == "[DONE]":
            self._collector.end()
        elif data:
            self._take_value(event, _json_or_text(data))

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
            self.evidence.add(event.data)
        elif piece := self._collector.take(chunk):
            self._emitter.emit(piece)

    @property
    def _is_settled(self) -> bool:
        """Whether the finish reason says all: what comes behind it adds nothing."""
        return classify_finish(self._collector.finish_reason) not in {Finish.UNKNOWN, Finish.FAILED}

    def answer(self) -> Answer:
        """Raises ProviderError when there is none, or an error in its place."""
        body, found = self._collector.body(), self.evidence.body() if self.evidence else None
        if self._collector.finish_reason is None and found is not None:
            if self._collector.knows(mapping(found)):
                # Not streamed, and nevertheless called a stream
                return Answer(self._status, found, self._headers)
            if self.evidence.is_error or not self._emitter.has_emitted:
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


def _json_or_text(data: str) -> Any:
    try:
        return parse_json(data)
    except ValueError:
        return data
