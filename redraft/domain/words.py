"""What a text says, as a set: the stems of its content words and its numbers; for telling whether texts overlap.

No language is guessed: the lists of function words and the endings of several languages are used together.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import unicode_segmentation_rs as segmentation

from redraft.domain.function_words import FUNCTION_WORDS
from redraft.domain.numerals import find_numerals

STEM_CHARS = 6
_WORD_CHARS_MAX = 100

# Scripts without spaces between words: a word of UAX 29 is one character there, so neighbours are taken in pairs.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_UNSPACED_RUNS = re.compile(f"{_UNSPACED.pattern}+")
_KANA = re.compile("[\u3040-\u309f]+")
_HAN_FUNCTION_WORDS = frozenset("的了是在和与與及或也都就而被把对對于於其之这這那有")

# What is left must have four letters.
_ENDINGS = re.compile(r"(?<=\w{4})(?:ingly|edly|ings|ing|ies|ied|ed|es|en|er|em|ly|s|e|n|y)\Z")

# From a digit to white space; what stands before it up to white space tells whether it is a number.
_FROM_DIGIT = re.compile(r"\d\S*(?:[ \u00a0\u2009\u202f]\d\S*)*")
_BEFORE_DIGIT_CHARS_MAX = 40

NUMBER_WORDS = {
    word: float(value)
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve",
        "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze",
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici",
    )
    for value, word in enumerate(words.split())
}


@dataclass(frozen=True, slots=True)
class Said:
    """What a text says.

    Attributes:
        stems: of its content words; pairs of characters in scripts without spaces.
        numbers: as written in digits, each with the values that it can mean, without signs.
        spelled: the values of numbers up to twelve that are written as words.
    """

    stems: frozenset[str]
    numbers: tuple[tuple[str, tuple[float, ...]], ...]
    spelled: frozenset[float]


def is_unspaced(char: str) -> bool:
    """Whether a character is of a script that puts no spaces between words."""
    return _UNSPACED.match(char) is not None


def read_said(text: str) -> Said:
    folded = text.casefold()
    has_unspaced = not text.isascii() and _UNSPACED.search(text) is not None
    parts = segmentation.split_word_bounds(folded) if has_unspaced else segmentation.unicode_words(folded)
    words = [part for part in parts if not part[0].isdecimal()]
    spelled = frozenset(NUMBER_WORDS[word] for word in NUMBER_WORDS.keys() & words)
    return Said(_stems(words, has_unspaced=has_unspaced), tuple(dict(find_numbers(text)).items()), spelled)


def find_numbers(text: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Each number in digits, as written, with the values that it can mean, without signs."""
    spaced = text if text.isascii() else _UNSPACED_RUNS.sub(" ", text)
    for found in _FROM_DIGIT.finditer(spaced):
        start = found.start()
        while start > max(0, found.start() - _BEFORE_DIGIT_CHARS_MAX) and not spaced[start - 1].isspace():
            start -= 1
        plain = spaced[start : found.end()].lstrip("(\"'").rstrip(".,;:!?)\"'")
        if plain.isdecimal():
            yield plain, (float(plain),)
            continue
        for numeral in find_numerals(plain):
            yield numeral.text.strip(), tuple(map(abs, numeral.values))


def _stems(words: list[str], *, has_unspaced: bool) -> frozenset[str]:
    spaced = {word for word in words if word[0].isalnum() and not is_unspaced(word)} if has_unspaced else set(words)
    pairs = _pairs(words) if has_unspaced else ()
    return frozenset((*map(_stem, spaced), *pairs)) - {""}


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    """Empty for a word that says nothing by itself."""
    word = word[:_WORD_CHARS_MAX].replace("\u2019", "'")
    if word in FUNCTION_WORDS:
        return ""
    plain = word.removesuffix("'s").replace("'", "")
    if not plain.isascii():
        plain = "".join(char for char in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(char))
    return _ENDINGS.sub("", plain)[:STEM_CHARS] if len(plain) > 1 else ""


def _pairs(words: list[str]) -> Iterator[str]:
    """Neighbours in scripts without spaces, but for pairs of hiragana, which are endings and particles."""
    before = ""
    for word in words:
        here = word if is_unspaced(word) and word not in _HAN_FUNCTION_WORDS else ""
        pair = before + here
        if before and here and not _KANA.fullmatch(pair):
            yield unicodedata.normalize("NFKC", pair)
        before = here
