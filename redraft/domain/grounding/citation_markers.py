"""The grammar of citation markers: `[Source 2]`, `[Sources 1-3, 5]`, `[2]`, `【2】`, `²`.

docs/grounding.md lists the spellings of markers, the brackets that are ignored, and those that are issues.
"""

# ruff: noqa: RUF001  (words and signs of many scripts)

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from redraft.caching import lazy_pattern
from redraft.domain.grounding.blocks import Block, Layout, code_spans, read_layout
from redraft.domain.grounding.reference_lists import SUPERSCRIPTS, is_note, is_place
from redraft.domain.grounding.source_words import CITED, NUMBER_SIGN, SOURCE
from redraft.domain.grounding.superscript_markers import can_be_cited, superscripts

Style = Literal["inline", "footnote", "endnote"]

# A request has at most 200 sources, so `[1963]` and `[2024]` are years.
_BARE_MAX = 999

_OPEN, _SHUT = r"\[【\uff3b\u3014\u3016\u27e6", r"\]】\uff3d\u3015\u3017\u27e7"
# A link to an anchor of a source belongs to its marker: `[2](#source-2)`.
_BRACKETS = lazy_pattern(
    rf"(?<!\\)[{_OPEN}](?P<content>[^{_OPEN}{_SHUT}]{{1,3000}})[{_SHUT}](?:\(#(?:{CITED})[-_]?\d{{1,3}}\))?",
    re.IGNORECASE,
)
# A marker may contain a line break, but no paragraph break.
_LINE_BREAK = lazy_pattern(r"\r?\n[ \t>]*")
_PARAGRAPH = lazy_pattern(r"\n[ \t>]*\r?\n")
_LETTERS = lazy_pattern("(?s:.)[\u0300-\u036f]*")
# Some conjunctions mean something else in another language: `a` is "and" in Czech and "to" in Spanish. They count only
# in a bracket with the word for "source" of their language.
_JOINS = tuple(
    (word, lazy_pattern(rf"(?<=\d) {join} (?=\d)")) for word, join in (("zdroj", "a"), ("vir", "in"), ("bron", "of"))
)

# The quantifiers are possessive, because backtracking over a long list would take exponential time.
_S = r"[ \t\u00a0\u202f\u3000]{0,8}+"
_NAMED = rf"(?:(?:{CITED})(?:[.]?{_S}(?:{NUMBER_SIGN}{_S}){{0,2}}|[-_\u2010\u2011](?=\d))|(?-i:S)[-_]?(?=\d))"
_NUMBER = r"\d{1,40}+"
_TO = (
    rf"{_S}(?:[-\u2010-\u2015\u2212~\u301c\uff5e\u2192\u2026]|\.{{2,3}}|\b(?:to|thru|through|until|bis|à|a|al|au|até|tot"
    rf"|t/m|do|до|по|til|till|đến|sampai|hingga|έως|إلى|עד)\b|से|ถึง|至|到|から|부터|에서){_S}"
)
_PART = rf"(?:{_NAMED}|#)?{_NUMBER}(?:{_TO}(?:{_NAMED}|#)?{_NUMBER}(?:まで|까지)?)?"
_AND = (
    r"(?:&|\b(?:and/or|and|und|sowie|un|dhe|ir|agus|et|y|e|ed|en|og|och|ja|ve|și|şi|és|i|dan|và|και|и|і|та|or|oder|ou|o|eller|tai|veya|lub|nebo"
    r"|vagy|sau|atau|hoặc|ή|или|або|או|أو|और)\b|या|และ|و|ו[-\u05be]?|和|与|與|及|或|と|や|または|및|와|과|또는)"
)
_THEN = rf"(?:{_S}(?:[,;/+|・·\uff0c\u3001\uff1b\u060c\u061b]{_S}{_AND}?|{_AND}){_S}|[ ]{{1,4}}(?=\d))"
_PARTS = rf"(?P<parts>{_PART}(?P<more>{_THEN}{_PART}){{0,300}})"
_REST = r".{0,200}"
_TAIL = rf"(?:[,:;(|\uff1a\uff0c\u2013\u2014]|(?<= )-[ ]){_REST}"
# Words without a separator may follow only a single number: in `[Source 1, 3 tables]` the 3 belongs to a note.
_WORDS = rf"(?:[.](?!\d)|(?<=[ \u00a0])(?=[^\s\d])){_REST}"
_CITING = lazy_pattern(
    rf"{_S}[*_]{{0,3}}(?:(?:see|cf\.?|vgl\.?|siehe|voir|véase|vedi|zie|se|см\.?|参见|見){_S})?(?P<name>{_NAMED})?"
    rf"{_PARTS}[*_]{{0,3}}{_S}(?P<tail>\u2020{_REST}|{_TAIL}|(?(name)(?(more)(?!)|{_WORDS})|(?!)))?",
    re.IGNORECASE,
)
# A word for a source with a number. A bracket that contains this word and number may be meant as a citation, whatever
# else it contains.
_MEANT = lazy_pattern(
    rf"\b(?:{CITED})(?:[ \t](?:id|no|nr|num|number))?[^\w\[\]\-\u2212]{{0,3}}_?{_NUMBER}(?:st|nd|rd|th)?(?!\w)",
    re.IGNORECASE,
)
_MEANT_CHARS_MAX = 200
_SPELLED = {
    word: number
    for number, words in enumerate(("one i 一", "two ii 二", "three iii 三", "four iv 四", "five v 五"), 1)
    for word in words.split()
}
_SPELLED_OUT = lazy_pattern(rf"{_S}(?:{CITED}){_S}(?P<word>{'|'.join(_SPELLED)}){_S}", re.IGNORECASE)
_UNREAD = lazy_pattern(rf"(?P<head>\D{{0,60}}?){_PARTS}(?P<rest>.{{0,60}})", re.IGNORECASE)
# A bracket with one of these is not meant as a marker: negative numbers, decimals, times, formulas, footnotes, escapes,
# code, names such as `IPv6 zone` and `HTTP/2`.
_NO_MARK = lazy_pattern(
    r"(?:\A|\s)[-\u2212]\d|\d[.:]\d|[=<>%$^{}\\`@]|(?<!\w)[\"']|\b[a-z]\d|[^\W\d][/(]\d|\d-?[A-Za-z]{2}"
    r"|[A-Za-z]\d+(?:[A-Za-z]|(?: [^\W\d]+)+\Z)"
)
_LINK_LABELS = lazy_pattern(r"^[ \t>]*\[([^\]\n]{1,200})\]:[ \t]*<?(?:https?://|[/.#])", re.MULTILINE)
_UNREAD_WORDS = 4
_NUMBERS = lazy_pattern(r"(?<!\d)\d{1,3}(?!\d)")
_TAG = lazy_pattern(
    rf"</?{_S}(?:{CITED})(?:{_S}[:#]?{_S}|[-_\u2010\u2011])(?P<number>{_NUMBER})"
    rf"(?:[ \t]id=[\"']?\w{{1,64}}[\"']?)?{_S}/?>",
    re.IGNORECASE,
)
# Other brackets and commands that name a source. They are issues, since the prompt asks for another spelling.
_OTHER_SPELLING = lazy_pattern(
    rf"(?:(?:[({{\uff08]|\\\[){_S}(?:(?:see|cf\.?){_S})?(?:{CITED})[.:#\uff1a]?{_S}|<(?:sup|{CITED})>{_S}"
    rf"|<(?:{CITED})\b[^<>=]{{0,40}}=[ \t]*[\"']?|\\cite\w{{0,9}}\{{)"
    rf"(?P<numbers>{_NUMBER}(?:{_THEN}{_PART}){{0,50}})(?:[,:;][^()\n]{{0,60}})?{_S}"
    rf"(?:[)}}\uff09]|\\\]|[\"']?{_S}/?>|</(?:sup|{CITED})>)",
    re.IGNORECASE,
)
_SPAN = lazy_pattern(
    rf"(?P<name>{_NAMED})?(?P<first>{_NUMBER})(?:{_TO}(?:{_NAMED}|#)?(?P<last>{_NUMBER}))?", re.IGNORECASE
)
# The next source within a note: `[Source 1: Ferries, Source 2: Island]`.
_AGAIN = lazy_pattern(
    rf"(?<!\w)(?:{CITED})(?:{_S}[:#]?{_S}|[-_])(?P<numbers>{_NUMBER}(?!\.?\d)(?:{_THEN}{_PART}){{0,50}})", re.IGNORECASE
)
_NOTE = lazy_pattern(r"\[\^(\d{1,40})\]")
# `[^1]: …` defines a footnote, so it is no citation.
_LABEL = lazy_pattern(r":[ \t]")

_LINK = lazy_pattern(r"\]?\((?:[^\s()]|\([^\s()]*\))*(?:[ \t]+[\"'(][^\n]{0,300})?\)")
# Texts beside a bracket, which show that the bracket is a value, an index, an argument of a call, or part of a chemical
# name.
_OPERATOR = lazy_pattern(
    r"(?:[ \t]=|\w\":|[\u2208\u2209\u2282\u2286\u00d7]|\\(?:(?:not)?in|subset(?:eq)?|times|cdot))[ \t]*\Z"
)
_CALL = lazy_pattern(r"[A-Za-z_]\(\Z")
_COMPOUND = lazy_pattern(r"\.\w+\(|-[A-Za-z]{3}|[a-z]{3}")
_WORD_END = lazy_pattern(r"\w+\Z")
_FIRST_ITEM = lazy_pattern(r"\b([A-Za-z]\w{0,49})\[0\]")
_FORMULA_OR_CODE = lazy_pattern(
    r"<(pre|code)\b[^<>]{0,200}>(?s:.){1,1000}?</\1>|"
    r"\$\$(?=[^$]{0,1000}\\[a-z])[^$]{1,1000}\$\$|\\\((?:[^\\]|\\(?!\))){1,1000}\\\)"
    rf"|\\\[(?!{_S}(?:{SOURCE}))(?:[^\\]|\\(?!\])){{1,1000}}\\\]",
    re.IGNORECASE,
)
_BEFORE_A_WORD = frozenset(("", " ", "\t", "\n", "("))
_ASSIGNED = lazy_pattern(r"[ \t]*(?:[-+*/%]?=(?!=)|\+\+|--)|\.\w+\(|\[[a-z_]")
# The closing quotation marks for each opening quotation mark. Languages pair them in different ways.
_QUOTES = dict(zip("\"'`“”‘’«»「『", "\"'`””’’»«」』", strict=True)) | {"„": "“”", "‚": "‘’"}


@dataclass(frozen=True, slots=True)
class Marker:
    """A citation marker in a text. Positions are in characters."""

    start: int
    end: int
    spans: tuple[tuple[int, int], ...]  # The first and the last number of each part: `[1, 3-5]` has (1, 1) and (3, 5)
    is_named: bool = False  # It contains "source", so a reference list cannot renumber it
    is_plain: bool = False  # It is nothing but numbers in brackets, which may also be a vector
    unread: tuple[int, ...] = ()  # The source numbers in a part that cannot be parsed, such as `[Foo 1]`


def find_markers(text: str, style: Style = "inline") -> list[Marker]:
    """Find all markers of a text in order, also invalid ones. Superscripts are markers only in the footnote style."""
    return markers_of(read_layout(text), style)


def markers_of(layout: Layout, style: Style = "inline", sources: int = 0) -> list[Marker]:
    """Find the markers of a layout, and brackets that cannot be parsed but contain the number of a source."""
    notes = ((block.start, block.end) for block in layout.blocks if block.kind == "note")
    formulas = (found.span() for found in _FORMULA_OR_CODE.finditer(layout.text))
    left_alone = sorted([*code_spans(layout), *notes, *formulas])
    starts = [start for start, _ in left_alone]
    found = [*_bracketed(layout, sources), *_tagged(layout.text, sources), *_footnotes(layout.text, style)]
    found = [marker for marker in found if not _is_within(marker.start, starts, left_alone)]
    quotes = [block for block in layout.blocks if block.is_quote]
    return _without_quoted(layout.text, sorted(found, key=lambda marker: marker.start), quotes)


def _is_within(at: int, starts: list[int], spans: list[tuple[int, int]]) -> bool:
    before = bisect_right(starts, at)
    return before > 0 and at < spans[before - 1][1]


def _bracketed(layout: Layout, sources: int) -> Iterator[Marker]:
    text = layout.text
    index_end = -1
    labels = set(_LINK_LABELS.findall(text))
    arrays = set(_FIRST_ITEM.findall(text))
    for found in _BRACKETS.finditer(text):
        content, places = _printed(text, *found.span("content"))
        spelled = _SPELLED_OUT.fullmatch(content)
        if spelled and (number := _SPELLED[spelled["word"].lower()]) <= sources and not _LINK.match(text, found.end()):
            yield Marker(*found.span(), (), unread=(number,))
        if not any(map(str.isdecimal, content)) or _PARAGRAPH.search(found["content"]):
            continue
        citing = _CITING.fullmatch(content)
        is_named = bool(citing and citing["name"])
        # In `m[0][1]`, the second bracket is an index because it follows an index.
        if not is_named and _is_index(found, index_end, arrays):
            index_end = found.end()
        elif is_named or not _LINK.match(text, found.end()):
            marker = _citing(citing, found, places, layout, sources) if citing else None
            if marker is None and found["content"] not in labels:
                marker = _unread(content, found, sources)
            if marker is not None:
                yield marker


def _tagged(text: str, sources: int) -> Iterator[Marker]:
    for found in _TAG.finditer(text):
        number = int(found["number"])
        yield Marker(found.start(), found.end(), ((number, number),), is_named=True)
    for found in _OTHER_SPELLING.finditer(text):
        unread = _existing(found["numbers"], sources)
        if unread and (found[0][:4].lower() != "<sup" or can_be_cited(text, found.start())):
            yield Marker(found.start(), found.end(), (), unread=unread)


def _printed(text: str, start: int, end: int) -> tuple[str, list[int]]:
    """Return the content of a bracket as one line of plain characters, and the position of each in the text."""
    content = _LINE_BREAK.sub(lambda found: " " * len(found[0]), text[start:end])
    for word, join in _JOINS:
        if word in content.casefold():
            content = join.sub(lambda found: " ,".ljust(len(found[0])), content)
    if content.isascii():
        return content, list(range(start, end))
    plain = [(char, start + found.start()) for found in _LETTERS.finditer(content) for char in _plain(found[0])]
    return "".join(char for char, _ in plain), [at for _, at in plain]


def _plain(letter: str) -> str:
    """Normalise a character with its accents: `1` for `①`, nothing for an invisible character."""
    if unicodedata.category(letter[0]) == "Cf":
        return ""
    plain = letter if letter in SUPERSCRIPTS else unicodedata.normalize("NFKC", letter)
    return f" {plain} " if plain.isdecimal() and not letter.isdecimal() else plain


def _citing(
    citing: re.Match[str], found: re.Match[str], places: list[int], layout: Layout, sources: int
) -> Marker | None:
    is_named = citing["name"] is not None
    spans = _spans(citing["parts"], is_named=is_named)
    if not is_named and _is_other_numbers(citing["parts"], spans):
        return None
    more = _noted(citing["tail"], spans[-1][1], layout) if citing["tail"] else ()
    # The letter in `[1, n]` is a variable, not a note.
    if not is_named and (more is None or len((citing["tail"] or "").strip(" ,")) == 1):
        return None
    is_plain = not (is_named or citing["tail"])
    unread: tuple[int, ...] = ()
    if more is None and len(citing["tail"].split()) <= _UNREAD_WORDS and _existing(citing["tail"], sources):
        unread = _existing(citing[0], sources)
    # A marker ends before a statement in its bracket, so that the statement is checked like any other.
    end = found.end() if more is not None or unread else places[citing.end("parts") - 1] + 1
    return Marker(found.start(), end, spans + (more or ()), is_named, is_plain, unread)


def _existing(text: str, sources: int) -> tuple[int, ...]:
    numbers = dict.fromkeys(map(int, _NUMBERS.findall(text)))
    return tuple(number for number in numbers if 1 <= number <= sources)


def _unread(content: str, found: re.Match[str], sources: int) -> Marker | None:
    """Return an unread marker for a bracket that may be meant as a marker: it has a few words and a source number."""
    if len(content) <= _MEANT_CHARS_MAX and (meant := _existing(" ".join(_MEANT.findall(content)), sources)):
        return Marker(found.start(), found.end(), (), unread=meant)
    unread = _UNREAD.fullmatch(content)
    is_index = (
        found.start() > 0 and found.string[found.start() - 1].isalnum() and content.isascii() and content.isidentifier()
    )
    if not unread or is_index or _NO_MARK.search(content) or is_place(content):
        return None
    head, rest = unread["head"].strip("*_ "), unread["rest"].strip("*_ ")
    letters = sum(map(str.isalpha, content))
    is_sign = letters == 1 and not rest and not head.isupper()
    is_enclosed = not letters and content.strip(" ().,:;").isdecimal()
    if not (letters or is_enclosed) or is_sign or len(head.split()) + len(rest.split()) > _UNREAD_WORDS:
        return None
    numbers = _existing(content if head and head in rest else unread["parts"], sources)
    return Marker(found.start(), found.end(), (), unread=numbers) if numbers else None


def _noted(tail: str, number: int, layout: Layout) -> tuple[tuple[int, int], ...] | None:
    """Return the sources that the tail of a marker names. Return None if the tail contains a statement."""
    found: list[tuple[int, int]] = []
    at = 0
    for again in _AGAIN.finditer(tail):
        if not is_note(tail[at : again.start()].strip("\u2020 "), number, layout.known):
            return None
        found += _spans(again["numbers"], is_named=True)
        at, number = again.end(), found[-1][1]
    return tuple(found) if is_note(tail[at:].strip("\u2020 "), number, layout.known) else None


def _spans(parts: str, *, is_named: bool) -> tuple[tuple[int, int], ...]:
    """Return the numbers of a marker, without those of a note such as `2024` in `[Source 1, 2024]`."""
    spans: list[tuple[int, int]] = []
    end = group = 0
    is_note = False
    for found in _SPAN.finditer(parts):
        first, last = int(found["first"]), int(found["last"] or found["first"])
        if "/" not in parts[end : found.start()]:
            group = max(1, len(spans))
        if found["name"]:
            is_note = False
        elif is_named and spans and first > _BARE_MAX:
            is_note = True
            # In `[Source 1, 12/05/2024]`, day and month belong to the note as well.
            del spans[group:]
        if not is_note:
            spans.append((first, last))
        end = found.end()
    return tuple(spans)


def _is_index(found: re.Match[str], index_end: int, arrays: set[str]) -> bool:
    """Whether a bracket is an index, a value or a name: `a[1]`, `m[0][1]`, `x = [1, 2]`, `[3]rotaxane`."""
    text, (start, end) = found.string, found.span()
    before = max(0, start - 30)
    is_argument = "," in found["content"] and _CALL.search(text, before, start) is not None
    if start == index_end or is_argument or _OPERATOR.search(text, before, start):
        return True
    glued = _WORD_END.search(text, max(0, start - 50), start)
    name = glued[0] if glued else ""
    word = name.strip("_")
    if not word or not word.isascii():
        return text[max(0, start - 1) : start] in _BEFORE_A_WORD and _COMPOUND.match(text, end) is not None
    is_name = word in arrays or text[start - len(name) - 1 : start - len(name)] == "$" or "_" in word
    is_name = is_name or (len(word) == 1 and word.islower())
    return is_name or bool(_ASSIGNED.match(text, end) or _COMPOUND.match(text, end))


def _is_other_numbers(parts: str, spans: tuple[tuple[int, int], ...]) -> bool:
    """Whether numbers are a year, a fraction, thousands as in `[1,000]`, or an interval from zero as in `[0, 1]`."""
    is_interval = len(spans) == 2 and spans[0] == (0, 0) and "," in parts
    has_sign = any(sign in parts for sign in ("/", "+", ",0"))
    return is_interval or has_sign or any(first > _BARE_MAX for first, _ in spans)


def _footnotes(text: str, style: Style) -> Iterator[Marker]:
    for found in _NOTE.finditer(text):
        if not _LABEL.match(text, found.end()) and not _LINK.match(text, found.end()):
            yield Marker(found.start(), found.end(), ((int(found[1]), int(found[1])),))
    if style == "footnote":
        for start, end, first, last in superscripts(text):
            yield Marker(start, end, ((first, last),))


def _without_quoted(text: str, markers: list[Marker], quotes: list[Block]) -> list[Marker]:
    """Leave out markers that are only mentioned: alone in quotation marks, or alone in a block quote."""
    kept: list[Marker] = []
    for cluster in _clusters(text, markers):
        before, end = text[max(0, cluster[0].start - 1) : cluster[0].start], cluster[-1].end
        if text[end : end + 1] not in tuple(_QUOTES.get(before, "")):
            kept += cluster
    starts = [marker.start for marker in kept]
    dropped: set[int] = set()
    for block in quotes:
        within = range(bisect_left(starts, block.start), bisect_left(starts, block.end))
        if within:
            around = texts_between(text, block.start, block.end, [kept[at] for at in within])
            dropped.update(() if any(map(str.isalnum, "".join(around))) else within)
    return [marker for at, marker in enumerate(kept) if at not in dropped]


def _clusters(text: str, markers: list[Marker]) -> Iterator[list[Marker]]:
    cluster: list[Marker] = []
    for marker in markers:
        if cluster and text[cluster[-1].end : marker.start].strip(" ,"):
            yield cluster
            cluster = []
        cluster.append(marker)
    if cluster:
        yield cluster


def texts_between(text: str, start: int, end: int, markers: Sequence[Marker]) -> list[str]:
    """Return the parts of a text range before, between and after the markers in that range."""
    ends = [start, *(marker.end for marker in markers)]
    starts = [*(marker.start for marker in markers), end]
    return [text[first:last] for first, last in zip(ends, starts, strict=True)]
