"""Marks by which an answer cites its sources: `[Source 2]`, `[Sources 1-3, 5]`, `[2]`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SOURCE = r"(?:sources?[ \t]+)?"
_NUMBERS = r"\d{1,6}(?:[ \t]*[-\u2013][ \t]*\d{1,6})?"
_MARK = re.compile(
    rf"\[[ \t]*{_SOURCE}{_NUMBERS}(?:[ \t]*(?:,|;|&|and)[ \t]*{_SOURCE}{_NUMBERS})*[ \t]*\]",
    re.IGNORECASE | re.ASCII,
)
_SPAN = re.compile(r"(\d+)(?:[ \t]*[-\u2013][ \t]*(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark in a text.

    Attributes:
        start: where it begins, in characters.
        end: where it is over.
        spans: the first and the last number of each part: `[1, 3-5]` has (1, 1) and (3, 5).
    """

    start: int
    end: int
    spans: tuple[tuple[int, int], ...]


def find_marks(text: str) -> Iterator[Mark]:
    for found in _MARK.finditer(text):
        spans = tuple((int(span[1]), int(span[2] or span[1])) for span in _SPAN.finditer(found[0]))
        yield Mark(found.start(), found.end(), spans)


def cited_numbers(text: str, sources: int) -> set[int]:
    """Which of the sources 1 to `sources` a text cites."""
    spans = {span for mark in find_marks(text) for span in mark.spans}
    return {number for first, last in spans for number in range(max(first, 1), min(last, sources) + 1)}


def without_marks(text: str, sources: int) -> str:
    """The text without the marks of existing sources."""
    kept: list[str] = []
    at = 0
    for mark in find_marks(text):
        if all(1 <= first <= last <= sources for first, last in mark.spans):
            kept.append(text[at : mark.start])
            at = mark.end
    return "".join((*kept, text[at:]))
