"""Split an answer into sentences and classify them. Only statements and rows of tables state something.

The rules are our own, because libraries split more good answers wrongly; docs/decisions/0014-sentences.md has the
measurement. A marker right after the end of a sentence belongs to that sentence.
"""

# ruff: noqa: RUF001  (quotation marks and brackets of many scripts)

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from redraft.caching import lazy_pattern
from redraft.domain.grounding.blocks import Block, Layout, code_spans
from redraft.domain.grounding.citation_markers import Marker
from redraft.domain.text.abbreviations import CONTINUED, NEVER_LAST, ORDINALS, STARTERS, WITH_NUMBER

Kind = Literal["statement", "question", "heading", "code", "row", "note"]

_MARKER, _CODE = "\ue000", "\ue001"
# East Asian brackets in pairs. They enclose a quotation within a sentence, or a whole sentence.
_QUOTATIONS = dict(zip("「『《〈｢〝“‘\"＂'", "」』》〉｣〟”’\"＂'", strict=True))
_TITLES = "「『《〈｢〝"
_WIDE_CLOSERS = _QUOTATIONS | dict(zip("（【〔〖〘〚［｛", "）】〕〗〙〛］｝", strict=True))
_PARTICLES = "とっだでのはがをにも、，；。"
# Korean suffixes after a quotation ("said so"), which continue the sentence.
_KOREAN_QUOTATIVES = ("라고", "이라고", "라는", "이라는", "라며", "라면서", "하고")
# `「はい。」「いいえ。」の二つ` is one sentence about both quotations.
# After `と`, the rest of the sentence may be about the last quotation only.
_MORE_QUOTATIONS = lazy_pattern("(?:「[^」]{0,300}」|『[^』]{0,300}』)+(?=[のがはをも])")
# A longer quotation is split into its sentences, because it may contain several statements.
_QUOTE_CHARS_MAX = 300
_CLOSERS = f"“»«›〞\\)\\]*_~\u200b\u200e\u200f\u2060\ufeff{''.join(_WIDE_CLOSERS.values())}"
_OPENERS = "\"'\u2018\u201c\u201e\u00ab\u00bb\u2039\u300c\u300e(\\[\uff08\u3010*_~\u00bf\u00a1"
_BEFORE = "\"'\u2018\u201c\u201e\u00ab\u00bb(*_-/\u2013\u2014"
_WIDE = "\u3002\uff01\uff1f\uff61\uff0e"
_STRONG = "\u061f\u06d4\u0964\u0965\u0589\u1362\u17d4\u104b\u203c\u2047\u2048\u2049"
# Consecutive markers, also with commas: `[1], [2]` and `¹,²`
_MARKS = rf"{_MARKER}(?:[ \t]*(?:[,;][ \t]*)?{_MARKER})*"
_STOP = lazy_pattern(
    rf"(?<![\[(.\u2026])(?P<stop>[.!?\u2026{_WIDE}{_STRONG}]+(?:[ \u00a0]\.)*)(?P<close>[{_CLOSERS}]*)"
    rf"(?P<marks>(?:[ \t]*{_MARKS})?(?:[ \t]*\r?\n[ \t>]*{_MARKS}(?=[ \t]*(?:\r?\n|\Z)))?)"
    r"(?P<gap>\s*)"
)
_NEXT = lazy_pattern(rf"[{_OPENERS}{_MARKER}\s]*(?P<word>[^\W_]*)")
_TOKEN_CHARS_MAX = 40
_QUESTION = lazy_pattern(rf"[?\uff1f\u061f\u2047\u2048\u2049][!\u2026.]*[{_CLOSERS}]*\Z")
_BOLD_LEAD_IN = lazy_pattern(r"(\*\*|__)[^*_\n]{1,80}\1[:\uff1a]?\Z")
_LEAD_IN_WORDS = 15
_LEAD_IN_COUNT = 12
_NUMBER = lazy_pattern(r"\d{1,20}")
_BOLD_LINE = lazy_pattern(r"(\*\*|__)([^*_]{1,120})\1[:\uff1a]?")
_BOLD_WORDS = 5


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its markers, or another part of a text, with its position in characters.

    Attributes:
        kind: `heading` includes a table's head and a lead-in that ends with a colon; `note` is a line of a reference
            list, a definition of a footnote or a link, or markers outside of sentences.
    """

    start: int
    end: int
    text: str
    kind: Kind

    @property
    def states(self) -> bool:
        return self.kind in {"statement", "row"}


def sentences_of(layout: Layout, markers: Sequence[Marker]) -> list[Sentence]:
    """Return the sentences in order. Between them are only white space, markup and signs."""
    masked = _masked(layout, markers)
    found: list[Sentence] = []
    for at, block in enumerate(layout.blocks, 1):
        for start, end in _spans(masked, block):
            kind = _kind(masked, start, end, block, is_final=at == len(layout.blocks))
            _add(found, layout.text, masked, (start, end), kind)
    return found


def _masked(layout: Layout, markers: Sequence[Marker]) -> str:
    """Mask markers and code in a text at the same length, so that full stops in them end no sentence."""
    spans = [(start, end, _CODE) for start, end in code_spans(layout)]
    spans += [(marker.start, marker.end, _MARKER) for marker in markers]
    parts: list[str] = []
    at = 0
    for start, end, char in sorted(spans):
        parts += [layout.text[at:start], char * (end - start)]
        at = end
    return "".join((*parts, layout.text[at:]))


def _spans(masked: str, block: Block) -> Iterator[tuple[int, int]]:
    start = block.start
    for found in _STOP.finditer(masked, block.start, block.end) if block.kind == "prose" else ():
        end = _boundary(masked, found, start, block.end)
        if end is not None:
            yield start, end
            start = end
    yield start, block.end


def _boundary(masked: str, found: re.Match[str], start: int, end: int) -> int | None:
    """Return the position of the next sentence after a full stop, or None if this sentence continues."""
    if found.end() >= end:
        return None
    after = _NEXT.match(masked, found.end(), min(end, found.end() + 100))
    word = after["word"] if after else ""
    is_new_line = "\n" in found["gap"] or "\r" in found["gap"]
    # A word in lower case continues the sentence unless it is a name such as iPhone or pH.
    is_lower = word[:1].islower() and not word[1:2].isupper()
    goes_on = (is_lower or (found["close"] != "" and word.startswith(_KOREAN_QUOTATIVES))) and not is_new_line
    if found["stop"][-1] in _WIDE:
        return _behind_wide(masked, found, start, end)
    is_end = bool(found["gap"] or found["marks"]) and _ends(masked, found, start, word)
    if not is_end or (not is_new_line and _is_in_wide_quotation(masked, found, start, end)):
        return None
    if not goes_on:
        return found.end()
    # The marker in `It floats. [Source 1] says so.` is the subject of the next sentence.
    return found.start("marks") if found["marks"][:1] in {" ", "\t"} and found["stop"][0] != "\u2026" else None


def _behind_wide(masked: str, found: re.Match[str], start: int, end: int) -> int | None:
    """Return the position of the next sentence after an East Asian full stop, or None if this sentence continues.

    The stop may only end a quotation within the sentence: `「やめろ。」の一言だった。`.
    """
    at = found.end("stop")
    open_ones = [opener for opener in _WIDE_CLOSERS if _is_open(masked, opener, start, at)]
    if not open_ones:
        return at if found["close"][:1] in _QUOTATIONS else found.end()
    if found["marks"] or "\n" in found["gap"]:
        return found.end()
    if not found["close"]:
        return None if any(_closes(masked, opener, at, end) for opener in open_ones) else found.end()
    follows = masked[found.end()]
    is_aside = masked[start] in open_ones and masked[start] not in _QUOTATIONS and follows not in _PARTICLES
    is_next = follows in _QUOTATIONS and not _MORE_QUOTATIONS.match(masked, found.end(), end)
    return found.end() if is_aside or is_next else None


def _is_in_wide_quotation(masked: str, found: re.Match[str], start: int, end: int) -> bool:
    """Whether a full stop of another script is within an East Asian quotation or title: `《Hello! Project》`."""
    at = found.end()
    return any(_is_open(masked, each, start, at) and _closes(masked, each, at, end) for each in _TITLES)


def _is_open(text: str, opener: str, start: int, at: int) -> bool:
    closer, start = _WIDE_CLOSERS[opener], max(start, at - _QUOTE_CHARS_MAX)
    opened = text.count(opener, start, at)
    return opened % 2 == 1 if opener == closer else opened > text.count(closer, start, at)


def _closes(text: str, opener: str, at: int, end: int) -> bool:
    return text.find(_WIDE_CLOSERS[opener], at, min(end, at + _QUOTE_CHARS_MAX)) >= 0


# The maximum number of signs before the number of an item: `**1. Bern**`.
_SIGNS_MAX = 20


def _ends(masked: str, found: re.Match[str], start: int, word: str) -> bool:
    """Whether a full stop before this word ends a sentence, or belongs to an abbreviation, an initial or an ordinal."""
    if found["stop"] != "." or found["close"].strip("*_"):
        return True
    at = found.start()
    while at > max(start, found.start() - _TOKEN_CHARS_MAX) and (masked[at - 1].isalnum() or masked[at - 1] in ".°º"):
        at -= 1
    token = masked[at : found.start()]
    is_first = at - start <= _SIGNS_MAX and not any(map(str.isalnum, masked[start:at]))
    if token.isdecimal() and len(token) <= 2 and is_first:
        return False  # `**1. Bern**: …`
    # The letters in `50°C.` and `m².` are units, not initials.
    is_whole = at == start or masked[at - 1].isspace() or masked[at - 1] in _BEFORE
    return not token or not is_whole or _token_ends(token, word)


def _token_ends(token: str, word: str) -> bool:
    short, follower = token.casefold(), word.casefold()
    if token.isdecimal():
        return len(token) > 2 or follower not in ORDINALS
    if short in NEVER_LAST:
        return False
    if short in WITH_NUMBER or short.endswith("str"):
        return not word[:1].isdecimal()
    if short in CONTINUED:
        return follower not in CONTINUED[short]
    is_initials = all(len(part) <= 2 and part.isalpha() for part in token.split("."))
    return not (is_initials and (len(token) == 1 or "." in token)) or follower in STARTERS


def _kind(masked: str, start: int, end: int, block: Block, *, is_final: bool) -> Kind:
    content = masked[start:end].replace(_MARKER, "").strip()
    if block.kind == "heading" and _is_bold_prose(content):
        return "statement"
    if block.kind != "prose":
        return block.kind
    if _QUESTION.search(content):
        return "question"
    is_cited = _MARKER in masked[start:end]
    if not is_cited and _is_lead_in(content, is_last=end == block.end, is_final=is_final):
        return "heading"
    return "statement"


def _is_bold_prose(content: str) -> bool:
    """Whether a bold line is prose. Only a short bold line is a heading. In a heading, only numbers are checked."""
    found = _BOLD_LINE.fullmatch(content)
    if not found or content.rstrip("*_ ")[-1:] in {":", "\uff1a"}:
        return False
    return len(found[2].split()) >= _BOLD_WORDS or sum(char >= "\u3040" for char in found[2]) >= 2 * _BOLD_WORDS


def _is_lead_in(content: str, *, is_last: bool, is_final: bool) -> bool:
    if _BOLD_LEAD_IN.fullmatch(content) and not is_last:
        return True
    ends = content.rstrip("*_ ")[-1:] in {":", "\uff1a"}
    # A line with a larger number is a statement that has to be checked.
    has_numbers = any(int(number) > _LEAD_IN_COUNT for number in _NUMBER.findall(content))
    return is_last and not is_final and ends and len(content.split()) <= _LEAD_IN_WORDS and not has_numbers


def _add(found: list[Sentence], text: str, masked: str, span: tuple[int, int], kind: Kind) -> None:
    start, end = _trimmed(text, *span)
    content = masked[start:end]
    if any(char.isalnum() or char == _CODE for char in content) or (kind in {"code", "note"} and content):
        found.append(Sentence(start, end, text[start:end], kind))
    elif _MARKER in content and found and found[-1].kind in {"statement", "question", "row"}:
        found[-1] = replace(found[-1], end=end, text=text[found[-1].start : end])
    elif _MARKER in content:
        found.append(Sentence(start, end, text[start:end], "note"))


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    # Each line of a block quote begins with `>`.
    while start < end and (text[start].isspace() or text[start] == ">"):
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
