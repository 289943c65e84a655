"""Read numbers with their meaning: `3 million`, `4:20 pm`, `1.2.2024`, `the 1840s`, `over 134,000`, `½`.

Only the grounding rule uses these values; `redraft.domain.numbers.numerals` reads plain digits.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, prod

from redraft.caching import lazy_pattern
from redraft.domain.numbers.number_words import HAN_SCALES, SCALES
from redraft.domain.numbers.numerals import find_numerals

# The text from a digit up to white space. The characters before the digit decide whether this text is a number.
_FROM_DIGIT = lazy_pattern(r"\d\S*(?:[ \u00a0\u2009\u202f]\d\S*)*")
_BEFORE_DIGIT_CHARS_MAX = 40
_BEHIND_CHARS = 20
UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of scripts without spaces between words, as a part of a regular expression."""

_UNSPACED_RUNS = lazy_pattern(f"[{UNSPACED}]+")
_ROUND_IT = " .,;:!?()\"'*_"
_S = "[ \u00a0\u2009\u202f]?"
_DASH = "[-\u2010-\u2015/]"

_SPECIAL = lazy_pattern(
    r"(?<![\w.,:/])(?:"
    r"(?P<date>(?P<day>\d{1,2})(?P<point>[./])(?P<month>\d{1,2})(?P=point)(?P<year>\d{4}|\d{2})"
    r"|(?P<iso_year>\d{4})(?P<dash>[-/.])(?P<iso_month>\d{1,2})(?P=dash)(?P<iso_day>\d{1,2}))(?![\w/]|[.,]\d)"
    rf"|(?P<hour>\d{{1,2}})(?:[:.](?P<minute>\d{{2}}))?{_S}(?P<half>[ap])\.?m\b"
    r"|(?P<dotted_hour>\d{1,2})\.(?P<dotted_minute>\d{2})(?=[ \u00a0]?(?:uhr|h)\b)"
    r"|(?P<whole_hour>\d{1,2})[:h]00(?![\w:]|[.,]\d)"
    rf"|(?P<first_year>\d{{4}}){_S}{_DASH}{_S}(?P<last_year>\d{{2}})(?![\w]|[.,:]\d)"
    r"|(?P<decade>\d{3}0)(?:['\u2019]?s|er)\b"
    rf"|(?P<century>\d{{1,2}})(?:st|nd|rd|th|\.|e|ème)?[ \u00a0-](?:century|centuries|jahrhundert|jh\b|siècle)"
    r")",
    re.IGNORECASE,
)
_CODE = lazy_pattern(r"(?<![^\W_])[^\W\d_]{1,20}[-\u2010-\u2013]?(\d{2,6})(?![\w])")
_SCALE = lazy_pattern(
    rf"{_S}-?(?:(?P<word>{'|'.join(sorted(SCALES, key=len, reverse=True))})\b|(?P<short>bn|mn|[kmb])\b"
    rf"|(?P<han>[{''.join(HAN_SCALES)}]{{1,2}}))",
    re.IGNORECASE,
)
_THOUSANDS = lazy_pattern(r"\D?[1-9]\d{0,2}[.,]\d{2}0")
_SHORT = {"k": 1e3, "m": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9}
_ROUNDED = lazy_pattern(
    r"(?:\b(?:(?P<down>over|more than|above|at least|upwards? of|mehr als|über|mindestens|plus de|más de|oltre|più di)"
    r"|(?P<up>nearly|almost|just under|close to|fast|knapp|beinahe|presque|casi|quasi)"
    r"|(?:about|around|approximately|approx\.|roughly|some|circa|ca?\.|etwa|rund|ungefähr|zirka|environ|près de"
    r"|autour de|unos|unas|alrededor de|aproximadamente|cerca de))|(?P<sign>[~≈]))[ \u00a0$€£¥]{0,3}\Z",
    re.IGNORECASE,
)
_ROUNDED_CHARS = 20
_SIGNS = lazy_pattern("[\u00bc-\u00be\u2150-\u2189\u2460-\u249b\u24ea-\u24ff\u2776-\u2793]")
_MONTHS = (
    "january januar janvier enero", "february februar février febrero", "march märz mars marzo",
    "april avril abril", "", "june juni juin junio", "july juli juillet julio", "august août agosto",
    "september septembre septiembre", "october oktober octobre octubre", "november novembre noviembre",
    "december dezember décembre diciembre",
)  # fmt: skip
_MAY = 5


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a text. A source contains the number if it has one of its values.

    Attributes:
        values: its possible values without sign.
        bare: further values, which count only in a source: the 3 of `3 million` in a source supports a 3 in an answer.
        low: the lower end of the range of a rounded number, a decade or a century; `high` is the upper end.
        names: words that a source may contain instead of the number: the names of a month.
    """

    text: str
    values: tuple[float, ...]
    bare: tuple[float, ...] = ()
    low: float = inf
    high: float = -inf
    names: tuple[str, ...] = ()


def find_numbers(text: str) -> Iterator[Number]:
    """Yield each number in digits or in signs for numbers, in no order."""
    if not text.isascii():
        for sign in _SIGNS.finditer(text):
            yield Number(sign[0], (round(unicodedata.numeric(sign[0]), 6),))
        text = _SIGNS.sub(" ", text)
    spaced = text if text.isascii() else _UNSPACED_RUNS.sub(lambda found: " " * len(found[0]), text)
    for found in _FROM_DIGIT.finditer(spaced):
        start = found.start()
        while start > max(0, found.start() - _BEFORE_DIGIT_CHARS_MAX) and not spaced[start - 1].isspace():
            start -= 1
        yield from _in_chunk(text, spaced, start, found.end())


def _in_chunk(text: str, spaced: str, start: int, end: int) -> Iterator[Number]:
    chunk = spaced[start:end]
    specials = [
        found for found in _SPECIAL.finditer(spaced, start, min(len(text), end + _BEHIND_CHARS)) if found.start() < end
    ]
    parts: list[str] = []
    at = 0
    for found in specials:
        yield from _special(found)
        first, last = found.start() - start, min(found.end(), end) - start
        parts += [chunk[at:first], " " * (last - first)]
        at = last
    chunk = "".join((*parts, chunk[at:]))
    plain = chunk.strip(_ROUND_IT)
    if plain.isdecimal():
        first = start + chunk.index(plain)
        yield _in_context(text, plain, (float(plain),), first, first + len(plain))
        return
    for code in _CODE.finditer(chunk):
        yield Number(code[0], (float(code[1]),))
    for numeral in find_numerals(chunk):
        shown = numeral.text.strip()
        at = start + numeral.start
        first = at + len(numeral.text) - len(numeral.text.lstrip())
        yield _in_context(text, shown, tuple(map(abs, numeral.values)), first, at + len(numeral.text))


def _in_context(text: str, shown: str, values: tuple[float, ...], start: int, end: int) -> Number:
    if "." in shown and re.fullmatch(r"\D?[1-9]\d{0,2}\.\d{3}", shown):
        values = (*values, float(re.sub(r"\D", "", shown)))
    bare: tuple[float, ...] = ()
    if _THOUSANDS.fullmatch(shown):  # `5,000` is not 5: decimals seldom end with a zero.
        bare, values = values, (float(re.sub(r"\D", "", shown)),)
    scale = _SCALE.match(text, end)
    if scale:
        scaled = tuple(round(value * _factor(scale), 6) for value in values)
        bare, values = ((*bare, *values), scaled) if not scale["short"] else (bare, (*values, *scaled))
    rounded = _ROUNDED.search(text, max(0, start - _ROUNDED_CHARS), start)
    if not rounded:
        return Number(shown, values, bare)
    value, margin = values[0], values[0] / 10
    low, high = value - (0 if rounded["down"] else margin), value + (0 if rounded["up"] else margin)
    return Number(shown, values, bare, low, high)


def _factor(scale: re.Match[str]) -> float:
    if scale["word"]:
        return SCALES[scale["word"].lower()]
    if scale["short"]:
        return _SHORT[scale["short"].lower()]
    return prod(HAN_SCALES[char] for char in scale["han"])


def _special(found: re.Match[str]) -> Iterator[Number]:
    if found["date"]:
        yield from _date(found)
    elif found["hour"]:
        hour = int(found["hour"]) % 12 + (12 if found["half"] in "pP" else 0)
        yield Number(found[0], (float(hour), float(found["hour"])))
        if found["minute"] and int(found["minute"]):
            yield Number(found["minute"], (float(found["minute"]),))
    elif found["dotted_hour"] or found["whole_hour"]:
        names = ("dotted_hour", "dotted_minute", "whole_hour")
        yield from (Number(found[0], (float(found[name]),)) for name in names if found[name])
    elif found["first_year"]:
        first, last = found["first_year"], found["last_year"]
        yield Number(first, (float(first),))
        yield Number(found[0], (float(last), float(first[:2] + last)))
    elif found["decade"]:
        decade = float(found["decade"])
        yield Number(found[0], (decade,), low=decade, high=decade + 9)
    else:
        century = float(found["century"])
        yield Number(found[0], (century,), low=100 * century - 100, high=100 * century)


def _date(found: re.Match[str]) -> Iterator[Number]:
    year, month, day = (found[name] or found[f"iso_{name}"] for name in ("year", "month", "day"))
    centuries = (1900.0, 2000.0) if len(year) == 2 else ()
    yield Number(found[0], (float(year), *(century + float(year) for century in centuries)))
    yield _month(found[0], int(month))
    # `2/1/2024` begins with the month in the United States, so both parts may be the month.
    yield _month(found[0], int(day)) if found["point"] == "/" else Number(found[0], (float(day),))


def _month(shown: str, value: int) -> Number:
    if value == _MAY:  # "may" is a function word and has no stem, so any source matches.
        return Number(shown, (float(value),), low=-inf, high=inf)
    names = tuple(_MONTHS[value - 1].split()) if 1 <= value <= len(_MONTHS) else ()
    return Number(shown, (float(value),), names=names)
