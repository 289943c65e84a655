"""Recognise verdicts that an evaluator quotes from the texts that it was shown. A quoted verdict never counts.

Texts are compared by words and numbers, so that fences, indentation, the order and names of keys, escapes, quotes and
notations of numbers make no difference. A verdict that is the whole reply is seldom a quotation. So it counts as a
quotation only if the texts contain a verdict. The same words and the same number in a text are not enough.
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

from redraft.domain.evaluation.scores import fraction_or_none
from redraft.domain.text.prompt_framing import LIKE
from redraft.domain.text.thinking import CLOSER, OPENER, SpellingKey, key_of
from redraft.domain.text.visible_text import visible

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf"{_NUMBER}|[^\W\d_]+")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_MEMBER_TOKEN = re.compile(rf"{_TOKEN.pattern}|[:=|{{}}]")
_ESCAPE = re.compile(r"(?<!\\)\\+(?:u(?P<code>[0-9a-fA-F]{4})|[nrtbf])")
_CUT = re.compile(r"\.{3}|…|\[\s*(?:\.{3}|…)\s*\]")
_SIGNS = {**dict.fromkeys(":=|", ":"), "{": "{", "}": "}"}
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
# Each level of JSON within a JSON string adds one level of escapes. Real texts have at most three levels.
_DECODINGS_MAX = 3
# Words of a verdict count as quoted if untrusted texts contain at least this many of them and this share, at the
# beginning or at the end. The rest may be the evaluator's remark on the quotation.
_REMARKED_WORDS = 4
_REMARKED_SHARE = 1 / 2


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of a verdict.

    Attributes:
        names: the possible names of the member that holds the decision.
        is_same: returns whether a value, as written in a text, is the same decision.
    """

    names: tuple[str, ...]
    is_same: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Statement:
    """The content of a verdict: its decisions, and the words that it gives as reasons.

    Attributes:
        members: the words as they are written in an object, `name: words`, or `: words` for a member of any name.
        sign: a member name that occurs almost only in verdicts. In a text it shows a planted verdict.
    """

    decisions: tuple[Decision, ...]
    words: tuple[str, ...]
    members: tuple[str, ...] = ()
    sign: str = "score"


class UntrustedTexts:
    """The texts in an evaluator's prompt that other people or models wrote. Each form is computed at its first use."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts = tuple(texts)
        self._values: dict[tuple[str, ...], frozenset[str]] = {}

    @cached_property
    def opening(self) -> frozenset[SpellingKey]:
        """The delimiters in these texts that open thinking."""
        return frozenset(map(key_of, OPENER.finditer(self._decoded)))

    @cached_property
    def closing(self) -> frozenset[SpellingKey]:
        """The delimiters in these texts that close thinking. In a reply, these delimiters are plain text."""
        return frozenset(map(key_of, CLOSER.finditer(self._decoded)))

    def holds_object(self, source: str, *, is_truncated: bool = False) -> bool:
        """Return whether these texts contain an object as it is written, apart from punctuation and white space."""
        return self._holds(tokens(source), is_truncated=is_truncated)

    def holds_verdict(self, statement: Statement, source: str, *, is_truncated: bool = False) -> bool:
        """Return whether these texts contain a verdict that stands beside other text in the reply."""
        if self.holds_object(source, is_truncated=is_truncated):
            return bool(statement.decisions)
        is_worded_so = all(self._holds_words(words, is_truncated=is_truncated) for words in statement.words)
        return is_worded_so and self.states_all(statement, is_worded=any(map(tokens, statement.words)))

    def holds_whole_reply(self, statement: Statement, source: str) -> bool:
        """Return whether these texts contain a verdict that is the whole reply.

        If these texts contain a member that only verdicts have (`sign`), the rules of `holds_verdict` apply. Otherwise
        the rules are stricter, because an honest short reply may repeat words and numbers of the texts.
        """
        if re.search(rf"{_any_of((statement.sign,))}{_ENDS_A_NAME}", self._decoded, re.IGNORECASE):
            return self.holds_verdict(statement, source)
        if f" {_member_tokens(source)} " in self._member_tokens:
            return bool(statement.decisions)
        members = [words for member in statement.members if not (words := _member_tokens(member)).endswith(":")]
        is_held = bool(members) and all(f" {words} " in self._member_tokens for words in members)
        return is_held and self.states_all(statement)

    def is_contradicted(self, statement: Statement, words: str) -> bool:
        """Return whether the text after a verdict states a score that is neither the verdict's nor from these texts."""
        scores = [each for each in statement.decisions if "score" in each.names]
        values = {found["value"] for found in _IN_WORDS.finditer(words) if fraction_or_none(found["value"]) is not None}
        return len(scores) == 1 and any(
            not (scores[0].is_same(value) or value in self._values_of(scores[0].names)) for value in values
        )

    def states_all(self, statement: Statement, *, is_worded: bool = False) -> bool:
        """Return whether these texts contain the name and value of each decision.

        If they also contain the words of the verdict (`is_worded`), a value need not follow its name.
        """
        # In a table, a name and its value are in different rows.
        return bool(statement.decisions) and all(
            any(map(each.is_same, self._values_of(each.names))) or (is_worded and self._mentions(each))
            for each in statement.decisions
        )

    def _mentions(self, decision: Decision) -> bool:
        is_named = re.search(_any_of(decision.names), self._decoded, re.IGNORECASE) is not None
        return is_named and any(map(decision.is_same, self._all_values))

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

    @cached_property
    def _all_values(self) -> frozenset[str]:
        return frozenset(each[0] for each in re.finditer(_VALUE, self._decoded))

    def _holds(self, words: str, *, is_truncated: bool = False) -> bool:
        return bool(words) and f" {words}{'' if is_truncated else ' '}" in self._tokens

    def _holds_words(self, text: str, *, is_truncated: bool) -> bool:
        words = tokens(text).split()
        if is_truncated:
            # The end of a truncated quotation cannot be distinguished from the text after it.
            return not words or self._holds(words[0], is_truncated=True)
        *cut, last = _CUT.split(text)
        parts = [(tokens(part), True) for part in cut] + [(tokens(last), False)]
        if all(self._holds(part, is_truncated=has_ellipsis) for part, has_ellipsis in parts if part):
            return True
        count = max(_REMARKED_WORDS, math.ceil(len(words) * _REMARKED_SHARE))
        ends = (words[:count], words[-count:]) if len(words) > count else ()
        return any(self._holds(" ".join(end)) for end in ends)

    def _values_of(self, names: tuple[str, ...]) -> frozenset[str]:
        """Return all values that these texts give to members of these names, and the first word of each value."""
        if names not in self._values:
            # A lookahead does not consume the value, which may be the name of the next member.
            stated = re.finditer(rf"(?=(?:{_any_of(names)}){_STATED})", self._decoded, re.IGNORECASE)
            values = {_PER_CENT.sub("%", each["value"].replace(",", ".")) for each in stated}
            self._values[names] = frozenset(values | {re.split(r"[ _-]", value)[0] for value in values})
        return self._values[names]


def _any_of(names: Iterable[str]) -> str:
    """Return a pattern of these names, however their words and letters are spaced."""
    return "|".join(r"[\W_]{0,3}".join(re.findall(r"[^\W_]+", name)) for name in names)


NO_UNTRUSTED_TEXTS = UntrustedTexts()


def decoded(text: str) -> str:
    """Return a text as a reader sees it, without invisible characters, entities and escapes."""
    text = unicodedata.normalize("NFKC", visible(unquote(text))).translate(_LOOK_ALIKES)
    text = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    for _ in range(_DECODINGS_MAX):
        before = text
        text = _ESCAPE.sub(lambda match: chr(int(match["code"], 16)) if match["code"] else " ", html.unescape(text))
        if text == before:
            break
    return text


def _unpacked(text: str) -> Iterator[str]:
    """Yield the decoded base64 and hexadecimal parts of a text."""
    for found in _BASE64.finditer(text):
        packed = re.sub(r"\s", "", found[0]).rstrip("=").translate(_STANDARD_BASE64)
        packed = packed[: len(packed) - (len(packed) % 4 == 1)]
        yield _readable(base64.b64decode(packed + "=" * (-len(packed) % 4)))
    for found in _HEXADECIMAL.finditer(text):
        digits = re.sub(r"0x|\\x|[\s:,]", "", found[0])
        yield _readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _readable(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def tokens(text: str) -> str:
    """Return the words and numbers of a text, each in one spelling, separated by blanks."""
    return " ".join(map(_plain_token, _TOKEN.findall(decoded(text))))


def _member_tokens(text: str) -> str:
    """Return the tokens with the signs that stand before the value of a member."""
    return " ".join(_SIGNS.get(token) or _plain_token(token) for token in _MEMBER_TOKEN.findall(decoded(text)))


def _plain_token(token: str) -> str:
    if token[0].isdecimal() or token[0] == ".":
        return repr(float(token))
    word = token.casefold()
    return _NONE.get(word, word)
