"""How well an answer rests on its sources, told without a model; docs/grounding.md has the formula.

It sees whether the words and numbers of a sentence stand in a source, not whether the source means the same: a
denial of what a source says scores like the saying. The claim check of a model is for that.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from redraft.domain.citations import Cited, marks_in, said
from redraft.domain.sentences import Sentence
from redraft.domain.words import Said, read_said

OVERLAP_MIN = 0.5
"""The share of a sentence's content words and numbers that a source must hold to support it."""

Support = Literal["full", "half", "none"]
_WORTH: dict[Support, float] = {"full": 1.0, "half": 0.5, "none": 0.0}

_ASIDE_CHARS_MAX = 250
_ASIDE = re.compile(
    r"(?:i (?:really )?hope (?:this|that|it)|(?:please )?let me know|(?:please )?feel free|(?:i'm |i am )?happy to help"
    r"|(?:sure|certainly|absolutely|of course|great question|good question|thank you|thanks|you're welcome)\b"
    r"|here (?:is|are)\b|here's|below (?:is|are)\b|(?:if you )?(?:need|have) (?:any )?(?:more|further|other)"
    r"|if you (?:have|need|want|would)\b|ich hoffe|gerne?\b|natürlich|sicher|hier (?:ist|sind)|falls sie|lassen sie"
    r"|j'espère|n'hésite|voici|bien sûr|espero que|claro|por supuesto|aquí (?:está|tiene)|希望|当然|以下)",
    re.IGNORECASE,
)
# With an article: `no energy source is free of risk` is about something else.
_NOUNS = "(?:sources?|context|documents?|passages?|excerpts?|(?:provided |given )?information(?: provided| given)?)"
_SOURCES = rf"\b(?:the|these|those|any|your|provided|given) (?:\w+ )?{_NOUNS}(?! of\b)"
_QUELLEN = "(?:quellen?|kontext|dokumenten?|texten?)"
_NO_SOURCE = re.compile(
    rf"\b(?:no|without|without any)(?: relevant| suitable| usable| provided| given)? {_NOUNS}(?! of\b)"
    rf"|\b(?:none|nothing|not|n['\u2019]t)\b[^.;]{{0,40}}\b(?:of|in|by|from) {_SOURCES}"
    rf"|{_SOURCES}[^.;]{{0,40}}\b(?:do|does|did|is|are|was|were)(?: not|n['\u2019]t)\b"
    rf"|\b(?:keine?[nr]?|ohne)\b[^.;]{{0,40}}\b{_QUELLEN}\b|\b{_QUELLEN}\b[^.;]{{0,40}}\b(?:nicht|keine?)\b"
    r"|\b(?:aucune?|ne|sans)\b[^.;]{0,40}\b(?:sources?|contexte|documents?)\b"
    r"|\b(?:sources?|contexte|documents?)\b[^.;]{0,20}\bne\b|\b(?:fuentes?|contexto)\b[^.;]{0,20}\bno\b"
    r"|\b(?:no hay|ninguna?)\b[^.;]{0,40}\b(?:fuentes?|contexto)\b|(?:来源|资料|資料)[^。]{0,10}(?:没有|未)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"\b(?:but|however|although|aber|jedoch|mais|pero)\b|但", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Judged:
    """A sentence that states something.

    Attributes:
        text: with its marks, as it stands in the answer.
        start: where it begins, in characters of the answer.
        end: where it is over.
        cited: the numbers of the existing sources that it cites.
        support: `full` from cited sources, `half` from others, `none`.
        best_source: the number of the source that holds most of it; None when none holds anything.
        overlap: the share of its content words and numbers that the sources behind `support` hold, else `best_source`.
        missing_numbers: those that stand in no source, as written.
    """

    text: str
    start: int
    end: int
    cited: tuple[int, ...]
    support: Support
    best_source: int | None
    overlap: float
    missing_numbers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grounding:
    """How an answer rests on its sources.

    Attributes:
        score: 0..1, or None when the answer states nothing.
        sentences: those that state something, in order.
        sources_used: the indices of the cited sources, from 0.
        sentences_cited: how many sentences, questions too, cite an existing source.
        sentences_total: how many sentences, questions too, there are.
    """

    score: float | None
    sentences: tuple[Judged, ...]
    sources_used: tuple[int, ...]
    sentences_cited: int
    sentences_total: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the sources say: for each stem and number, the numbers of the sources that hold it."""

    stems: dict[str, list[int]]
    values: dict[float, list[int]]


def read_evidence(contents: Iterable[str]) -> Evidence:
    """Reads the sources, numbered from 1; the same evidence serves all answers to them."""
    evidence = Evidence({}, {})
    for number, content in enumerate(contents, 1):
        read = read_said(content)
        values = {value for _, values in read.numbers for value in values} | read.spelled
        for stem in read.stems:
            evidence.stems.setdefault(stem, []).append(number)
        for value in values:
            evidence.values.setdefault(value, []).append(number)
    return evidence


def ground(answer: str, cited: Cited, evidence: Evidence) -> Grounding:
    """Scores an answer.

    Args:
        answer: the text that `cited` was read from.
        cited: what it cites.
        evidence: of the same sources in the same order.
    """
    # A list at the end, and no mark in the text: the answer rests on the listed sources as a whole.
    whole = () if cited.marks else cited.listed
    judged: list[Judged] = []
    for sentence, numbers in zip(cited.sentences, cited.numbers, strict=True):
        if sentence.states:
            plain = said(answer, sentence, cited.marks)
            read = read_said(plain)
            has_marks = len(marks_in(cited.marks, sentence)) > 0
            if (read.stems or read.numbers) and not is_aside(plain, has_marks=has_marks):
                judged.append(_judge(sentence, numbers, numbers or whole, read, evidence))
    prose = [
        numbers
        for sentence, numbers in zip(cited.sentences, cited.numbers, strict=True)
        if sentence.states or sentence.kind == "question"
    ]
    score = sum(_WORTH[each.support] for each in judged) / len(judged) if judged else None
    return Grounding(score, tuple(judged), cited.sources_used, sum(map(bool, prose)), len(prose))


def is_aside(plain: str, *, has_marks: bool = False) -> bool:
    """Whether a sentence speaks to the reader or says that there are no sources: it states nothing to be supported."""
    if has_marks or len(plain) > _ASIDE_CHARS_MAX or any(map(str.isdecimal, plain)):
        return False
    if _ASIDE.match(plain.lstrip("*_>-\"' ")):
        return True
    return _NO_SOURCE.search(plain) is not None and not _GOES_ON.search(plain)


def _judge(
    sentence: Sentence, cited: tuple[int, ...], relied_on: Sequence[int], read: Said, evidence: Evidence
) -> Judged:
    items = [evidence.stems.get(stem, []) for stem in read.stems]
    numbers = {text: _holders(values, evidence) for text, values in read.numbers}
    items += map(list, numbers.values())
    missing = tuple(text for text, holders in numbers.items() if not holders)
    held = Counter(chain.from_iterable(items))
    best = min(held, key=lambda number: (-held[number], number not in relied_on, number), default=None)
    best_share = held[best] / len(items) if best is not None else 0.0
    relied = set(relied_on)
    share = sum(1 for holders in items if not relied.isdisjoint(holders)) / len(items)
    support: Support = "none"
    if not missing and share >= OVERLAP_MIN and all(not relied.isdisjoint(holders) for holders in numbers.values()):
        support = "full"
    elif not missing and max(share, best_share) >= OVERLAP_MIN:
        support = "half"
    overlap = share if support == "full" else best_share
    return Judged(sentence.text, sentence.start, sentence.end, cited, support, best, overlap, missing)


def _holders(values: tuple[float, ...], evidence: Evidence) -> set[int]:
    return {number for value in values for number in evidence.values.get(value, ())}
