"""Reads a stream of server-sent events, and keeps the lines that do not belong to events.

Other readers drop fields that are not in the standard. Some servers report errors in such fields, or as plain lines.
"""

import re
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Any

from redraft.providers.shared.error_bodies import json_or_text, parse_json, read_error_body

_LINE_END = re.compile(r"\r\n|\n|\r")
_NAMED_JSON = re.compile(r"\s*([\w-]{1,40}):\s*(?=[{\[])")
_EVIDENCE_CHARS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event. `name` is None for a line that does not belong to an event."""

    name: str | None
    data: str


async def events_in(texts: AsyncIterable[str]) -> AsyncIterator[StreamEvent]:
    """Yield the events of a stream, and the lines that do not belong to events, in order."""
    name, data = "", list[str]()
    async for line in _lines(texts):
        field, _, value = line.removeprefix("\ufeff").partition(":")
        if not line:
            if data:
                yield StreamEvent(name or "message", "\n".join(data))
            name, data = "", []
        elif field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.strip()
        elif field not in {"", "id", "retry"}:
            yield StreamEvent(None, line)
    if data:
        yield StreamEvent(name or "message", "\n".join(data))


async def _lines(texts: AsyncIterable[str]) -> AsyncIterator[str]:
    # `str.splitlines` also splits at characters such as U+2028, which may occur in JSON
    parts = list[str]()
    ends_with_return = False
    async for text in texts:
        *whole, rest = _LINE_END.split(text[1:] if ends_with_return and text.startswith("\n") else text)
        for line in whole:
            yield "".join((*parts, line))
            parts = []
        if rest:
            parts.append(rest)
        ends_with_return = text.endswith("\r") if text else ends_with_return
    if parts:
        yield "".join(parts)


class Evidence:
    """Keeps the lines of a stream that do not belong to events, up to a limit. They may be an error message."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._room = _EVIDENCE_CHARS_MAX

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> None:
        kept = text[: self._room]
        if kept.strip():
            self._texts.append(kept)
            self._room -= len(kept)

    @property
    def is_error(self) -> bool:
        return bool(self) and read_error_body(self.body()).is_error

    def body(self) -> Any:
        """Return the lines as JSON values, or as text if they are no JSON."""
        whole = "\n".join(self._texts)
        try:
            return parse_json(whole)
        except ValueError:
            values = [_value(text) for text in self._texts]
        if all(isinstance(value, str) for value in values):
            return whole
        return values[0] if len(values) == 1 else values


def _value(text: str) -> Any:
    """Parse a line as JSON. A name before the JSON, such as `error: {…}`, becomes its key."""
    named = _NAMED_JSON.match(text)
    if named is None:
        return json_or_text(text)
    value = json_or_text(text[named.end() :])
    return text if isinstance(value, str) else {named.group(1): value}
