"""What an answer ends with: its lists of sources, and the definitions of its footnotes.

Anywhere else the same lines are prose, and so are they if one of them says more than which source it stands for:
else a heading "Notes" would hide whatever is stated beneath it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

from redraft.domain.grounding.reference_lists import (
    REST_CHARS_MAX,
    SUPERSCRIPTS,
    Entry,
    Known,
    heads_a_list,
    heads_notes,
    is_title,
    names_source,
    read_entry,
)
from redraft.domain.text.lines import Line

_UNDERLINE = re.compile(r"(?:[=-]{2,}|=)?")
_FENCE = re.compile("`{3}|~{3}")
DEFINITION = re.compile(rf"(?:\[\^(?P<name>[^\]\s]{{1,60}})\]:|(?P<raised>[{SUPERSCRIPTS}]+)(?=[ \t:.]*\S))[ \t:.]*")
_USED = re.compile(rf"\[\^([^\]\s]{{1,60}})\](?!:)|([{SUPERSCRIPTS}]+)")
# Of a line such as "I hope this helps.", which may follow.
_FAREWELL_LINES, _FAREWELL_CHARS = 2, 200
_LINES_BEHIND = 10
# No request has so many sources.
_ENTRIES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Ending:
    """Lines that only say which sources there are.

    Attributes:
        first: the first line beneath the heading; the first of all where there is none.
        end: the line behind them.
        entries: those that stand for a source.
    """

    first: int
    end: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class _Run:
    """Entries one beneath the other, each with the text that it goes on with."""

    head: int
    first: int
    end: int
    entries: tuple[tuple[Entry, str], ...]


def find_endings(text: str, lines: Sequence[Line], known: Known | None) -> dict[int, Ending]:
    """The endings, by the line that they begin with."""
    return _Endings(text, lines, known).find()


class _Endings:
    """Goes through an answer from its end; `limit` is the line from which on everything is known to be over."""

    def __init__(self, text: str, lines: Sequence[Line], known: Known | None) -> None:
        self.text = text
        self.lines = lines
        self.known = known
        self.limit = len(lines)
        self.found: dict[int, Ending] = {}

    def find(self) -> dict[int, Ending]:
        self._take_definitions()
        for run in reversed(list(_runs(self.text, self.lines))):
            if not self._is_over(run.end) or not self._names_sources(run):
                break
            self.found[run.head] = Ending(run.first, run.end, tuple(entry for entry, _ in run.entries))
            self.limit = run.head
            self._take_definitions()
        return self.found

    def _is_over(self, at: int) -> bool:
        """Whether the answer says no more than farewell from a line on."""
        said = 0
        for line in self.lines[at : self.limit]:
            said += any(map(str.isalnum, line.text))
            is_long = len(line.text) > _FAREWELL_CHARS or any(map(str.isdecimal, line.text))
            if said > _FAREWELL_LINES or is_long or _FENCE.match(line.text):
                return False
        return True

    def _names_sources(self, run: _Run) -> bool:
        must_name = heads_notes(self.lines[run.head].text)
        return all(names_source(entry, rest, self.known, must_name=must_name) for entry, rest in run.entries)

    def _take_definitions(self) -> None:
        """Takes the definitions of footnotes that the answer ends with before `limit`."""
        end = self.limit
        while end > 0 and end > self.limit - _LINES_BEHIND and not DEFINITION.match(self.lines[end - 1].text):
            end -= 1
        first = end
        while first > 0 and _is_defining(self.lines[first - 1]):
            first -= 1
        while first < end and not DEFINITION.match(self.lines[first].text):
            first += 1
        if first < end and self._is_over(end):
            entries = self._defined(self.lines[first:end])
            if entries is not None:
                self.found[first] = Ending(first, end, tuple(entries))
                self.limit = first

    def _defined(self, lines: Sequence[Line]) -> list[Entry] | None:
        """The sources that definitions name by number; None if these are no definitions."""
        entries: list[Entry] = []
        starts = [at for at, line in enumerate(lines) if DEFINITION.match(line.text)]
        for at, end in pairwise([*starts, len(lines)]):
            entry = self._definition(lines[at:end], lines[0].begin)
            if entry is False:
                return None
            if entry and entry.is_named:
                entries.append(entry)
        return entries

    def _definition(self, lines: Sequence[Line], begin: int) -> Entry | Literal[False] | None:
        """What a definition stands for, None if that has no number; False if it is none that is used before `begin`."""
        line = lines[0]
        found = DEFINITION.match(line.text)
        if found is None or self._used.get(found["name"] or found["raised"], begin) >= begin:
            return False
        entry = read_entry(line.text, line.start)
        first = self.text[entry.end if entry else line.start + found.end() : line.end]
        rest = " ".join((first, *(each.text for each in lines[1:])))
        fits = names_source(entry, rest, self.known) if entry else is_title(rest)
        return entry if fits else False

    @cached_property
    def _used(self) -> dict[str, int]:
        """The labels of footnotes in the text, each with the first place where it stands."""
        used: dict[str, int] = {}
        for found in _USED.finditer(self.text):
            used.setdefault(found[1] or found[2], found.start())
        return used


def _is_defining(line: Line) -> bool:
    return not line.text or line.indent >= 2 or DEFINITION.match(line.text) is not None


def _runs(text: str, lines: Sequence[Line]) -> Iterator[_Run]:
    at = 0
    while at < len(lines):
        head = at
        at += 1
        if not heads_a_list(lines[head].text):
            continue
        while at < len(lines) and _UNDERLINE.fullmatch(lines[at].text):
            at += 1
        first = at
        at, entries = _read_run(text, lines, first)
        if 0 < len(entries) <= _ENTRIES_MAX:
            yield _Run(head, first, at, entries)


def _read_run(text: str, lines: Sequence[Line], at: int) -> tuple[int, tuple[tuple[Entry, str], ...]]:
    entries: list[tuple[Entry, str]] = []
    end = at
    while at < len(lines) and len(entries) <= _ENTRIES_MAX:
        line = lines[at]
        at += 1
        entry = read_entry(text[line.begin : line.end], line.begin)
        if entry is not None:
            entries.append((entry, text[entry.end : line.end]))
        elif line.text and entries and line.indent >= 2:
            before, rest = entries[-1]
            entries[-1] = before, f"{rest} {line.text}"[:REST_CHARS_MAX]
        elif line.text:
            break
        if line.text:
            end = at
    return end, tuple(entries)
