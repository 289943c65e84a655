"""Read the citations of an answer: each marker with its source, position and sentence, and the issues of markers.

A marker that points to no source is an issue, because dropping it silently would hide an invented source.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Literal

from redraft.domain.grounding.blocks import Layout, read_layout
from redraft.domain.grounding.citation_markers import Marker, Style, find_markers, markers_of, texts_between
from redraft.domain.grounding.reference_lists import RAISED_DIGITS, Known, Titled
from redraft.domain.grounding.sentences import Sentence, sentences_of
from redraft.domain.text.cleaning import fold

_QUOTE_SIGN = re.compile(r"\n[ \t]*>[> \t]*")
_START, _START_POS = attrgetter("start"), attrgetter("start_pos")
_NO_SPACE_BEFORE = ".,;:!?)]\u3002\uff0c\u3001\uff01\uff1f\u061f\u06d4"

# A marker such as `[1-200]` is 200 citations, so an answer full of them could fill the memory.
CITATIONS_MAX = 5000
# Each of many markers in one long sentence has the sentence as its quoted text
_QUOTED_CHARS_MAX = 1000
ISSUES_MAX = 1000

IssueCode = Literal["out_of_range", "zero", "reversed_range", "unread_mark", "too_many"]


@dataclass(frozen=True, slots=True)
class Citation:
    """One source cited at one position. A marker with several numbers makes several citations."""

    source_index: int  # From 0
    source_number: int  # From 1, as in the marker
    chunk_id: str | None
    document_id: str | None
    quoted_text: str  # The sentence of the marker, without markers, shortened; empty for an entry of a reference list
    start_pos: int  # The beginning of the marker in characters of the answer, like `end_pos`
    end_pos: int


@dataclass(frozen=True, slots=True)
class Issue:
    """A problem with a citation marker. `number` is the invalid number in the marker."""

    code: IssueCode
    message: str
    number: int
    start_pos: int
    end_pos: int


@dataclass(frozen=True, slots=True)
class Cited:
    """An answer with its sentences and their citations."""

    layout: Layout
    markers: tuple[Marker, ...]  # The markers in the text, without the entries of reference lists
    sentences: tuple[Sentence, ...]
    numbers: tuple[tuple[int, ...], ...]  # For each sentence, the existing sources that it cites, in order
    listed: tuple[int, ...]  # The existing sources in the reference lists
    citations: tuple[Citation, ...]
    issues: tuple[Issue, ...]

    @property
    def sources_used(self) -> tuple[int, ...]:
        """The indices of the cited sources, from 0."""
        return tuple(sorted({citation.source_index for citation in self.citations}))


def read_citations(answer: str, sources: Sequence[Titled], style: Style = "inline") -> Cited:
    """Read the citations of an answer. Never raises."""
    layout = read_layout(answer, Known(sources))
    labels = {entry.label: entry.number for entry in layout.entries}
    is_named = any(entry.is_named and 1 <= entry.number <= len(sources) for entry in layout.entries)
    markers = [_by_labels(marker, labels) for marker in markers_of(layout, style, len(sources))]
    markers = _without_values(markers, len(sources), is_named=is_named)
    sentences = sentences_of(layout, markers)
    starts = [sentence.start for sentence in sentences]
    reading = _Reading(answer, sources, style)
    numbers: list[tuple[int, ...]] = [()] * len(sentences)

    def sentence_at(marker: Marker) -> int | None:
        at = bisect_right(starts, marker.start) - 1
        return at if at >= 0 and marker.start < sentences[at].end else None

    for at, group in groupby(markers, key=sentence_at):
        its_markers = list(group)
        quoted = "" if at is None else plain_sentence(answer, sentences[at], its_markers)
        if len(quoted) > _QUOTED_CHARS_MAX:
            quoted = quoted[: _QUOTED_CHARS_MAX - 1] + "…"
        cited = dict.fromkeys(number for marker in its_markers for number in reading.add(marker, quoted))
        if at is not None:
            numbers[at] = tuple(cited)
    listed = reading.add_list(layout)
    return Cited(
        layout,
        tuple(markers),
        tuple(sentences),
        tuple(numbers),
        listed,
        citations=tuple(sorted(reading.citations, key=_START_POS)),
        issues=tuple(sorted(reading.issues, key=_START_POS)),
    )


def _by_labels(marker: Marker, labels: dict[int, int]) -> Marker:
    """Translate the numbers of a marker if a reference list renumbers the sources: `1. Source 3: …`."""
    if marker.is_named or all(labels.get(first, first) == first for first, _ in marker.spans):
        return marker
    spans = tuple((labels.get(first, first), labels.get(last, last)) for first, last in marker.spans)
    return replace(marker, spans=spans)


def _without_values(markers: list[Marker], sources: int, *, is_named: bool) -> list[Marker]:
    """Leave out plain brackets that are values, such as a roll of dice `[6]`.

    Plain brackets are values if none of them contains only numbers of existing sources, and if markers of another
    spelling or a reference list cite the sources.
    """
    fitting = [marker for marker in markers if _exists(marker, sources)]
    if any(marker.is_plain for marker in fitting) or not (fitting or is_named):
        return markers
    return [marker for marker in markers if not marker.is_plain]


class _Reading:
    def __init__(self, answer: str, sources: Sequence[Titled], style: Style) -> None:
        self.answer = answer
        self.sources = sources
        self.style: Style = style
        self.citations: list[Citation] = []
        self.issues: list[Issue] = []
        self.is_full = False

    def add(self, marker: Marker, quoted: str) -> list[int]:
        """Add the citations and issues of a marker, and return the existing sources that it cites."""
        cited = list(dict.fromkeys(number for span in marker.spans for number in self._numbers(marker, *span)))
        if marker.unread:
            wanted = format_marker(marker.unread, self.style)
            words = f"is not understood as a citation: write {wanted} if it is one, else leave out the brackets"
            self._report("unread_mark", marker, marker.unread[0], words)
        room = max(0, CITATIONS_MAX - len(self.citations))
        if len(cited) > room and not self.is_full:
            self.is_full = True
            words = f"The answer cites more than {CITATIONS_MAX:,} times; from here on citations are not listed."
            self.issues.append(Issue("too_many", words, cited[room], marker.start, marker.end))
        self.citations.extend(self._citation(number, quoted, marker.start, marker.end) for number in cited[:room])
        return cited

    def add_list(self, layout: Layout) -> tuple[int, ...]:
        """Return the existing sources in the reference lists. Those that no marker cites become citations."""
        marked = {citation.source_number for citation in self.citations}
        listed: dict[int, None] = {}
        for entry in layout.entries:
            marker = Marker(entry.start, entry.end, ((entry.number, entry.number),))
            for number in self._numbers(marker, entry.number, entry.number):
                if number not in listed and number not in marked:
                    self.citations.append(self._citation(number, "", entry.start, entry.end))
                listed[number] = None
        return tuple(listed)

    def _numbers(self, marker: Marker, first: int, last: int) -> Sequence[int]:
        count = len(self.sources)
        if first > last:
            self._report("reversed_range", marker, first, f"counts backwards, from {first} to {last}")
        for number in dict.fromkeys((first, last)):
            if number == 0:
                self._report("zero", marker, 0, "cites source 0; sources are numbered from 1")
            elif number > count:
                known = {0: "there are no sources", 1: "the only source is 1"}.get(
                    count, f"the sources are 1 to {count}"
                )
                self._report("out_of_range", marker, number, f"cites source {number}, but {known}")
        return _existing(first, last, count)

    def _report(self, code: IssueCode, marker: Marker, number: int, words: str) -> None:
        if len(self.issues) < ISSUES_MAX:
            message = f"{self.answer[marker.start : marker.end]} {words}."
            self.issues.append(Issue(code, message, number, marker.start, marker.end))
        elif self.issues[-1].code != "too_many":
            words = f"More than {ISSUES_MAX:,} markers are wrong; from here on they are not listed."
            self.issues.append(Issue("too_many", words, number, marker.start, marker.end))

    def _citation(self, number: int, quoted: str, start: int, end: int) -> Citation:
        source = self.sources[number - 1]
        return Citation(number - 1, number, source.chunk_id, source.document_id, quoted, start, end)


def format_marker(numbers: Iterable[int], style: Style) -> str:
    """Write a marker in the spelling that the prompt asks for."""
    if style == "footnote":
        return ",".join(str(number).translate(RAISED_DIGITS) for number in numbers)
    return f"[Source {', '.join(map(str, numbers))}]"


def plain_sentence(answer: str, sentence: Sentence, markers: Sequence[Marker]) -> str:
    """Return a sentence on one line, without its markers and without the space that a marker leaves before a stop."""
    parts = texts_between(answer, sentence.start, sentence.end, markers_in(markers, sentence))
    for at, part in enumerate(parts[1:], 1):
        if part.lstrip()[:1] in {"", *_NO_SPACE_BEFORE}:
            parts[at - 1 : at + 1] = parts[at - 1].rstrip(), part.lstrip()
    return fold(_QUOTE_SIGN.sub(" ", "".join(parts)))


def markers_in(markers: Sequence[Marker], sentence: Sentence) -> Sequence[Marker]:
    first = bisect_left(markers, sentence.start, key=_START)
    return markers[first : bisect_left(markers, sentence.end, lo=first, key=_START)]


def cited_numbers(text: str, sources: int) -> set[int]:
    """Return the numbers of the existing sources that a text cites."""
    spans = {span for marker in find_markers(text) for span in marker.spans}
    return {number for first, last in spans for number in _existing(first, last, sources)}


def _existing(first: int, last: int, sources: int) -> Sequence[int]:
    """Return the existing sources of a range. Of an invalid range only the ends count: `[1-99999]` cites only 1."""
    if 1 <= first <= last <= sources:
        return range(first, last + 1)
    return [number for number in dict.fromkeys((first, last)) if 1 <= number <= sources]


def _exists(marker: Marker, sources: int) -> bool:
    return marker.spans != () and all(1 <= first <= last <= sources for first, last in marker.spans)


def without_markers(text: str, sources: int) -> str:
    """Return the text without the markers of existing sources."""
    markers = [marker for marker in find_markers(text) if _exists(marker, sources)]
    return "".join(texts_between(text, 0, len(text), markers))
