"""Split an answer into lines, and separate the content of each line from indentation, list signs and quote signs."""

import re
from dataclasses import dataclass

_PREFIX = re.compile(
    r"(?P<indent>[ \t]*)(?P<quote>(?:>[ \t]*)*)"
    r"(?P<item>(?:(?:[-*+•◦▪‣·\u2013]|\d{1,3}[.)])[ \t]+(?=\S))*)(?:\[[ xX]\][ \t]+)?"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text."""

    begin: int  # The beginning of the line, in characters of the text
    start: int  # The beginning of its content
    end: int  # The end of its content
    text: str  # The content
    indent: int  # The width of the white space before it
    starts_block: bool  # It begins a list item
    is_quote: bool  # It stands in a block quote


def read_lines(text: str) -> list[Line]:
    lines: list[Line] = []
    at = 0
    for raw in text.splitlines(keepends=True):
        bare = raw.rstrip()
        found = _PREFIX.match(bare)
        first = found.end() if found else 0
        indent = len(found["indent"].expandtabs(4)) if found else 0
        item, quote = (bool(found["item"]), bool(found["quote"])) if found else (False, False)
        lines.append(Line(at, at + first, at + len(bare), bare[first:], indent, item, quote))
        at += len(raw)
    return lines
