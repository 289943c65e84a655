r"""Count words, characters, lines, list items and URLs of a text, and compute its reading grade.

Texts are compared and counted in one normal form: NFC, with `\n` for each kind of line end.
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

import unicode_segmentation_rs as segmentation

_LINE_END = re.compile("\r\n?|[\x85\u2028\u2029]")
# Normalisation of a run of combining marks takes quadratic time. Runs of 32 or more, which no script has, stay as they
# are.
_RUN_OF_MARKS = re.compile(r"([^\w\s\x00-\x7f]{32,})")

_ITEM = re.compile(r"[\s>]*(?:[-*+•\u2013]|\d{1,9}[.)])\s+\S")
_RULE = re.compile(r"\s*([-*])(?:\s*\1){2,}\s*")
_FENCE = re.compile(r"\s*(?:[-*+•\u2013]\s+|\d{1,9}[.)]\s+)?(`{3,}|~{3,})(.*)")

# Without a scheme, only names of common top-level domains count as URLs, because file names such as `main.rs` do not.
_DOMAINS = "com|org|net|edu|gov|mil|int|info|biz|io|dev|app|ai"
_URL = re.compile(
    r"(?:(?i:https?|ftp)://|(?i:mailto):|(?<![\w.@-])(?i:www\.)(?=\w))[^\s<>\"'`]+"
    rf"|(?<![\w.@/-])(?:\w[\w-]*\.)+(?:{_DOMAINS})(?![\w-])(?!\.\w)"
)
_VOWELS = re.compile("[aeiouy]+")
_MUTE_END = re.compile(r"(?:[^laeiouy]e|[^aeiouytd]ed|[^aeiouyscxzgh]es)\Z")


def normal(text: str) -> str:
    r"""Return the form in which texts are compared: NFC, `\n` for each line end."""
    text = _LINE_END.sub("\n", text)
    parts = _RUN_OF_MARKS.split(text)
    return "".join(part if at % 2 else unicodedata.normalize("NFC", part) for at, part in enumerate(parts))


def fold_case(text: str) -> str:
    # Case folding does not keep the normal form, so it comes first.
    return normal(text.casefold())


def count_words(text: str) -> int:
    """Count the words of UAX 29 that contain a letter or a digit."""
    return len(segmentation.unicode_words(text))


def count_chars(text: str) -> int:
    """Count characters as people see them: the extended grapheme clusters of UAX 29."""
    return len(segmentation.graphemes(text, True))


def last_chars(text: str, chars: int) -> str:
    """Return `…` and the last characters, or the whole text if it is short enough."""
    # Segmenting a long text takes long, and a visible character has seldom more than 20 code points.
    seen: list[str] = segmentation.graphemes(text[-20 * chars :], True)
    tail = "".join(seen[-chars:])
    return tail if len(tail) == len(text) else "…" + tail


def count_items(text: str) -> int:
    """Count list items at any depth outside of code fences: lines that begin with a bullet or a number."""
    return sum(1 for line in _lines_outside_fences(text) if _ITEM.match(line) and not _RULE.fullmatch(line))


def _lines_outside_fences(text: str) -> list[str]:
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not fence:
            lines.append(line)
            fence = found[1] if found else ""
        elif found and found[1].startswith(fence) and not found[2].strip():
            fence = ""
    return lines


def find_urls(text: str) -> list[str]:
    """Return the URLs in a text: `https://…`, `www.…`, `mailto:…`, `example.org`."""
    return [found[0].rstrip(".,;:!?)]}") for found in _URL.finditer(text)]


@dataclass(frozen=True, slots=True)
class Reading:
    """The readability of an English text. The grade is the Flesch-Kincaid grade, in years of school."""

    grade: float
    words_per_sentence: float
    syllables_per_word: float


def read_grade(text: str) -> Reading | None:
    """Compute the reading grade of a text. Return None for a text without words."""
    words = Counter(word.casefold() for word in segmentation.unicode_words(text))
    total = words.total()
    if not total:
        return None
    sentences = max(1, sum(1 for each in segmentation.unicode_sentences(text) if any(map(str.isalnum, each))))
    length = total / sentences
    weight = sum(count_syllables(word) * times for word, times in words.items()) / total
    # The formula of Kincaid et al. (1975), for English.
    return Reading(0.39 * length + 11.8 * weight - 15.59, length, weight)


def count_syllables(word: str) -> int:
    """Count groups of vowels, without a mute ending: `cake` has 1, `table` 2, `wanted` 2, `jumped` 1."""
    plain = "".join(char for char in unicodedata.normalize("NFD", word[:100].casefold()) if char.isalpha())
    groups = len(_VOWELS.findall(plain))
    return max(1, groups - 1 if groups > 1 and _MUTE_END.search(plain) else groups)
