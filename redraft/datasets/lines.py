"""Decodes a file into numbered lines of text. Only one line is in memory at a time.

A line with bytes that are not UTF-8 has a `fault`. The other lines of the file remain usable.
"""

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from redraft.errors import Invalid

# A longer row is invalid, so that one row cannot fill the memory
ROW_CHARS_MAX = 10_000_000

HEAD_BYTES = 4096
BOM = "\ufeff"
_SKIPPED_CHARS = 65_536
_BYTE_OF_ESCAPE = 0xDC00
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_ADVICE = 'Save the file as UTF-8; spreadsheets call it "CSV UTF-8"'


@dataclass(frozen=True, slots=True)
class Line:
    """One line, or the lines of one row.

    Attributes:
        number: the number of the first line, from 1.
        last: the number of the last line.
        text: the text with its line end; empty if it is too long.
        length: the number of characters, with the line end.
        fault: a message that says why the line cannot be read, or None.
    """

    number: int
    last: int
    text: str
    length: int
    fault: str | None = None

    @property
    def is_blank(self) -> bool:
        return not self.text.strip() and self.fault is None


class _Rejoined(io.RawIOBase):
    """A stream that begins with bytes that were already read from it."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        size = len(buffer)
        piece = self._head[:size] if self._head else self._rest.read(size)
        self._head = self._head[size:]
        buffer[: len(piece)] = piece
        return len(piece)


def encoding_of(head: bytes) -> str:
    """Return Python's name of the encoding, by the first bytes of a file.

    Raises Invalid if it is neither UTF-8 nor UTF-16 with a byte order mark (code `unknown_encoding`).
    """
    if head.startswith(_UTF_32) or b"\x00\x00\x00" in head[:4]:
        raise Invalid(f"The file is in UTF-32. {_ADVICE}", code="unknown_encoding")
    if head.startswith(_UTF_16):
        return "utf-16"
    if b"\x00" in head[:2]:
        raise Invalid(f"The file is binary, or in UTF-16 without a byte order mark. {_ADVICE}", code="unknown_encoding")
    return "utf-8-sig"


def decoded(head: bytes, rest: BinaryIO) -> io.TextIOWrapper:
    """Return the text of a file with its line ends. `head` has the bytes that were already read.

    Raises Invalid like `encoding_of`.
    """
    encoding = encoding_of(head)
    mark = head[:2] if encoding == "utf-16" else codecs.BOM_UTF8
    # Some programs add a byte order mark at each save
    while head.startswith(mark * 2):
        head = head[len(mark) :]
    stream = io.BufferedReader(_Rejoined(head, rest))
    # Invalid bytes become surrogates, which `fault_in` finds in their line
    keep = "surrogatepass" if encoding == "utf-16" else "surrogateescape"
    return io.TextIOWrapper(stream, encoding=encoding, errors=keep, newline="")


def lines_of(text: io.TextIOWrapper, longest: int = ROW_CHARS_MAX) -> Iterator[Line]:
    """Yield all lines, including blank lines. A line that is too long has no text. Raises Invalid like `read_text`."""
    number = 0
    end = ""
    while line := read_text(text, longest + 1, after_line=number):
        # A limited read can split CR LF. This LF belongs to the previous line
        if line == "\n" and end == "\r":
            end = line
            continue
        number += 1
        end = line[-1]
        if len(line) <= longest:
            yield Line(number, number, line, len(line), fault_in(line))
        else:
            length, end = _skip_line(text, number, line)
            yield Line(number, number, "", length, too_long(length, longest))


def read_text(text: io.TextIOWrapper, size: int, *, after_line: int, is_line: bool = True) -> str:
    """Read at most `size` characters. If `is_line`, read at most to the end of the line.

    Raises Invalid if the file ends in the middle of a UTF-16 character (code `unknown_encoding`).
    """
    try:
        return text.readline(size) if is_line else text.read(size)
    except UnicodeError as error:
        words = f"After line {after_line} the file is not UTF-16: {error.__class__.__name__}. {_ADVICE}."
        raise Invalid(words, code="unknown_encoding") from None


def too_long(length: int, longest: int) -> str:
    return f"has {length:,} characters; a row may have {longest:,}"


def fault_in(text: str) -> str | None:
    """Return why a text is invalid (bytes that are not UTF-8, or a lone surrogate), or None if it is valid."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        at = len(text[: error.start].encode()) + 1
        byte = ord(text[error.start]) - _BYTE_OF_ESCAPE
        if 0x80 <= byte <= 0xFF:
            return f"is not UTF-8: its byte {at} is 0x{byte:02X}. {_ADVICE}"
        return f"holds half a surrogate pair at character {error.start + 1}; it is no text"
    return None


def _skip_line(text: io.TextIOWrapper, number: int, piece: str) -> tuple[int, str]:
    """Skip the rest of a line whose first piece was read. Return the length and the last character of the line.

    A piece may end between CR and LF. The caller needs the last character, so that it does not count this LF as a line.
    """
    length = 0
    while piece:
        length += len(piece)
        if piece.endswith(("\n", "\r")):
            return length, piece[-1]
        piece = read_text(text, _SKIPPED_CHARS, after_line=number)
    return length, ""
