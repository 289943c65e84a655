"""Parses JSON lines, and splits one large JSON array into its elements, one at a time."""

import io
import json
import re
from collections.abc import Iterator
from typing import Any, cast

from redraft.datasets.lines import BOM, ROW_CHARS_MAX, Line, fault_in, read_text, too_long
from redraft.domain.bodies import strict_json
from redraft.errors import Invalid

_CHUNK_CHARS = 65_536
_MARK = re.compile(r'["\[\]{},]')
_MARK_IN_STRING = re.compile(r'"|\\.?', re.DOTALL)
_ECHOED_CHARS = 60


def parse_row(line: Line) -> dict[str, Any]:
    """Parse a row as a JSON object. Raises ValueError; its message continues a sentence that begins with `The row`."""
    if line.fault:
        raise ValueError(line.fault)
    value = parse_json(line.text.lstrip(BOM))
    if not isinstance(value, dict):
        hint = "; if the file is one JSON array, name its format: json" if line.text.strip() == "[" else ""
        raise ValueError(f"is no JSON object with the row's columns{hint}")  # noqa: TRY004 - callers expect ValueError
    return cast("dict[str, Any]", value)


def parse_json(text: str) -> Any:
    """Parse a JSON text. Raises ValueError if it is no JSON, repeats a name, or has a number that is not finite."""
    try:
        return strict_json.parse(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error.msg} at character {error.pos + 1}") from None


def elements_of(text: io.TextIOWrapper, longest: int = ROW_CHARS_MAX) -> Iterator[Line]:
    """Yield the text of each element of a JSON array, with its line numbers.

    Only brackets and strings are parsed, so that an invalid element does not affect the elements after it. The last
    yielded line has a fault if text follows the array, or if the file ends before the array does. Raises Invalid if the
    file does not begin with an array (code `unknown_format`), or ends in the middle of a character.
    """
    return _Cutter(text, longest).elements()


class _Cutter:
    """Splits an array in one pass. Only one element is in memory at a time."""

    def __init__(self, text: io.TextIOWrapper, longest: int) -> None:
        self._text = text
        self._longest = longest
        self._line = 1
        self._depth = 0
        self._in_string = False
        self._is_escaped = False
        self._is_closed = False
        self._is_first = True
        self._begin()

    def _begin(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._start: int | None = None

    def elements(self) -> Iterator[Line]:
        chunk = self._opened()
        while chunk:
            at = 0
            while at < len(chunk):
                end = self._find_cut(chunk, at)
                self._keep(chunk[at:end])
                if end < len(chunk):
                    yield from self._cut()
                at = end + 1
            chunk = self._read()
        yield from self._rest()

    def _read(self) -> str:
        return read_text(self._text, _CHUNK_CHARS, after_line=self._line, is_line=False)

    def _opened(self) -> str:
        """Read to the opening bracket, and return the first characters after it."""
        while chunk := self._read():
            text = chunk.lstrip()
            self._line += chunk.count("\n", 0, len(chunk) - len(text))
            if text:
                break
        else:
            self._is_closed = True
            return ""
        if text[0] != "[":
            raise Invalid("The file is no JSON array of rows: it does not begin with '['.", code="unknown_format")
        self._depth = 1
        return text[1:] or self._read()

    def _find_cut(self, chunk: str, at: int) -> int:
        """Return the position where the element ends, or the length of the chunk if the element continues after it."""
        # A backslash at the end of the previous chunk escapes the first character of this chunk
        at += self._is_escaped
        self._is_escaped = False
        while not self._is_closed and (found := self._marks().search(chunk, at)):
            at, mark = found.end(), found[0]
            if mark == '"':
                self._in_string = not self._in_string
            elif mark in {"[", "{"}:
                self._depth += 1
            elif mark in {"]", "}"}:
                self._depth -= 1
                self._is_closed = self._depth == 0
            self._is_escaped = mark == "\\"
            if self._is_closed or (mark == "," and self._depth == 1):
                return found.start()
        return len(chunk)

    def _marks(self) -> re.Pattern[str]:
        return _MARK_IN_STRING if self._in_string else _MARK

    def _keep(self, piece: str) -> None:
        if self._start is None:
            text = piece.lstrip()
            self._line += piece.count("\n", 0, len(piece) - len(text))
            if not text:
                return
            self._start, piece = self._line, text
        self._line += piece.count("\n")
        self._length += len(piece)
        if self._length <= self._longest:
            self._parts.append(piece)
        else:
            # The row is invalid, so its text is dropped to free memory
            self._parts.clear()

    def _cut(self) -> Iterator[Line]:
        # An empty array has no element
        if not (self._is_closed and self._is_first and self._start is None):
            yield self._element()
        self._is_first = False
        self._begin()

    def _element(self) -> Line:
        if self._start is None:
            return self._faulty("is missing: there is a comma too many")
        if self._length > self._longest:
            return self._faulty(too_long(self._length, self._longest))
        text = "".join(self._parts).rstrip()
        return Line(self._start, self._start + text.count("\n"), text, self._length, fault_in(text))

    def _faulty(self, fault: str) -> Line:
        return Line(self._start or self._line, self._line, "".join(self._parts), self._length, fault)

    def _rest(self) -> Iterator[Line]:
        if not self._is_closed:
            yield self._faulty("breaks off: the array is not closed")
        elif self._start is not None:
            yield self._faulty("comes after the end of the array")
