"""What an evaluator was shown and did not write: a verdict that stands in it is a quotation, whoever repeats it.

Comparison is by words and numbers, so that fences, indentation, order and names of keys, escapes, quotes and
number spellings make no difference. A verdict that is the whole reply is seldom a quotation: there only a verdict
counts that stands in the texts as one, not words and a number that the answer happens to hold.
"""

import base64
import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from redraft.domain.evaluation.scores import ScoreError, read_score
from redraft.domain.text.cleaning import LIKE
from redraft.domain.text.thinking import CLOSER, OPENER, SpellingKey, key_of
from redraft.domain.text.visible_text import visible

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf"{_NUMBER}|[^\W\d_]+")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_MEMBER_TOKEN = re.compile(rf"{_TOKEN.pattern}|[:=|{{}}]")
_ESCAPE = re.compile(r"(?<!\\)\\+(?:u(?P<code>[0-9a-fA-F]{4})|[nrtbf])")
_CUT = re.compile(r"\.{3}|…|\[\s*(?:\.{3}|…)\s*\]")
_MARKS = {**dict.fromkeys(":=|", ":"), "{": "{", "}": "}"}
_NONE = {"none": "null", "nil": "null"}
_ASSIGNS = r":=|,>\u2192\u2013\u2014"
_SEPARATOR = rf"[^\w.+{_ASSIGNS}-]{{0,16}}(?:[{_ASSIGNS}]|\b(?:of|is)\b)[^\w.+-]{{0,16}}"
_ENDS_A_NAME = rf"[^\w.+{_ASSIGNS}-]{{0,16}}[{_ASSIGNS}]"
_VALUE = (
    rf"[+-]?(?:\d+,\d+|{_NUMBER})(?:\s*(?:%|per\s?cent\b)|\s*(?:/|\bout\s+of\b)\s*{_NUMBER})?"
    r"|[^\W\d_]+(?:[ _-][^\W\d_]+)?|\[\s*\]"
)
_STATED = rf"{_SEPARATOR}(?P<value>{_VALUE})"
_LOOK_ALIKES = str.maketrans(
    {like: letter for letter, alike in LIKE.items() for like in alike if not like.isascii()} | {"\u066b": "."}
)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{40,}\s{1,2})*[A-Za-z0-9+/_-]{16,}={0,2}")
_STANDARD_BASE64 = str.maketrans("-_", "+/")
_HEXADECIMAL = re.compile(r"\b(?:(?:0x|\\x)?[0-9a-fA-F]{2}[\s:,]{0,2}){8,}")
_PER_CENT = re.compile(r"(?<!\s)\s*+per\s?cent", re.IGNORECASE)
_GRADE = r"(?:score|rating|grade|verdict)"
_IN_WORDS = re.compile(
    r"(?:\bI(?:['\u2019]d| would| will| must)? (?:give|rate|score|grade|assign|award)\b[^\n.{}\d]{0,40}?"
    rf"|\bmy (?:\w+ )?{_GRADE}\b[^\n.{{}}\d]{{0,20}}?"
    rf"|[\n.;!](?:[^\w\n.;!]|_)*+(?:(?:so|thus|hence|therefore|the|overall|final)\W+){{0,3}}{_GRADE}\W{{0,3}}(?:\bis\b|[=:])\W*)"
    rf"(?P<value>{_NUMBER}(?:\s*%|\s*(?:/|out of)\s*{_NUMBER})?)(?=\W*(?:\n|\Z)|[.!;,)*])",
    re.IGNORECASE,
)
# Escaped quotes within escaped quotes, and not much deeper.
_DECODINGS_MAX = 3
_REMARKED_WORDS = 4
_REMARKED_SHARE = 1 / 2


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
    """What a verdict says: its decisions, and its own words for them.

    Attributes:
        decisions: what it decides.
        words: the words that it gives for them.
        members: the same words as members of an object; the name before the colon may be left open.
        sign: the name of a member that hardly stands in a text that plants no verdict.
    """

    decisions: tuple[Decision, ...]
    words: tuple[str, ...]
    members: tuple[str, ...] = ()
    sign: str = "score"


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
        """Whether a verdict beside other text states what these texts do, and holds the object or all of its words."""
        if self.holds_object(source, is_cut=is_cut):
            return bool(statement.decisions)
        is_worded_so = all(self._holds_words(words, is_cut=is_cut) for words in statement.words)
        return is_worded_so and self.states_all(statement, is_worded=any(map(tokens, statement.words)))

    def holds_whole_reply(self, statement: Statement, source: str) -> bool:
        """Whether these texts hold a verdict that is all that a reply consists of, as an object or as its members.

        Where they state members as only verdicts have them, a quotation is recognised as beside other text.
        """
        if re.search(rf"{_any_of((statement.sign,))}{_ENDS_A_NAME}", self._decoded, re.IGNORECASE):
            return self.holds_verdict(statement, source)
        if f" {_member_tokens(source)} " in self._member_tokens:
            return bool(statement.decisions)
        members = [words for member in statement.members if not (words := _member_tokens(member)).endswith(":")]
        is_held = bool(members) and all(f" {words} " in self._member_tokens for words in members)
        return is_held and self.states_all(statement)

    def is_contradicted(self, statement: Statement, words: str) -> bool:
        """Whether words give another score than a verdict, and none that these texts name."""
        scores = [each for each in statement.decisions if "score" in each.names]
        said = {found["value"] for found in _IN_WORDS.finditer(words) if _is_fraction(found["value"])}
        return len(scores) == 1 and any(
            not (scores[0].is_same(value) or value in self._values_of(scores[0].names)) for value in said
        )

    @cached_property
    def _decoded(self) -> str:
        text = "\n".join(self._texts)
        return decoded("\n".join((text, *_unpacked(text))))

    @cached_property
    def _tokens(self) -> str:
        return f" {tokens(self._decoded)} "

    @cached_property
    def _member_tokens(self) -> str:
        return f" {_member_tokens(self._decoded)} "

    def states_all(self, statement: Statement, *, is_worded: bool = False) -> bool:
        """Whether these texts state all that a verdict decides.

        Args:
            statement: of the verdict.
            is_worded: its words stand in these texts: then names and values may stand apart.
        """
        if not statement.decisions:
            return False
        return all(self._states(each) or (is_worded and self._mentions(each)) for each in statement.decisions)

    def _mentions(self, decision: Decision) -> bool:
        """Whether a name of a decision and its value stand anywhere, as in the columns of a table."""
        return re.search(_any_of(decision.names), self._decoded, re.IGNORECASE) is not None and any(
            map(decision.is_same, self._all_values)
        )

    @cached_property
    def _all_values(self) -> frozenset[str]:
        return frozenset(each[0] for each in re.finditer(_VALUE, self._decoded))

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
        count = max(_REMARKED_WORDS, math.ceil(len(words) * _REMARKED_SHARE))
        ends = (words[:count], words[-count:]) if len(words) > count else ()
        return any(self._holds(" ".join(end)) for end in ends)

    def _states(self, decision: Decision) -> bool:
        if decision.names not in self._values:
            self._values[decision.names] = self._values_of(decision.names)
        return any(map(decision.is_same, self._values[decision.names]))

    def _values_of(self, names: tuple[str, ...]) -> frozenset[str]:
        """All values that these texts give to members of these names, in full and by their first word."""
        # Looking ahead: a value may be the name of the next one.
        stated = re.finditer(rf"(?=(?:{_any_of(names)}){_STATED})", self._decoded, re.IGNORECASE)
        values = {_PER_CENT.sub("%", each["value"].replace(",", ".")) for each in stated}
        return frozenset(values | {re.split(r"[ _-]", value)[0] for value in values})


def _any_of(names: Iterable[str]) -> str:
    """A pattern of these names, however their words and letters are spaced."""
    return "|".join(r"[\W_]{0,3}".join(re.findall(r"[^\W_]+", name)) for name in names)


NOTHING_UNTRUSTED = Untrusted()


def decoded(text: str) -> str:
    """A text as a reader sees it: without invisible characters, entities and escapes."""
    text = unicodedata.normalize("NFKC", visible(unquote(text))).translate(_LOOK_ALIKES)
    text = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    for _ in range(_DECODINGS_MAX):
        before = text
        text = _ESCAPE.sub(lambda match: chr(int(match["code"], 16)) if match["code"] else " ", html.unescape(text))
        if text == before:
            break
    return text


def _unpacked(text: str) -> Iterator[str]:
    """What the encoded parts of a text say."""
    for found in _BASE64.finditer(text):
        packed = re.sub(r"\s", "", found[0]).rstrip("=").translate(_STANDARD_BASE64)
        packed = packed[: len(packed) - (len(packed) % 4 == 1)]
        yield _readable(base64.b64decode(packed + "=" * (-len(packed) % 4)))
    for found in _HEXADECIMAL.finditer(text):
        digits = re.sub(r"0x|\\x|[\s:,]", "", found[0])
        yield _readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _readable(said: bytes) -> str:
    try:
        return said.decode()
    except UnicodeDecodeError:
        return ""


def _is_fraction(text: str) -> bool:
    try:
        return read_score(text) >= 0
    except ScoreError:
        return False


def tokens(text: str) -> str:
    """The words and numbers of a text, one blank between them, each in one spelling."""
    return " ".join(map(_plain_token, _TOKEN.findall(decoded(text))))


def _member_tokens(text: str) -> str:
    """The same with the marks that stand before the value of a member."""
    return " ".join(_MARKS.get(token) or _plain_token(token) for token in _MEMBER_TOKEN.findall(decoded(text)))


def _plain_token(token: str) -> str:
    if token[0].isdecimal() or token[0] == ".":
        return repr(float(token))
    word = token.casefold()
    return _NONE.get(word, word)
