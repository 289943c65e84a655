"""Read reference lists and definitions of footnotes at the end of an answer.

A list is a line such as "Sources" or "References", and entries beneath it that each begin with a number and name a
source. If an entry contains anything else, all the lines are prose. Otherwise an answer could make statements beneath a
heading "Notes" that the grounding rule does not check.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from redraft.caching import lazy_pattern
from redraft.domain.grounding.source_words import SOURCE
from redraft.domain.text.markdown_lines import Line

_NOTES = "footnotes|notes"
_TITLES = (
    f"(?:{SOURCE})(?: used| cited)?|references|citations|endnotes|{_NOTES}|bibliography|works cited"
    "|quellenverzeichnis|literatur|références|bibliographie|referencias|bibliografía|riferimenti"
    "|referências|參考文獻|参考文献|参考资料|참고문헌|المراجع"
)
_HEADING = lazy_pattern(
    rf"(?:#{{1,6}}\s+)?[*_]{{0,3}}(?:(?P<notes>{_NOTES})|{_TITLES})[*_]{{0,3}}\s*+[:\uff1a]?[*_]{{0,3}}\s*+#*",
    re.IGNORECASE,
)
_IN_ONE_LINE = lazy_pattern(
    rf"[*_]{{0,3}}(?:(?P<notes>{_NOTES})|{_TITLES})[*_]{{0,3}}\s*[:\uff1a][*_]{{0,3}}\s*(?=\S)", re.IGNORECASE
)
_LISTED = lazy_pattern(
    rf"[*_]{{0,2}}(?P<entry>(?:(?P<sign>\[\^?)|(?P<named>(?:{SOURCE})[ \t]+)|\b(?=\d))"
    rf"(?:(?:{SOURCE})[ \t]+)?(?P<number>\d{{1,40}})(?(sign)\]))[*_]{{0,2}}[. \t]*(?:(?<=[\]\d])\s*[,;]\s*|$)",
    re.IGNORECASE,
)

SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
PLAIN_DIGITS = str.maketrans(SUPERSCRIPTS, "0123456789")
RAISED_DIGITS = str.maketrans("0123456789", SUPERSCRIPTS)

_NAMED = f"(?:{SOURCE})" r"[ \t]*+[:#]?[ \t]*+(?P<{}>\d{{1,40}})"
_ENTRY = lazy_pattern(
    r"[>\s]*(?:[-*+•\u2013][ \t]+)?(?P<whole>[*_]{0,2}"
    rf"(?:\[\^?(?:{_NAMED.format('a')}|(?P<b>\d{{1,40}}))\]:?|(?P<c>\d{{1,40}})[.):]|(?P<d>[{SUPERSCRIPTS}]{{1,40}})"
    rf"|{_NAMED.format('e')}(?=[ \t]*(?:[:.,\u2013\u2014*_-]|$)))"
    # If the label names its source, a following "Source 3" is part of the title.
    rf"(?(a)|(?(e)|(?:[*_]{{0,2}}[ \t]*\[?{_NAMED.format('f')}\]?)?)))",
    re.IGNORECASE,
)

_ADDRESS = lazy_pattern(r"\]?\(?<?(?:https?://|www\.|doi:)[^\s<>]{1,2000}>?", re.IGNORECASE)
_PLACES = lazy_pattern(
    r"(?:\b(?:pp?\.|pages?|s\.|seiten?|lines?|zeilen?|l|sections?|sec\.|abschnitt|chapters?|ch\.|kapitel|para(?:graph)?s?"
    r"|paras?\.|abs\.|tables?|fig(?:ure|\.)|parts?|art(?:icle|ikel|\.)|rows?|columns?|items?|steps?|slides?|clauses?"
    r"|appendix|annex|entry|vol(?:ume|\.)|no\.|nr\.|(?:foot)?notes?)|§§?|¶|#)"
    r" ?\d{1,5}(?:\.\d{1,3}){0,3}(?:[-\u2013]l?\d{1,5})?\b",
    re.IGNORECASE,
)
_YEAR = lazy_pattern(r"(?<!\d)\d{4}(?!\d)")
_WORD, _DIGIT = lazy_pattern(r"\w+"), lazy_pattern(r"\d")
_TITLE_WORDS, _TITLE_CHARS = 10, 100
_STOPPED_WORDS, _NAME_CHARS_MIN = 2, 3
_STOPS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")
# Statements nearly always contain one of these words. Titles seldom do.
_VERB_LIST = """
    is are was were be been has have had does did can could will would shall should may might must says said ist sind
    war waren wird wurde wurden hat haben hatte kann soll muss est sont était ont sera es son fue fueron era tiene
    tienen è sono aveva hanno é são foi tem были был была
"""
_VERBS = frozenset(_VERB_LIST.split())
# No title with two names and a URL is longer.
_REST_CHARS_MAX = 4000


class Titled(Protocol):
    """The ids of a source. `Known` also reads the attribute `title` if a source has one."""

    @property
    def chunk_id(self) -> str | None: ...
    @property
    def document_id(self) -> str | None: ...


class Known:
    """The names of all sources: titles and ids, by which a reference list can name a source."""

    def __init__(self, sources: Sequence[Titled]) -> None:
        self._sources = sources

    def has(self, number: int) -> bool:
        return 1 <= number <= len(self._sources)

    def names(self, number: int) -> list[str]:
        """Return the names of a source, the longest first, because a longer name may contain a shorter one."""
        return self._names[number - 1] if self.has(number) else []

    def has_title(self, number: int) -> bool:
        return self.has(number) and bool(_title(self._sources[number - 1]))

    @cached_property
    def _names(self) -> list[list[str]]:
        return [
            sorted({_plain(name) for name in (_title(each), each.document_id, each.chunk_id) if name}, key=len)[::-1]
            for each in self._sources
        ]


def _title(source: Titled) -> str:
    title: str = getattr(source, "title", None) or ""
    return "" if title.isspace() else title


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a reference list, with the position of label and number in characters of the answer."""

    label: int  # The number at the beginning of the line
    number: int  # The number of the source; it differs from the label in `1. Source 3: …`
    start: int
    end: int
    is_named: bool = False  # It contains "source"
    is_plain: bool = False  # It begins like an item of any numbered list: `1.`, `1)`


def heads_a_list(line: str) -> bool:
    return _HEADING.fullmatch(line.strip()) is not None


def list_in_one_line(line: str, start: int, known: Known | None) -> list[Entry]:
    """Read the entries of a line such as `Sources: [1], [3]`. Return no entries if the line contains anything else.

    `start` is the position of the line in the answer.
    """
    head = _IN_ONE_LINE.match(line)
    entries: list[Entry] = []
    at = head.end() if head else len(line)
    while head and at < len(line):
        found = _LISTED.match(line, at)
        if not found:
            return []
        is_plain = not (found["sign"] or found["named"])
        number = int(found["number"])
        if is_plain and (head["notes"] or (known and not known.has(number))):
            return []
        first, last = found.span("entry")
        entries.append(Entry(number, number, start + first, start + last, is_plain=is_plain))
        at = found.end()
    return entries


def _read_entry(line: str, start: int) -> Entry | None:
    """Read the beginning of the line at `start` as an entry. `_names_source` decides whether the line is an entry."""
    found = _ENTRY.match(line)
    if found is None:
        return None
    label = int(next(found[name] for name in "abcde" if found[name]).translate(PLAIN_DIGITS))
    named: str | None = found["f"]
    first, last = found.span("whole")
    return Entry(
        label,
        int(named or label),
        start + first,
        start + last,
        is_named=bool(named or found["a"] or found["e"]),
        is_plain=bool(found["c"]) and not named,
    )


def _names_source(entry: Entry, rest: str, known: Known | None, *, must_name: bool = False) -> bool:
    """Whether an entry names a source and contains nothing else.

    Args:
        entry: the beginning of the line.
        rest: the rest of the line, with the lines that continue it.
        known: the sources if they are known.
        must_name: the entry must contain the name of a known source; another title is not enough.
    """
    if len(rest) >= _REST_CHARS_MAX or (entry.is_plain and known is not None and not known.has(entry.number)):
        return False
    bare = _ADDRESS.sub(" ", rest)
    left = _without_names(bare, entry.number, known)
    is_shared = known is not None and _shares(left, known.names(entry.number))
    is_called = is_shared or left != _plain(bare)
    is_named = is_called or entry.is_named or bare != rest
    is_titled = known is not None and known.has_title(entry.number)
    if not is_named and (must_name or (entry.is_plain and not left)):
        return False
    # If the source has a title, another title may be a statement, so only the number or a URL may stand alone.
    if is_titled and not is_called and (not is_named or _WORD.search(left)):
        return False
    return is_title(left.rstrip("".join(_STOPS)) if is_shared else left)


def is_place(text: str) -> bool:
    """Whether words only name a place in a document: `Table 2`, `p. 5`."""
    return _PLACES.fullmatch(text.strip("*_ ")) is not None


def is_note(text: str, number: int, known: Known | None) -> bool:
    """Whether words beside a number only name the source or a place in it, as in `[Source 1, Tides, 2019]`."""
    return is_title(_YEAR.sub(" ", _without_names(text, number, known)))


def _without_names(text: str, number: int, known: Known | None) -> str:
    left = _plain(text)
    for name in known.names(number) if known else ():
        before, found, after = left.partition(name)
        is_cut = before[-1:].isalnum() or after[:1].isalnum()
        # A name of one or two letters has to be the whole text.
        if found and not is_cut and (len(name) >= _NAME_CHARS_MIN or name == left):
            left = f"{before} {after}"
    return left


def _shares(text: str, names: Iterable[str]) -> bool:
    """Whether at least half of the words appear in the names of a source."""
    words = {word for word in _WORD.findall(text) if len(word) >= _NAME_CHARS_MIN}
    named = {word for name in names for word in _WORD.findall(name)}
    return 2 * len(words & named) >= len(words) > 0


def is_title(text: str) -> bool:
    """Whether words without URLs can be a title or an author: short, no sentence, no numbers except of pages."""
    if len(text) > _REST_CHARS_MAX:
        return False
    folded = _ADDRESS.sub(" ", text.casefold())
    if _DIGIT.search(folded) and _DIGIT.search(folded := _PLACES.sub(" ", folded)):
        return False
    words = folded.split()
    if len(words) > _TITLE_WORDS or sum(map(len, words)) > _TITLE_CHARS or not _VERBS.isdisjoint(words):
        return False
    return len(words) <= _STOPPED_WORDS or not words[-1].strip("*_)\"'\u201d").endswith(_STOPS)


def write_endnotes(titles: Iterable[tuple[int, str]]) -> str:
    """Write a reference list that this module can read back; an empty text for no sources."""
    lines = [f"[Source {number}] {' '.join(title.split())}".rstrip() for number, title in titles]
    return "\n".join(("Sources:", *lines)) if lines else ""


_UNDERLINE = lazy_pattern(r"(?:[=-]{2,}|=)?")
_FENCE = lazy_pattern("`{3}|~{3}")
DEFINITION = lazy_pattern(rf"(?:\[\^(?P<name>[^\]\s]{{1,60}})\]:|(?P<raised>[{SUPERSCRIPTS}]+)(?=[ \t:.]*\S))[ \t:.]*")
_USED = lazy_pattern(rf"\[\^([^\]\s]{{1,60}})\](?!:)|([{SUPERSCRIPTS}]+)")
# Lines such as "I hope this helps." may follow a list.
_FAREWELL_LINES, _FAREWELL_CHARS = 2, 200
# No request has so many sources. The limit bounds the work for hostile answers.
_ENTRIES_MAX = 1000


@dataclass(slots=True)
class _Item:
    """An entry or a definition: its first line, its number if it has one, and the rest of its text."""

    line: Line
    entry: Entry | None
    rest: str


@dataclass(frozen=True, slots=True)
class ReferenceList:
    """The lines of a reference list, or of definitions of footnotes."""

    head: int  # The line of the heading, or the first line if there is no heading
    first: int  # The first line beneath the heading
    end: int  # The line after the last line of the list
    items: Sequence[_Item]
    entries: tuple[Entry, ...] = ()  # The entries that name a source by its number


def find_reference_lists(text: str, lines: Sequence[Line], known: Known | None) -> dict[int, ReferenceList]:
    """Return the reference lists at the end of an answer, by the index of their first line.

    At most two short lines, such as a farewell, may follow them. Anywhere else such lines are an ordinary list.
    """
    used: dict[str, int] = {}
    for label in _USED.finditer(text):
        used.setdefault(label[1] or label[2], label.start())
    found: dict[int, ReferenceList] = {}
    limit = len(lines)
    for each in reversed(list(_candidates(text, lines))):
        entries = _entries(each, lines, known, used) if _is_farewell(lines[each.end : limit]) else None
        if entries is None:
            break
        found[each.head] = replace(each, entries=entries)
        limit = each.head
    return found


def _is_farewell(lines: Sequence[Line]) -> bool:
    content = [line.text for line in lines if any(map(str.isalnum, line.text)) or _FENCE.match(line.text)]
    is_short = all(len(each) <= _FAREWELL_CHARS and not any(map(str.isdecimal, each)) for each in content)
    return len(content) <= _FAREWELL_LINES and is_short and not any(map(_FENCE.match, content))


def _entries(
    found: ReferenceList, lines: Sequence[Line], known: Known | None, used: dict[str, int]
) -> tuple[Entry, ...] | None:
    """Return the entries of a list, or None if one of its items contains more than the name of a source."""
    begin = found.items[0].line.begin
    if found.head == found.first:
        is_list = all(_defines(item, known, used, begin) for item in found.items)
        return tuple(item.entry for item in found.items if item.entry and item.entry.is_named) if is_list else None
    heading = _HEADING.fullmatch(lines[found.head].text.strip())
    # Beneath "Notes" or "Footnotes" an answer may also make remarks.
    must_name = heading is not None and heading["notes"] is not None
    is_list = all(
        item.entry and _names_source(item.entry, item.rest, known, must_name=must_name) for item in found.items
    )
    return tuple(item.entry for item in found.items if item.entry) if is_list else None


def _defines(item: _Item, known: Known | None, used: dict[str, int], begin: int) -> bool:
    """Whether an item defines a footnote that the text before uses, and contains only a title."""
    label = DEFINITION.match(item.line.text)
    if not label or used.get(label["name"] or label["raised"], begin) >= begin:
        return False
    return _names_source(item.entry, item.rest, known) if item.entry else is_title(item.rest)


def _candidates(text: str, lines: Sequence[Line]) -> Iterator[ReferenceList]:
    at = 0
    while at < len(lines):
        head = at
        if heads_a_list(lines[head].text):
            at += 1
            while at < len(lines) and _UNDERLINE.fullmatch(lines[at].text):
                at += 1
        first = at
        at, items = _read_items(text, lines, first, needs_label=first == head)
        if 0 < len(items) <= _ENTRIES_MAX:
            yield ReferenceList(head, first, at, items)
        at = max(at, head + 1)


def _read_items(text: str, lines: Sequence[Line], at: int, *, needs_label: bool) -> tuple[int, list[_Item]]:
    items: list[_Item] = []
    end = at
    while at < len(lines) and len(items) <= _ENTRIES_MAX:
        line = lines[at]
        label = DEFINITION.match(line.text)
        entry = _read_entry(text[line.begin : line.end], line.begin)
        if label if needs_label else entry:
            start = entry.end if entry else line.start + (label.end() if label else 0)
            items.append(_Item(line, entry, text[start : line.end]))
        elif line.text and items and line.indent >= 2:
            items[-1].rest = f"{items[-1].rest} {line.text}"[:_REST_CHARS_MAX]
        elif line.text or not items:
            break
        at += 1
        if line.text:
            end = at
    return end, items
