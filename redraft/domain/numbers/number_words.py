"""Numbers written as words, in English, German, French, Spanish and Italian, and in Chinese characters."""

# ruff: noqa: RUF001  (Chinese and Cyrillic letters)

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_EN = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen"""
_EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_DE = """null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn
    achtzehn neunzehn"""
_DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
_FR = """zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit
    dix-neuf"""
_FR_TENS = "vingt trente quarante cinquante soixante septante huitante nonante"
_ES = """cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete
    dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete
    veintiocho veintinueve"""
_ES_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa"
_ES_HUNDREDS = "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
_IT = """zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici
    diciassette diciotto diciannove"""
_IT_TENS = "venti trenta quaranta cinquanta sessanta settanta ottanta novanta"
_FROM_1 = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
    fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"""


def _counted(words: str, first: int = 0, step: int = 1) -> dict[str, float]:
    return {word: float(first + step * at) for at, word in enumerate(words.split())}


_SCALES = {
    "hundred": 1e2, "hundert": 1e2, "cent": 1e2, "cents": 1e2, "cento": 1e2,
    "thousand": 1e3, "tausend": 1e3, "mille": 1e3, "mil": 1e3, "mila": 1e3,
    "million": 1e6, "millions": 1e6, "millionen": 1e6, "millón": 1e6, "millones": 1e6, "milione": 1e6, "milioni": 1e6,
    "milhão": 1e6, "milhões": 1e6, "miljoen": 1e6, "миллион": 1e6, "миллиона": 1e6, "миллионов": 1e6,
    "billion": 1e9, "billions": 1e9, "milliarde": 1e9, "milliarden": 1e9, "milliard": 1e9, "milliards": 1e9,
    "miliardo": 1e9, "miliardi": 1e9, "миллиард": 1e9, "миллиарда": 1e9, "миллиардов": 1e9,
    "trillion": 1e12, "trillions": 1e12, "billionen": 1e12, "billones": 1e12,
}  # fmt: skip
SCALES = {**_SCALES, "тысяча": 1e3, "тысячи": 1e3, "тысяч": 1e3, "tsd": 1e3, "mio": 1e6, "mrd": 1e9}
"""What stands behind a number in digits: `3 million`."""

_ONCE_MEANT_OTHERWISE = frozenset({"seize", "cent", "cents", "mil", "mille", "vente"})
_ORDINALS = _counted(_FROM_1, 1)
_HALVES: dict[str, float] = dict.fromkeys(
    ("half", "halbe", "halben", "halb", "demi", "moitié", "medio", "media", "mezzo"), 0.5
)
_HUNDRED = 100
_PLURALS = frozenset({"cents", "millions", "billions"})
_WORDS_MAX = 20
_AND = {"and": 100, "et": 20, "y": 30}
"""What may stand between the parts of a number, and from which value on."""


def _small() -> dict[str, float]:
    words = _counted(_EN) | _counted(_DE) | _counted(_FR) | _counted(_ES) | _counted(_IT)
    german, italian = _counted(_DE_TENS, 20, 10), _counted(_IT_TENS, 20, 10)
    words |= _counted(_EN_TENS, 20, 10) | german | italian | _counted(_FR_TENS, 20, 10) | _counted(_ES_TENS, 30, 10)
    words |= _counted(_ES_HUNDREDS, 100, 100) | {"vingts": 20.0, "octante": 80.0, "cien": 100.0}
    for ones in range(1, 10):
        words |= {f"{_DE.split()[ones]}und{ten}": value + ones for ten, value in german.items()}
        unit = _IT.split()[ones]
        words |= {(ten[:-1] if unit[0] in "uo" else ten) + unit: value + ones for ten, value in italian.items()}
    return words | {word.replace("ß", "ss"): value for word, value in words.items()}


_SMALL = _small()
_WORDS = frozenset(_SMALL.keys() | _SCALES.keys() | _ORDINALS.keys() | _HALVES.keys())

_HAN_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
HAN_SCALES = {"百": 1e2, "千": 1e3, "万": 1e4, "萬": 1e4, "亿": 1e8, "億": 1e8, "兆": 1e12}
_HAN_NUMBER = re.compile("[零〇一二三四五六七八九两兩十百千万萬亿億兆]+")


@dataclass(frozen=True, slots=True)
class Spelled:
    """A number in words.

    Attributes:
        first: the index of its first word.
        last: the index behind its last word.
        is_sure: it cannot be anything but a number: neither `a thousand thanks` nor `to seize`.
    """

    value: float
    first: int
    last: int
    is_sure: bool


def find_spelled(words: Sequence[str]) -> Iterator[Spelled]:
    """Numbers among the words of a text, in lower case, one after the other."""
    at = -1
    for index, word in enumerate(words):
        if index > at and (word in _WORDS or "hundert" in word or "tausend" in word):
            found = _read(words, index)
            if found:
                yield found
                at = found.last - 1


def _read(words: Sequence[str], first: int) -> Spelled | None:
    total, current, at = 0.0, 0.0, first
    is_plain = False
    for at in range(first, min(len(words), first + _WORDS_MAX)):
        word = words[at]
        value = _SMALL.get(word, _german(word))
        if value is not None and (at == first or _adds(total, current, value, words[at - 1])):
            current = 80.0 if current == 4 and value == 20 else current + value
            is_plain = is_plain or word not in _ONCE_MEANT_OTHERWISE
        elif word in _SCALES and (at > first or word not in _PLURALS):
            total, current = _times(total, current, _SCALES[word])
        elif not _joins(words, at, total, current):
            break
    else:
        at = min(len(words), first + _WORDS_MAX)
    if at == first:
        value = _HALVES.get(words[first], _ORDINALS.get(words[first]))
        return Spelled(value, first, first + 1, is_sure=False) if value is not None else None
    ordinal = _ORDINALS.get(words[at], 0.0) if at < len(words) else 0.0
    if current >= 20 and _adds(total, current, ordinal, ""):  # `twenty-first`
        return Spelled(total + current + ordinal, first, at + 1, is_sure=False)
    return Spelled(total + current, first, at, is_plain)


def _times(total: float, current: float, scale: float) -> tuple[float, float]:
    if scale == _HUNDRED:
        return total, max(current, 1) * scale
    return total + max(current, 1) * scale, 0.0


def _joins(words: Sequence[str], at: int, total: float, current: float) -> bool:
    """Whether `and` and the like stand here within a number."""
    following = _SMALL.get(words[at + 1]) if at + 1 < len(words) else None
    is_behind = words[at] in _AND and max(total, current) >= _AND[words[at]]
    return is_behind and following is not None and _adds(total, current, following, words[at - 1])


def _adds(total: float, current: float, value: float, before: str) -> bool:
    """Whether a number goes on: `ninety` and `seven`, `two hundred` and `five`, `quatre` and `vingt`."""
    rest = current % 100
    if current == 0:
        return total > 0 and value < 1000
    if current == 4 and value == 20:
        return before == "quatre"
    if rest == 0:
        return value < 100
    if rest in {60, 80} and 10 <= value < 20:
        return before in {"soixante", "vingt", "vingts", "et"}
    return rest >= 20 and rest % 10 == 0 and 0 < value < 10


_GERMAN = re.compile(
    r"(?:(?P<thousands>.{0,40})(?P<t>tausend)(?:und)?)?(?:(?P<hundreds>.{0,40}?)(?P<h>hundert)(?:und)?)?(?P<rest>.{0,40})"
)


def _german(word: str) -> float | None:
    """`zweitausendfünfhundertdreizehn`; not `Jahrhundert`."""
    found = _GERMAN.fullmatch(word)
    if not found or not (found["t"] or found["h"]):
        return None
    times = 1.0 if not found["thousands"] else _SMALL.get(found["thousands"], _german(found["thousands"]))
    hundreds = _SMALL.get(found["hundreds"] or "ein") if found["h"] else 0.0
    rest = _SMALL.get(found["rest"] or "null")
    if times is None or hundreds is None or rest is None:
        return None
    return (1000 * times if found["t"] else 0) + 100 * hundreds + rest


def find_han(text: str) -> Iterator[tuple[str, float, bool]]:
    """Numbers in Chinese characters, with whether they must be meant as such: `百万` and `一` can be mere words."""
    for found in _HAN_NUMBER.finditer(text):
        value = _han(found[0]) if len(found[0]) < 40 else None
        if value is not None:
            digits = sum(1 for char in found[0] if char in _HAN_DIGITS)
            yield found[0], value, digits > 0 and (digits < len(found[0]) > 1 or digits > 2)


def _han(text: str) -> float | None:
    if all(char in _HAN_DIGITS for char in text):
        return float("".join(str(_HAN_DIGITS[char]) for char in text))
    total, section, digit = 0.0, 0.0, 0.0
    is_digit = False
    for char in text:
        if char in _HAN_DIGITS:
            if is_digit and digit:
                return None
            digit, is_digit = float(_HAN_DIGITS[char]), True
            continue
        if char in _HAN_UNITS:
            section += (digit if is_digit and digit else 1.0) * _HAN_UNITS[char]
        else:
            total = total + max(section + digit, 1.0) * HAN_SCALES[char]
            section = 0.0
        digit, is_digit = 0.0, False
    return total + section + digit
