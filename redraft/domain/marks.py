"""Marks by which an answer cites its sources: `[Source 2]`, `[Sources 1-3, 5]`, `[2]`, `【2】`, `².`; and what is none.

docs/grounding.md lists what is read as a mark and what is left alone.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from redraft.domain.blocks import Block, Layout, code_spans, read_layout
from redraft.domain.endnotes import PLAIN_DIGITS, SUPERSCRIPTS, is_note

Style = Literal["inline", "footnote", "endnote"]

# No request has so many sources: `[1963]` and `[2024]` are years.
_BARE_MAX = 999

_S = r"[ \t\u00a0\u202f\u3000]{0,4}"
# A long line may be broken within a mark.
_GAP = rf"{_S}(?:\r?\n[ \t>]{{0,8}})?"
_SOURCE = (
    "(?:sources?|quellen?|fuentes?|fontes?|fonti|bron(?:nen)?|źródł[oa]|источники?|来源|來源|出典|資料|资料|출처"
    "|ال?مصدر|ال?مصادر)"
)
_WORD = (
    rf"(?:{_SOURCE}|(?:src|docs?|refs?)\.?|documents?|dokumente?|documentos?|references?|referenz(?:en)?"
    "|chunks?|passages?|文档|文檔|文献)"
)
_NAMED = rf"(?:{_WORD}(?:{_GAP}[:#]?{_GAP}|[-_\u2010\u2011](?=\d))|(?-i:S)[-_]?(?=\d))"
_NUMBER = r"\d{1,40}"
_TO = rf"{_S}(?:[-\u2010-\u2015\u2212~\u301c\uff5e]|\bto\b|\bbis\b){_S}"
_PART = rf"(?:{_NAMED})?{_NUMBER}(?:{_TO}(?:{_NAMED})?{_NUMBER})?"
_AND = r"(?:&|\b(?:and|und|et|y|e)\b|и|和|与|與|及|と)"
_THEN = rf"{_S}(?:[,;/+\uff0c\u3001\uff1b\u060c\u061b]{_GAP}{_AND}?|{_AND}){_GAP}"
_REST = r"[^\[\]【】\uff3b\uff3d\n]{0,200}"
_TAIL = rf"(?:{_S}[,:;(|\uff1a\uff0c\u2013\u2014]|{_S}[ ]-[ ]){_REST}"
# Behind a single number only: of `[Source 1, 3 tables]` the second is a note's.
_WORDS = rf"(?:[.](?!\d)|[ \u00a0]{{1,4}}(?=[^\s\d])){_REST}"
_OPEN, _CLOSE = "[\\[【\uff3b\u3014]", "[\\]】\uff3d\u3015]"
_BRACKETS = re.compile(
    rf"(?<!\\){_OPEN}{_S}[*_]{{0,3}}(?:(?:see|cf\.?|vgl\.?|siehe){_S})?(?P<name>{_NAMED})?"
    rf"(?P<parts>{_PART}(?P<more>{_THEN}{_PART}){{0,300}})[*_]{{0,3}}{_S}"
    rf"(?P<tail>\u2020{_REST}|(?(name)(?:{_TAIL}|(?(more)|{_WORDS}))?)){_CLOSE}",
    re.IGNORECASE,
)
_TAG = re.compile(
    rf"</?{_S}{_WORD}(?:{_S}[:#]?{_S}|[-_\u2010\u2011])(?P<number>{_NUMBER})(?:[ \t]id=[\"']?\w{{1,64}}[\"']?)?{_S}/?>",
    re.IGNORECASE,
)
_SPAN = re.compile(rf"(?P<name>{_NAMED})?({_NUMBER})(?:{_TO}(?:{_NAMED})?({_NUMBER}))?", re.IGNORECASE)
# In a note: the next source of `[Source 1: Ferries, Source 2: Island]`.
_AGAIN = re.compile(
    rf"(?<!\w){_SOURCE}(?:{_S}[:#]?{_S}|[-_])(?P<numbers>{_NUMBER}(?!\.?\d)(?:{_THEN}{_PART}){{0,50}})", re.IGNORECASE
)
_NOTE = re.compile(r"\[\^(\d{1,40})\]")
# Behind it, of `[^1]: …`, the text of a note: what cites it is the mark in the answer's text.
_LABEL = re.compile(r":[ \t]")
_RUN = re.compile(rf"[{SUPERSCRIPTS}]+(?:\u207b[{SUPERSCRIPTS}]+)?")
# What stands between the runs of `¹,²`, `¹˒²` and `¹ ²`.
_BETWEEN = re.compile("[,\u02d2\u2e34 \u2009\u202f]{1,2}")

_LINK = re.compile(r"\]?\((?:[^\s()]|\([^\s()]*\))*(?:[ \t]+[\"'(][^\n]{0,300})?\)")
_ASSIGNED = re.compile(r"[ \t]*(?:[-+*/%]?=(?!=)|\+\+|--)|\.\w+\(|\[[a-z_]")
# What closes what a quotation mark opens, in the ways of several languages.
_QUOTES = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\u201c": "\u201d",
    "\u201d": "\u201d",
    "\u201e": "\u201c\u201d",
    "\u2018": "\u2019",
    "\u2019": "\u2019",
    "\u201a": "\u2018\u2019",
    "\u00ab": "\u00bb",
    "\u00bb": "\u00ab",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
}

# Behind these a superscript is a power: of a function, of a unit.
_FUNCTIONS = "sin|cos|tan|cot|sec|csc|sinh|cosh|tanh|log|exp"
_UNITS = "f(?:oo|ee)t|inch(?:es)?|miles?|yards?|(?:kilo|centi|milli|quadrat)?met(?:er|re)s?|seconds?"
_RAISED = re.compile(f"{_FUNCTIONS}|{_UNITS}", re.IGNORECASE)
_LAST_WORD = re.compile(r"[^\W_]+\Z")
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_RAISED_IDEOGRAPHS = "米里尺寸"
_CLOSERS = frozenset("*_)\uff09\u201d\u2019\"'")
_NO_END = frozenset("/\\-\u2010\u2011\u2012\u2013\u2014\u2212([{<*_@#&^~=+|")


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark in a text.

    Attributes:
        start: where it begins, in characters.
        end: where it is over.
        spans: the first and the last number of each part: `[1, 3-5]` has (1, 1) and (3, 5).
        is_named: it says "source", so the number is a source's and never a list's.
        is_plain: it is nothing but numbers in brackets, as a vector is, too.
    """

    start: int
    end: int
    spans: tuple[tuple[int, int], ...]
    is_named: bool = False
    is_plain: bool = False


def find_marks(text: str, style: Style = "inline") -> list[Mark]:
    """All marks in order, whether or not there are such sources; superscripts and `[^1]` in footnote style only."""
    return marks_of(read_layout(text), style)


def marks_of(layout: Layout, style: Style = "inline") -> list[Mark]:
    left_alone = sorted(
        [*code_spans(layout), *((block.start, block.end) for block in layout.blocks if block.kind == "note")]
    )
    starts = [start for start, _ in left_alone]
    found = [*_bracketed(layout), *(_footnotes(layout.text) if style == "footnote" else ())]
    found = [mark for mark in found if not _is_within(mark.start, starts, left_alone)]
    quotes = [block for block in layout.blocks if block.is_quote]
    return _without_quoted(layout.text, sorted(found, key=lambda mark: mark.start), quotes)


def _is_within(at: int, starts: list[int], spans: list[tuple[int, int]]) -> bool:
    before = bisect_right(starts, at)
    return before > 0 and at < spans[before - 1][1]


def _bracketed(layout: Layout) -> Iterator[Mark]:
    text = layout.text
    index_end = -1
    for found in _BRACKETS.finditer(text):
        is_named = found["name"] is not None
        spans = _spans(found["parts"], is_named=is_named)
        if not is_named:
            if _is_index(text, found.start(), found.end(), index_end):
                index_end = found.end()
                continue
            if _LINK.match(text, found.end()) or _is_other_numbers(found["parts"], spans):
                continue
        # A statement within a mark is stated all the same: the mark is over before it.
        more = _noted(found["tail"], spans[-1][1], layout) if found["tail"] else ()
        end = found.end() if more is not None else found.end("parts")
        spans += more or ()
        yield Mark(found.start(), end, spans, is_named, not is_named)
    for found in _TAG.finditer(text):
        number = int(found["number"])
        yield Mark(found.start(), found.end(), ((number, number),), is_named=True)


def _noted(tail: str, number: int, layout: Layout) -> tuple[tuple[int, int], ...] | None:
    """The sources named in what a mark says behind its numbers; None if that says more than which they are."""
    found: list[tuple[int, int]] = []
    at = 0
    for again in _AGAIN.finditer(tail):
        if not _is_note(tail[at : again.start()], number, layout):
            return None
        found += _spans(again["numbers"], is_named=True)
        at, number = again.end(), found[-1][1]
    return tuple(found) if _is_note(tail[at:], number, layout) else None


def _is_note(text: str, number: int, layout: Layout) -> bool:
    return is_note(text.strip("\u2020 "), number, layout.known)


def _spans(parts: str, *, is_named: bool) -> tuple[tuple[int, int], ...]:
    """The numbers of a mark; those of a note in it, such as `2024` in `[Source 1, 2024]`, are none of them."""
    spans: list[tuple[int, int]] = []
    end = group = 0
    is_note = False
    for found in _SPAN.finditer(parts):
        first, last = int(found[2]), int(found[3] or found[2])
        if "/" not in parts[end : found.start()]:
            group = max(1, len(spans))
        if found["name"]:
            is_note = False
        elif is_named and spans and first > _BARE_MAX:
            is_note = True
            # Day and month of `[Source 1, 12/05/2024]`.
            del spans[group:]
        if not is_note:
            spans.append((first, last))
        end = found.end()
    return tuple(spans)


def _is_index(text: str, start: int, end: int, index_end: int) -> bool:
    """`a[1]`, `my_list[0]`, `m[0][1]`, `row[2] = 5`."""
    if start == index_end:
        return True
    word = _glued(text, start).strip("_")
    if not word or not word.isascii():
        return False
    return "_" in word or (len(word) == 1 and word.islower()) or _ASSIGNED.match(text, end) is not None


def _glued(text: str, at: int) -> str:
    start = at
    while start > 0 and at - start < 50 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return text[start:at]


def _is_other_numbers(parts: str, spans: tuple[tuple[int, int], ...]) -> bool:
    """Years, fractions, and intervals from zero as in `[0, 1]`."""
    is_interval = len(spans) == 2 and spans[0] == (0, 0) and "," in parts
    return is_interval or "/" in parts or "+" in parts or any(first > _BARE_MAX for first, _ in spans)


def _footnotes(text: str) -> Iterator[Mark]:
    for found in _NOTE.finditer(text):
        if not _LABEL.match(text, found.end()) and not _LINK.match(text, found.end()):
            yield Mark(found.start(), found.end(), ((int(found[1]), int(found[1])),))
    before = -1
    for found in _RUN.finditer(text):
        goes_on = before >= 0 and _BETWEEN.fullmatch(text, before, found.start())
        if goes_on or _can_be_cited(text, found.start()):
            before = found.end()
            first, _, last = found[0].translate(PLAIN_DIGITS).partition("\u207b")
            if len(first) <= 40 and len(last) <= 40:
                yield Mark(found.start(), found.end(), ((int(first), int(last or first)),))


def _can_be_cited(text: str, at: int) -> bool:
    """Whether a superscript here can be a citation: behind punctuation or a word, not behind a unit or a number."""
    while at > 0 and text[at - 1] in _CLOSERS:
        at -= 1
    before = text[at - 1] if at else " "
    if not before.isalnum():
        return not before.isspace() and before not in _NO_END
    found = _LAST_WORD.search(text[max(0, at - 40) : at])
    word = found[0] if found else ""
    if _IDEOGRAPH.match(before):
        return before not in _RAISED_IDEOGRAPHS
    if text[at : at + 1] == ")" and len(word) == 4 and word.isdecimal():
        return True
    return len(word) >= 3 and word.isalpha() and not _RAISED.fullmatch(word)


def _without_quoted(text: str, marks: list[Mark], quotes: list[Block]) -> list[Mark]:
    """Without the marks that are spoken of: alone within quotation marks, or all that a block quote says."""
    kept = [mark for cluster in _clusters(text, marks) if not _is_enclosed(text, cluster) for mark in cluster]
    starts = [mark.start for mark in kept]
    dropped: set[int] = set()
    for block in quotes:
        within = range(bisect_left(starts, block.start), bisect_left(starts, block.end))
        if within and not any(map(str.isalnum, _between(text, block, [kept[at] for at in within]))):
            dropped.update(within)
    return [mark for at, mark in enumerate(kept) if at not in dropped]


def _clusters(text: str, marks: list[Mark]) -> Iterator[list[Mark]]:
    cluster: list[Mark] = []
    for mark in marks:
        if cluster and text[cluster[-1].end : mark.start].strip(" ,"):
            yield cluster
            cluster = []
        cluster.append(mark)
    if cluster:
        yield cluster


def _is_enclosed(text: str, cluster: list[Mark]) -> bool:
    start, end = cluster[0].start, cluster[-1].end
    return start > 0 and text[end : end + 1] in tuple(_QUOTES.get(text[start - 1], ""))


def _between(text: str, block: Block, marks: list[Mark]) -> str:
    ends = [block.start, *(mark.end for mark in marks)]
    starts = [*(mark.start for mark in marks), block.end]
    return "".join(text[end:start] for end, start in zip(ends, starts, strict=True))
