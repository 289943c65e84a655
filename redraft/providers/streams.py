"""Read a streamed answer: tell its text as it comes, and put the body together that it stands for."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from redraft.errors import ProviderError
from redraft.providers.failures import (
    Answer,
    Vendor,
    failure_of_answer,
    parse_json,
    redacted,
    selected_headers,
    unreadable,
)
from redraft.providers.replies import mapping, read_answer
from redraft.providers.wires import Watchdog

if TYPE_CHECKING:
    import httpx2

OnDelta = Callable[[str], None]

_THOUGHT_BEGINS = re.compile(r"\s*<think(?:ing)?>")
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>\s*")
_THOUGHT_TAGS = ("<think>", "<thinking>")
_END_CHARS = len("</thinking>")


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


class Teller:
    """Tells a text's pieces, so that their sum is the text: thinking aloud is held back."""

    def __init__(self, on_delta: OnDelta | None, *, may_think_aloud: bool = False) -> None:
        self._on_delta = on_delta
        self._is_held = may_think_aloud
        self._held = ""
        self._searched = 0
        self._chars = 0

    @property
    def has_told(self) -> bool:
        return self._chars > 0

    def tell(self, piece: str) -> None:
        """Tell what of a piece is known to be answer."""
        if self._is_held:
            piece = self._released(piece)
        self._chars += len(piece)
        if piece and self._on_delta is not None:
            self._on_delta(piece)

    def finish(self, text: str) -> None:
        """Tell what is left of the whole text."""
        self._is_held = False
        self.tell(text[self._chars :])

    def _released(self, piece: str) -> str:
        self._held += piece
        begins = _THOUGHT_BEGINS.match(self._held)
        if begins is None:
            start = self._held.lstrip()
            self._is_held = any(tag.startswith(start) for tag in _THOUGHT_TAGS)
            return "" if self._is_held else self._held
        ends = _THOUGHT_ENDS.search(self._held, max(begins.end(), self._searched))
        if ends is not None and ends.end() < len(self._held):
            self._is_held = False
            return self._held[ends.end() :]
        # The end may come in two pieces, and the blanks behind it in many.
        self._searched = ends.start() if ends else len(self._held) - _END_CHARS
        return ""


def read_stream(
    vendor: Vendor, response: "httpx2.Response", collector: Collector, teller: Teller, watchdog: Watchdog
) -> Answer:
    """The answer that the events add up to.

    Raises:
        ProviderError: an error came among the events, or the stream ended before the answer did.
        httpx2.HTTPError: the connection broke, or was late.
    """
    import httpx2

    if not _is_stream(response):
        # A server that knows no streams answers as ever.
        response.read()
        return read_answer(vendor, response)
    try:
        with watchdog:
            for event in watchdog.events():
                if collector.is_ended:
                    continue
                _take(vendor, response, event, collector, teller)
                if collector.is_ended:
                    watchdog.hurry()
    except httpx2.HTTPError:
        if not collector.is_ended:
            raise
    answer = Answer(response.status_code, collector.body(), dict(response.headers))
    if not collector.is_whole:
        raise ProviderError(
            "provider_unavailable",
            f"The stream of {vendor.label} ended before the answer was whole.",
            http_status=answer.status,
            response=redacted(vendor, answer.body),
            headers=selected_headers(answer.headers),
        )
    return answer


def _is_stream(response: "httpx2.Response") -> bool:
    return response.headers.get("content-type", "").lower().startswith("text/event-stream")


def _take(
    vendor: Vendor,
    response: "httpx2.Response",
    event: "httpx2.ServerSentEvent",
    collector: Collector,
    teller: Teller,
) -> None:
    headers = dict(response.headers)
    if not event.data.strip():
        return
    if event.data.strip() == "[DONE]":
        collector.end()
        return
    try:
        data = parse_json(event.data)
    except ValueError:
        data = None
    if event.event == "error":
        raise failure_of_answer(vendor, Answer(response.status_code, data or event.data, headers))
    if not isinstance(data, dict):
        raise unreadable(vendor, response.status_code, event.data, headers)
    chunk = mapping(data)
    if error := collector.error_in(chunk):
        raise failure_of_answer(vendor, Answer(response.status_code, error, headers))
    if piece := collector.take(chunk):
        teller.tell(piece)
