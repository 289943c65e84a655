"""Values of number words, so that a source that says "thirteen" holds the number 13.

The lists are short on purpose: answers seldom spell numbers out, and only numbers in digits count against an
answer. docs/decisions/0023-less-analysis-of-grounded-text.md has the reason.
"""

import re
from collections.abc import Iterator, Sequence

# The words start at zero; each line has one language.
_ONES = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
    null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn
    zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize
    cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince
    zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici
"""  # noqa: E501
# The tens start at twenty; each line has one language.
_TENS = """
    twenty thirty forty fifty sixty seventy eighty ninety
    zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig
    vingt trente quarante cinquante soixante
    veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa
    venti trenta quaranta cinquanta sessanta settanta ottanta novanta
"""
_COUNTED = [(word, float(at)) for line in _ONES.splitlines() for at, word in enumerate(line.split())]
_IN_TENS = [(word, 20.0 + 10 * at) for line in _TENS.splitlines() for at, word in enumerate(line.split())]
_VALUES = dict((*_COUNTED, *_IN_TENS))
SCALES = {
    "hundred": 1e2, "thousand": 1e3, "tausend": 1e3, "mille": 1e3, "mil": 1e3, "тысяч": 1e3, "tsd": 1e3,
    "million": 1e6, "millions": 1e6, "millionen": 1e6, "mio": 1e6, "millones": 1e6, "milioni": 1e6, "milhões": 1e6,
    "миллион": 1e6, "миллионов": 1e6, "billion": 1e9, "billions": 1e9, "milliarde": 1e9, "milliarden": 1e9, "mrd": 1e9,
    "milliard": 1e9, "milliards": 1e9, "miliardi": 1e9, "миллиардов": 1e9, "trillion": 1e12,
}  # fmt: skip
"""Factors of words that follow a number: `3 million`, `three million`."""

HAN_SCALES = {"百": 1e2, "千": 1e3, "万": 1e4, "萬": 1e4, "亿": 1e8, "億": 1e8, "兆": 1e12}
_HAN_DIGITS = {char: float(value) for value, char in enumerate("零一二三四五六七八九")} | {"两": 2.0, "十": 10.0}
_HAN_NUMBER = re.compile("[零一二三四五六七八九两十百千万萬亿億兆]{1,40}")


def spelled_values(words: Sequence[str]) -> Iterator[float]:
    """Yield the values of the number words in lower case, including combined ones: `thirty-one`, `two million`."""
    before = 0.0
    for word in words:
        value = _VALUES.get(word, SCALES.get(word, 0.0))
        if word in SCALES:
            value *= before or 1.0
        elif 0 < value < 10 and before in range(20, 100, 10):
            yield before + value
        if value or word in _VALUES:
            yield value
        before = value


def han_values(text: str) -> Iterator[float]:
    """Yield the values of numbers in Chinese characters: `九十七`, `三百万`."""
    for found in _HAN_NUMBER.finditer(text):
        total, section, digit = 0.0, 0.0, 0.0
        for char in found[0]:
            if char in HAN_SCALES and HAN_SCALES[char] >= 1e4:
                total, section, digit = total + (section + digit or 1.0) * HAN_SCALES[char], 0.0, 0.0
            elif char in HAN_SCALES or char == "十":
                section, digit = section + (digit or 1.0) * HAN_SCALES.get(char, 10.0), 0.0
            else:
                digit = _HAN_DIGITS[char]
        yield total + section + digit
