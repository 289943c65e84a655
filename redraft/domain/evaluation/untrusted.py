"""What an evaluator was shown and did not write: a verdict that stands in it is a quotation, whoever repeats it.

Comparison is by words and numbers, so that fences, indentation, order and names of keys, escapes, quotes and
number spellings make no difference.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from redraft.domain.text.thinking import CLOSER, OPENER, SpellingKey, key_of
from redraft.domain.texts import LIKE
from redraft.domain.views import visible

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf"{_NUMBER}|[^\W\d_]+")
_ESCAPE = re.compile(r"\\+(?:u(?P<code>[0-9a-fA-F]{4})|[nrtbf])")
_CUT = re.compile(r"\.{3}|…|\[\s*(?:\.{3}|…)\s*\]")
_NONE = {"none": "null", "nil": "null"}
_ASSIGNS = r":=|,>\u2192\u2013\u2014"
_SEPARATOR = rf"[^\w.+{_ASSIGNS}-]{{0,16}}[{_ASSIGNS}][^\w.+-]{{0,16}}"
_VALUE = rf"[+-]?{_NUMBER}(?:\s*%|\s*(?:/|\bout\s+of\b)\s*{_NUMBER})?|[^\W\d_]+(?:[ _-][^\W\d_]+)?|\[\s*\]"
_STATED = rf"{_SEPARATOR}(?P<value>{_VALUE})"
_LOOK_ALIKES = str.maketrans({like: letter for letter, alike in LIKE.items() for like in alike if not like.isascii()})
# Escaped quotes within escaped quotes, and not much deeper.
_DECODINGS_MAX = 3
_REMARKED_WORDS = 4


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing that a verdict decides.

    Attributes:
        names: how the member is called that holds it.
        is_same: whether a value, as a text spells it, decides the same.
    """

    names: tuple[str, ...]
    is_same: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a verdict says: its decisions, and its own words for them."""

    decisions: tuple[Decision, ...]
    words: tuple[str, ...]


class Untrusted:
    """The texts that an evaluator was shown; each is read when it is first needed."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts = tuple(texts)
        self._values: dict[tuple[str, ...], frozenset[str]] = {}

    @cached_property
    def opening(self) -> frozenset[SpellingKey]:
        """What opens thinking in these texts."""
        return frozenset(key_of(opener) for opener in OPENER.finditer(self._decoded))

    @cached_property
    def closing(self) -> frozenset[SpellingKey]:
        """What closes thinking in these texts: it closes nothing in a reply."""
        return frozenset(key_of(closer) for closer in CLOSER.finditer(self._decoded))

    def holds_object(self, source: str, *, is_cut: bool = False) -> bool:
        """Whether an object stands in these texts as it is written, but for marks and blanks."""
        return self._holds(tokens(source), is_cut=is_cut)

    def holds_verdict(self, statement: Statement, source: str, *, is_cut: bool = False) -> bool:
        """Whether these texts state the same decisions, and hold the object or all words that it gives for them."""
        if not statement.decisions or not all(map(self._states, statement.decisions)):
            return False
        is_worded_so = all(self._holds_words(words, is_cut=is_cut) for words in statement.words)
        return is_worded_so or self.holds_object(source, is_cut=is_cut)

    @cached_property
    def _decoded(self) -> str:
        return decoded("\n".join(self._texts))

    @cached_property
    def _tokens(self) -> str:
        return f" {tokens(self._decoded)} "

    def _holds(self, words: str, *, is_cut: bool = False) -> bool:
        return f" {words}{'' if is_cut else ' '}" in self._tokens if words else False

    def _holds_words(self, text: str, *, is_cut: bool) -> bool:
        if is_cut:
            # Where a quotation that has no end is over, and the reply goes on, cannot be told.
            return self._holds(tokens(text).partition(" ")[0], is_cut=True) or not tokens(text)
        *cut, last = _CUT.split(text)
        parts = [(tokens(part), True) for part in cut] + [(tokens(last), False)]
        is_whole = all(self._holds(words, is_cut=part_is_cut) for words, part_is_cut in parts if words)
        return is_whole or self._holds_end_of(tokens(text).split())

    def _holds_end_of(self, words: list[str]) -> bool:
        """Whether so many words at the beginning or the end are held that the rest is a remark on a quotation."""
        ends = (words[:_REMARKED_WORDS], words[-_REMARKED_WORDS:]) if len(words) > _REMARKED_WORDS else ()
        return any(self._holds(" ".join(end)) for end in ends)

    def _states(self, decision: Decision) -> bool:
        if decision.names not in self._values:
            self._values[decision.names] = self._values_of(decision.names)
        return any(map(decision.is_same, self._values[decision.names]))

    def _values_of(self, names: tuple[str, ...]) -> frozenset[str]:
        """All values that these texts give to members of these names, in full and by their first word."""
        spaced = "|".join(r"[\W_]{0,3}".join(re.findall(r"[^\W_]+", name)) for name in names)
        # Looking ahead: a value may be the name of the next one.
        stated = re.finditer(rf"(?=(?:{spaced}){_STATED})", self._decoded, re.IGNORECASE)
        values = {each["value"] for each in stated}
        return frozenset(values | {re.split(r"[ _-]", value)[0] for value in values})


NOTHING_UNTRUSTED = Untrusted()


def decoded(text: str) -> str:
    """A text as a reader sees it: without invisible characters, entities and escapes."""
    text = unicodedata.normalize("NFKC", visible(text)).translate(_LOOK_ALIKES)
    for _ in range(_DECODINGS_MAX):
        before = text
        text = _ESCAPE.sub(lambda match: chr(int(match["code"], 16)) if match["code"] else " ", html.unescape(text))
        if text == before:
            break
    return text


def tokens(text: str) -> str:
    """The words and numbers of a text, one blank between them, each in one spelling."""
    return " ".join(map(_plain_token, _TOKEN.findall(decoded(text))))


def _plain_token(token: str) -> str:
    if token[0].isdigit() or token[0] == ".":
        return repr(float(token))
    word = token.casefold()
    return _NONE.get(word, word)
