"""Read numbers in digits. A number with an ambiguous comma, `1,234`, has two values."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPACES = " \u00a0\u2009\u202f"
_QUOTES = "'\u2019"
_MINUS = "-\u2212\u2013"
_ARABIC = str.maketrans({"\u066b": ".", "\u066c": "'"})
_NUMBER = re.compile(
    rf"(?<![\w.,])(?<![^\W\d_][-\u2013])(?P<sign>(?<!\w)[{_MINUS}+])?"
    rf"(?P<digits>(?:\d{{1,3}}(?:[{_SPACES}{_QUOTES}]\d{{3}}(?!\d))+|\d+)(?:[.,]\d+)*|\.\d+)"
    r"(?P<power>[eE][+-]?\d{1,4}(?![\w]))?"
)
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_APART = re.compile(rf"[{_SPACES}{_QUOTES}]")


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number in a text that begins at `start`, with its possible values: one, or two for `1,234`."""

    text: str
    values: tuple[float, ...]
    start: int = 0


def find_numerals(text: str) -> Iterator[Numeral]:
    """Yield the numbers in a text, without parts of words, versions, dates and addresses: `H2O`, `1.2.3`."""
    for found in _NUMBER.finditer(text.translate(_ARABIC)):
        readings = _readings(_APART.sub("", found["digits"]))
        if readings:
            sign = "-" if found["sign"] and found["sign"] in _MINUS else ""
            values = tuple(float(sign + digits + (found["power"] or "")) for digits in readings)
            yield Numeral(found[0], values, found.start())


def _readings(digits: str) -> list[str]:
    separators, bare = re.findall("[.,]", digits), re.sub("[.,]", "", digits)
    if not separators:
        return [digits]
    if len(set(separators)) == 2:
        # The last separator is the decimal separator: `1,234.56` and `1.234,56`.
        whole, _, fraction = digits.rpartition(separators[-1])
        is_number = separators.count(separators[-1]) == 1 and _GROUPED.fullmatch(whole)
        return [f"{re.sub('[.,]', '', whole)}.{fraction}"] if is_number else []
    if len(separators) > 1:
        return [bare] if _GROUPED.fullmatch(digits) else []
    decimal = digits.replace(",", ".")
    is_ambiguous = separators == [","] and _GROUPED.fullmatch(digits) and int(digits[0]) != 0
    return [bare, decimal] if is_ambiguous else [decimal]
