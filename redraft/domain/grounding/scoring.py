"""Compute the grounding score without a model; docs/grounding.md has the formula.

The score compares words and numbers, not meaning: the negation of a source's statement scores like the statement. The
claim check by a model finds negations.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Literal

from redraft.domain.grounding.citation_markers import Style
from redraft.domain.grounding.citations import Cited, markers_in, plain_sentence
from redraft.domain.grounding.list_numbers import ListNumbers
from redraft.domain.grounding.non_statements import asks_for_sources, is_denial, is_small_talk
from redraft.domain.grounding.sentences import Sentence
from redraft.domain.numbers.quantities import Number
from redraft.domain.text.content_words import TextContent, read_content, stem
from redraft.domain.text.languages import CONFIDENCE_MIN, LETTERS_MIN, guess_language

# The share of a sentence's content words and numbers that a source must contain to support it. docs/grounding.md has
# the measurement: paraphrases of a source reach this share, other sentences about the same subject do not.
OVERLAP_MIN = 0.5

Support = Literal["full", "half", "none"]
_WORTH: dict[Support, float] = {"full": 1.0, "half": 0.5, "none": 0.0}

_LIST_SIGN = re.compile(
    r"(?:\A|[\r\n])[ \t>]*(?:[-*+•◦▪‣·\u2013]|(?P<number>\d{1,3})[.)])[ \t]+(?:\[[ xX]\][ \t]+)?[*_]*\Z"
)
_HEADS = 20
_HEAD_CHARS = 1000


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A sentence that states something, with its support and its position in characters of the answer."""

    text: str  # As in the answer, with its markers
    start: int
    end: int
    cited: tuple[int, ...]  # The numbers of the existing sources that it cites
    support: Support  # `full` from cited sources, `half` from others, `none`
    overlap: float  # The share of its words and numbers in the sources behind `support`, else in the best source
    missing_numbers: tuple[str, ...]  # Its numbers that are in no source, as written
    rests_on: tuple[int, ...] = ()  # The sources of the reference list, if the rule counts them as cited


@dataclass(frozen=True, slots=True)
class Grounding:
    """The grounding of an answer."""

    score: float | None  # 0..1, or None if the answer states nothing
    sentences: tuple[ScoredSentence, ...]  # Those that state something
    sources_used: tuple[int, ...]  # The indices of the cited sources, from 0
    sentences_cited: int  # The number of sentences, questions included, that cite an existing source
    sentences_total: int  # The number of sentences, questions included
    unsourced: tuple[ScoredSentence, ...] = ()  # Headings, questions and table heads with a number that is in no source
    is_silent: bool = False  # The answer states nothing, and does not say that the sources lack the answer
    is_foreign: bool = False  # Its language differs from that of all sources, so common words are no evidence


@dataclass(frozen=True, slots=True)
class Evidence:
    """An index of the sources.

    Attributes:
        stems: for each stem, the numbers of the sources that contain it.
        values: for each numeric value, the numbers of the sources that contain it.
        ordered: the values in ascending order, for ranges.
        known: the numbers of question and conversation. An answer may repeat them, but they support nothing.
        count: the number of sources.
        heads: the beginnings of the sources, for the guess of their language.
    """

    stems: Mapping[str, list[int]]
    values: Mapping[float, list[int]]
    ordered: tuple[float, ...]
    known: tuple[float, ...]
    count: int
    heads: tuple[str, ...]


def read_evidence(contents: Iterable[str], known: Iterable[str] = ()) -> Evidence:
    """Index the texts of the sources, numbered from 1. One index serves all answers that are based on the same sources.

    `known` are the question and the conversation, whose numbers an answer may repeat.
    """
    stems: defaultdict[str, list[int]] = defaultdict(list)
    values: defaultdict[float, list[int]] = defaultdict(list)
    heads: list[str] = []
    for number, content in enumerate(contents, 1):
        read = read_content(content)
        for each in read.stems:
            stems[each].append(number)
        for value in _values(read):
            values[value].append(number)
        heads.append(content[:_HEAD_CHARS])
    asked = {value for text in known for value in _values(read_content(text))}
    return Evidence(stems, values, tuple(sorted(values)), tuple(sorted(asked)), len(heads), tuple(heads[:_HEADS]))


def _values(read: TextContent) -> set[float]:
    return {value for each in read.amounts for value in (*each.values, *each.bare)} | read.spelled


def ground(answer: str, cited: Cited, evidence: Evidence, style: Style = "inline") -> Grounding:
    """Score the grounding of an answer.

    `cited` must belong to this answer, and `evidence` to the sources of `cited`. In the style `endnote` each sentence
    counts as citing the sources of the reference list.
    """
    reading = _Reading(answer, cited, evidence, style)
    prose: list[tuple[int, ...]] = []
    for sentence, numbers in zip(cited.sentences, cited.numbers, strict=True):
        reading.read(sentence, numbers)
        if sentence.states or sentence.kind == "question":
            prose.append(numbers)
    scored = reading.scored
    score = sum(_WORTH[each.support] for each in scored) / len(scored) if scored else None
    return Grounding(
        score,
        tuple(scored),
        cited.sources_used,
        sum(map(bool, prose)),
        len(prose),
        unsourced=tuple(reading.unsourced),
        is_silent=not scored and reading.is_silent(),
        is_foreign=any(each.support == "none" for each in scored) and _is_foreign(answer, evidence.heads),
    )


class _Reading:
    """Reads the sentences of an answer in order."""

    def __init__(self, answer: str, cited: Cited, evidence: Evidence, style: Style) -> None:
        self.answer = answer
        self.cited = cited
        self.evidence = evidence
        # If there is a reference list but no marker in the text, the whole answer cites the listed sources.
        self.whole = () if cited.markers else cited.listed
        self.listed_for_all = self.whole if style == "endnote" else ()
        blocks = cited.layout.blocks
        starts = [block.start for block in blocks if block.kind in {"prose", "row"}]
        list_signs = [_LIST_SIGN.search(answer[max(0, start - 12) : start]) for start in starts]
        rows = sum(block.kind == "row" for block in blocks)
        numbers = {int(sign["number"]) for sign in list_signs if sign and sign["number"]}
        self.list_numbers = ListNumbers(evidence.count, sum(map(bool, list_signs)) + rows, numbers)
        self.scored: list[ScoredSentence] = []
        self.unsourced: list[ScoredSentence] = []
        self.has_gap = False

    def read(self, sentence: Sentence, numbers: tuple[int, ...]) -> None:
        if sentence.kind in {"code", "note"}:
            return
        plain = plain_sentence(self.answer, sentence, self.cited.markers)
        bare = self.list_numbers.blank(plain, is_lead_in=sentence.kind == "heading")
        read = read_content(bare)
        if not sentence.states:
            if missing := missing_of(read, self.evidence):
                self.unsourced.append(
                    ScoredSentence(sentence.text, sentence.start, sentence.end, (), "none", 0.0, missing)
                )
            self.has_gap = self.has_gap or (sentence.kind == "question" and asks_for_sources(plain))
        elif not self._states_nothing(sentence, bare, read) and (read.stems or read.amounts):
            rests_on = () if numbers else self.listed_for_all
            self.scored.append(_score_sentence(sentence, numbers, numbers or self.whole, rests_on, read, self.evidence))

    def _states_nothing(self, sentence: Sentence, bare: str, read: TextContent) -> bool:
        # A sentence with a marker is always scored: a citation claims that a source supports it.
        if markers_in(self.cited.markers, sentence):
            return False
        if asks_for_sources(bare):
            self.has_gap = True
        if is_denial(bare) and not missing_of(read, self.evidence):
            self.has_gap = True
            return True
        return not read.amounts and is_small_talk(bare)

    def is_silent(self) -> bool:
        sentences = self.cited.sentences
        is_cited = any(each.states and of for each, of in zip(sentences, self.cited.numbers, strict=True))
        # Code is not scored, so it could hide statements.
        hides = any(each.kind == "code" for each in sentences)
        return any(map(str.isalnum, self.answer)) and not is_cited and (hides or not self.has_gap)


def missing_of(read: TextContent, evidence: Evidence) -> tuple[str, ...]:
    """Return the numbers, as written, that are neither in a source nor in the question or the conversation."""
    missing: dict[str, None] = {}
    for each in read.amounts:
        is_known = any(value in each.values or each.low <= value <= each.high for value in evidence.known)
        if not is_known and not _holders(each, evidence):
            missing[each.text] = None
    return tuple(missing)


def _score_sentence(
    sentence: Sentence,
    cited: tuple[int, ...],
    relied_on: Sequence[int],
    rests_on: tuple[int, ...],
    read: TextContent,
    evidence: Evidence,
) -> ScoredSentence:
    numbers = [_holders(each, evidence) for each in read.amounts]
    items = [*(evidence.stems.get(each, []) for each in read.stems), *map(list, numbers)]
    missing = missing_of(read, evidence)
    best_share = max(Counter(chain.from_iterable(items)).values(), default=0) / len(items)
    relied = set(relied_on)
    share = sum(1 for holders in items if not relied.isdisjoint(holders)) / len(items)
    support: Support = "none"
    # A number of another source is not enough: the cited source has to contain the number.
    if not missing and share >= OVERLAP_MIN and all(not relied.isdisjoint(holders) for holders in numbers):
        support = "full"
    elif not missing and max(share, best_share) >= OVERLAP_MIN:
        support = "half"
    overlap = share if support == "full" else best_share
    return ScoredSentence(sentence.text, sentence.start, sentence.end, cited, support, overlap, missing, rests_on)


def _holders(number: Number, evidence: Evidence) -> set[int]:
    values = number.values
    if number.low <= number.high:
        first = bisect_left(evidence.ordered, number.low)
        values = (*values, *islice(evidence.ordered, first, bisect_right(evidence.ordered, number.high)))
    holders = {source for value in values for source in evidence.values.get(value, ())}
    for name in number.names:
        holders.update(evidence.stems.get(stem(name), ()))
    return holders


def _is_foreign(answer: str, heads: tuple[str, ...]) -> bool:
    own = _language(answer)
    theirs = set(map(_language, heads))
    return own is not None and None not in theirs and own not in theirs


@lru_cache(maxsize=64)
def _language(text: str) -> str | None:
    if sum(map(str.isalpha, text[:_HEAD_CHARS])) < LETTERS_MIN:
        return None
    found = guess_language(text[:_HEAD_CHARS].encode("utf-8", "replace").decode())
    return found.code if found.confidence >= CONFIDENCE_MIN else None
