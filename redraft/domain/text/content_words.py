"""Extract the word stems and numbers of a text, from which the overlap of two texts is computed.

The function words and endings of all supported languages apply to every text, because its language is not known.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import unicode_segmentation_rs as segmentation

from redraft.domain.numbers.number_words import han_values, spelled_values
from redraft.domain.numbers.quantities import UNSPACED, Number, find_numbers
from redraft.domain.text.function_words import FUNCTION_WORDS

STEM_CHARS = 6
_WORD_CHARS_MAX = 100

# By UAX 29 each character of these scripts is a word, so pairs of neighbouring characters serve as words.
_UNSPACED = re.compile(f"[{UNSPACED}]")
_KANA = re.compile("[\u3040-\u309f]+")
_HAN_FUNCTION_WORDS = frozenset("的了是在和与與及或也都就而被把对對于於其之这這那有")

# At least four letters must remain, or different short words would become equal.
_ENDINGS = re.compile(r"(?<=\w{4})(?:ingly|edly|ings|ing|ies|ied|ed|es|en|er|em|ly|s|e|n|y)\Z")


@dataclass(frozen=True, slots=True)
class TextContent:
    """The content of a text."""

    stems: frozenset[str]  # The stems of its content words, or pairs of characters in scripts without spaces
    amounts: tuple[Number, ...]  # Its numbers in digits and in signs for numbers
    spelled: frozenset[float]  # The values of the numbers that are written as words

    @property
    def numbers(self) -> tuple[tuple[str, tuple[float, ...]], ...]:
        """The numbers as written, each with its possible values without sign."""
        return tuple((amount.text, amount.values) for amount in self.amounts)


def is_unspaced(char: str) -> bool:
    """Whether a character belongs to a script without spaces between words."""
    return _UNSPACED.match(char) is not None


def read_content(text: str) -> TextContent:
    """Extract the stems and numbers of a text in any language."""
    folded = text.casefold()
    has_unspaced = not text.isascii() and _UNSPACED.search(text) is not None
    # `split_word_bounds` also returns the characters of unspaced scripts, from which the pairs are built.
    parts = segmentation.split_word_bounds(folded) if has_unspaced else segmentation.unicode_words(folded)
    words = [part for part in parts if not part[0].isdecimal()]
    spelled = frozenset((*spelled_values(words), *(han_values(text) if has_unspaced else ())))
    pairs = _pairs(words) if has_unspaced else ()
    spaced = {word for word in words if word[0].isalnum() and not is_unspaced(word)} if has_unspaced else set(words)
    stems = frozenset((*map(_stem, spaced), *pairs)) - {""}
    return TextContent(stems, tuple(dict.fromkeys(find_numbers(text))), spelled)


def stem(word: str) -> str:
    return _stem(word.casefold())


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    """Return the stem of a word; empty for a function word and a single letter."""
    word = word[:_WORD_CHARS_MAX].replace("\u2019", "'")
    if word in FUNCTION_WORDS:
        return ""
    plain = word.removesuffix("'s").replace("'", "")
    if not plain.isascii():
        plain = "".join(char for char in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(char))
    return _ENDINGS.sub("", plain)[:STEM_CHARS] if len(plain) > 1 else ""


def _pairs(words: list[str]) -> Iterator[str]:
    """Yield pairs of neighbours in scripts without spaces, except hiragana, which are endings and particles."""
    before = ""
    for word in words:
        here = word if is_unspaced(word) and word not in _HAN_FUNCTION_WORDS else ""
        pair = before + here
        if before and here and not _KANA.fullmatch(pair):
            yield unicodedata.normalize("NFKC", pair)
        before = here
