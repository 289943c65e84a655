"""Distinguish superscripts that cite, `floats.²`, from powers, `m²`."""

import re
from collections.abc import Iterator

from redraft.caching import lazy_pattern
from redraft.domain.grounding.reference_lists import PLAIN_DIGITS, SUPERSCRIPTS

_RUN = lazy_pattern(rf"[{SUPERSCRIPTS}]+(?:\u207b[{SUPERSCRIPTS}]+)?")
# Separators of consecutive superscripts: `¹,²`, `¹˒²` and `¹ ²`.
_BETWEEN = lazy_pattern("[,\u02d2\u2e34 \u2009\u202f]{1,2}")

# After a function or a unit a superscript is a power.
_FUNCTIONS = "sin|cos|tan|cot|sec|csc|sinh|cosh|tanh|log|exp"
_UNITS = "f(?:oo|ee)t|inch(?:es)?|miles?|yards?|(?:kilo|centi|milli|quadrat)?met(?:er|re)s?|seconds?"
_RAISED = lazy_pattern(f"{_FUNCTIONS}|{_UNITS}", re.IGNORECASE)
# After a year or a time of day a superscript cites; after another number it may be a power.
_YEAR = lazy_pattern(r"(?<![\d,^])(?:1\d|20)\d\d\Z|:\d\d\Z")
# Short words that are neither units nor products such as `mc²`; formulas such as `CO₂` count as words.
_SHORT_WORD = lazy_pattern(
    r"[\u2080-\u2089]\Z|°[CF]\Z|\b(?:[Ii][st]|[Ss]o|do|up|us|me|on|no|be|am|an|da|ja|UK|U\.?S|EU|UN|AI|AD|CE|TV)\Z|(?<!\d)\d{2,4}['\u2019]?s\Z"
)
_LAST_WORD = lazy_pattern(r"(?<![^\W_])[^\W_]++\Z")
_IDEOGRAPH = lazy_pattern("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_RAISED_IDEOGRAPHS = "米里尺寸"
_CLOSERS = frozenset("*_)\uff09\u201d\u2019\"'")
_NO_END = frozenset("/\\-\u207a\u207b\u2010\u2011\u2012\u2013\u2014\u2212([{<*_@#&^~=+|")


def superscripts(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield the superscripts that can be citations: start, end, first and last number."""
    before = -1
    for found in _RUN.finditer(text):
        goes_on = before >= 0 and _BETWEEN.fullmatch(text, before, found.start())
        if goes_on or can_be_cited(text, found.start()):
            before = found.end()
            first, _, last = found[0].translate(PLAIN_DIGITS).partition("\u207b")
            if len(first) <= 40 and len(last) <= 40:
                yield found.start(), found.end(), int(first), int(last or first)


def can_be_cited(text: str, at: int) -> bool:
    """Whether a superscript can be a citation: it follows punctuation or a word, not a unit or a number."""
    while at > 0 and text[at - 1] in _CLOSERS:
        at -= 1
    before = text[at - 1] if at else " "
    if not before.isalnum():
        return not before.isspace() and before not in _NO_END
    found = _LAST_WORD.search(text[max(0, at - 40) : at])
    word = found[0] if found else ""
    if _IDEOGRAPH.match(before):
        return before not in _RAISED_IDEOGRAPHS
    if word.isdecimal():
        return _YEAR.search(text, max(0, at - 6), at) is not None
    if _SHORT_WORD.search(text, max(0, at - 8), at):
        return True
    return len(word) >= 3 and word.isalpha() and not _RAISED.fullmatch(word)
