"""Find quotes in a source, word for word.

The comparison ignores the encoding of quotation marks, dashes, white space and letters, and invisible characters. Any
other difference counts. docs/grounding.md has the rules.
"""

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from redraft.domain.text.content_words import is_unspaced
from redraft.domain.text.visible_text import visible

# The minimum of letters and digits in a quote, and in each part of a quote with ellipses. Shorter quotes occur in any
# source by chance. Letters of scripts without spaces count twice.
_QUOTE_CHARS_MIN, _PART_CHARS_MIN = 8, 6
# A longer gap would let a quote join distant words into a statement that the source does not make.
_GAP_CHARS_MAX = 300
_PARTS_MAX = 3
# Limits the matches that are skipped because they begin or end within a word. `aaaa…` has a match at each character.
_TRIES_MAX = 1000
_SINGLE = "\u2018\u2019\u201a\u201b\u2032\u02bc\u00b4`\uff07"
_DOUBLE = "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\uff02"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_SAME = {**dict.fromkeys(_SINGLE, "'"), **dict.fromkeys(_DOUBLE, '"'), **dict.fromkeys(_DASHES, "-")}
_SPECIAL = re.compile(r"[ \t\r\n\f\v]+|`|-{2,}|[^\x20-\x7e]")
_ELLIPSIS = re.compile(r"(?<!\s)\s*+(?:\[\s*\.{3,}\s*\]|\(\s*\.{3,}\s*\)|\.{3,}|\. \. \.)\s*")
_OUTER = " \"'"
_FINAL_STOPS = ".,;:!?\u3002\uff0c"


@dataclass(frozen=True, slots=True)
class Quotable:
    """A source, normalised for the search for quotes."""

    text: str  # The source in normal form NFKD, with one spelling for equivalent signs
    places: list[int]  # The positions in `text` where unchanged parts of the source begin, in ascending order
    origins: list[int]  # The positions of these parts in the source

    def origin(self, place: int) -> int:
        """Translate a position in `text` to a position in the source."""
        at = bisect_right(self.places, place) - 1
        after = self.origins[at + 1] if at + 1 < len(self.origins) else None
        origin = self.origins[at] + place - self.places[at]
        return origin if after is None else min(origin, max(after - 1, self.origins[at]))


def read_quotable(source: str) -> Quotable:
    """Normalise a source, and record the original positions of its unchanged parts."""
    parts: list[str] = []
    places, origins = [0], [0]
    length = at = 0
    ends_in_space = True
    for found in _SPECIAL.finditer(source):
        plain, written = source[at : found.start()], " " if found[0].isspace() else _plain(found[0][0])
        if written == " " and (not plain or plain.endswith(" ")) and ends_in_space:
            written = ""
        parts += [plain, written]
        ends_in_space = written == " " or (not written and (plain.endswith(" ") if plain else ends_in_space))
        places += [length + len(plain), length + len(plain) + len(written)]
        origins += [found.start(), found.end()]
        length, at = places[-1], found.end()
    parts.append(source[at:])
    return Quotable("".join(parts), places, origins)


@lru_cache(maxsize=10_000)
def _plain(char: str) -> str:
    if char in _SAME:
        return _SAME[char]
    return unicodedata.normalize("NFKD", char) if visible(char) else ""


def find_quote(quote: str, source: str | Quotable) -> tuple[int, int] | None:
    """Return the position of a quote in the original source, or None.

    An ellipsis stands for up to `_GAP_CHARS_MAX` characters. The parts around it must follow in this order, and the
    position reaches from the first part to the last. The comparison ignores the case of the first letter of each part,
    full stops at the end, and quotation marks around the quote.
    """
    there = read_quotable(source) if isinstance(source, str) else source
    wanted = read_quotable(quote).text.strip(_OUTER)
    for parts in ([wanted], _ELLIPSIS.split(wanted)):
        place = _find_parts([part.strip() for part in parts if part.strip(_OUTER)], there.text)
        if place is not None:
            return there.origin(place[0]), there.origin(place[1] - 1) + 1
    return None


def _find_parts(parts: list[str], text: str) -> tuple[int, int] | None:
    weights = [sum(2 if is_unspaced(char) else 1 for char in part if char.isalnum()) for part in parts]
    if not 1 <= len(parts) <= _PARTS_MAX or sum(weights) < _QUOTE_CHARS_MIN or min(weights) < _PART_CHARS_MIN:
        return None
    start, end = -1, 0
    for part in parts:
        place = _find(part, text, end)
        if place is None or (start >= 0 and place[0] - end > _GAP_CHARS_MAX):
            return None
        start = place[0] if start < 0 else start
        end = place[1]
    return start, end


def _find(part: str, text: str, start: int) -> tuple[int, int] | None:
    bare = part.rstrip(_FINAL_STOPS + _OUTER)
    for wanted in dict.fromkeys((part, bare, part[0].swapcase() + part[1:], bare[:1].swapcase() + bare[1:])):
        at = text.find(wanted, start)
        for _ in range(_TRIES_MAX):
            if at < 0:
                break
            if _is_whole(text, at, at + len(wanted)):
                return at, at + len(wanted)
            at = text.find(wanted, at + 1)
    return None


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a match begins and ends at the bounds of words, so that "able" is not found in "unable"."""
    continues = end < len(text) and unicodedata.combining(text[end]) != 0
    return not (continues or _joins(text, start) or _joins(text, end))


def _joins(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    return before.isalnum() and after.isalnum() and not (is_unspaced(before) or is_unspaced(after))
