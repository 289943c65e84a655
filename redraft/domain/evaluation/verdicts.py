"""An evaluator's reply becomes a verdict: by a profile's map of its fields, or criterion by criterion.

No text raises, no score is invented, clamped or guessed, and what the model says of passing never decides.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from redraft.domain.evaluation.claims import (
    LABEL_NAMES,
    ClaimCheck,
    QuotedSources,
    has_claims,
    is_label,
    read_check,
    without_claims,
)
from redraft.domain.evaluation.json_extraction import Found, Reader, Unusable, read_verdict, repeated_in, times_named
from redraft.domain.evaluation.reply_members import (
    UnreadableError,
    flag_of,
    fraction_or_none,
    plain,
    plain_members,
    sentence_of,
    strict_flag,
    text_of,
    texts_of,
)
from redraft.domain.evaluation.rubrics import Criterion, CriterionResult, result_of
from redraft.domain.evaluation.scores import TOLERANCE, ScoreError, describe, read_score
from redraft.domain.evaluation.untrusted import NOTHING_UNTRUSTED, Decision, Statement, Untrusted


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evaluator said.

    Attributes:
        score: in 0..1; None where a rubric was judged: code computes it from `criteria`.
        meets_criteria: what the model said, None when it did not; it never decides.
        repaired: the reply was not valid JSON and had to be mended.
        confidence: in 0..1; None when the model gave none that can be read.
        criteria: what was found for each criterion, or for each dimension of the profile.
        check: what was found for each claim, where claims were checked.
    """

    score: float | None
    meets_criteria: bool | None
    evaluation_reasoning: str
    improvement_suggestions: tuple[str, ...]
    repaired: bool
    confidence: float | None = None
    issues: tuple[str, ...] = ()
    improvement_hint: str = ""
    criteria: tuple[CriterionResult, ...] = ()
    check: ClaimCheck | None = None


@dataclass(frozen=True, slots=True)
class ReplyMap:
    """Which field of a reply says what; None: none does.

    Exactly one of the first four says how good the answer is.

    Attributes:
        score: a number in 0..1.
        pass_flag: a boolean, for the score 1 or 0.
        dimensions: objects with a `score`, perhaps a `reasoning` and a `gap`; the id is the field's name.
            The score is their mean.
        claims: a list of claims with quotes; the score is the share of those that hold.
        fields: all fields of the reply; one of them never stands in for another.
    """

    score: str | None = None
    pass_flag: str | None = None
    dimensions: tuple[Criterion, ...] = ()
    claims: str | None = None
    reasoning: str | None = None
    suggestions: str | None = None
    issues: str | None = None
    improvement_hint: str | None = None
    confidence: str | None = None
    meets_criteria: str | None = None
    fields: frozenset[str] = frozenset()


_SCORE = re.compile(r"(?:overall|final|total|evaluation)?score")
_FLAG = re.compile(r"meets(?:all)?criteri(?:a|on)|criteriamet|pass(?:ed)?")
_REASONING = re.compile(r"reason(?:s|ing)?|explanation|rationale|justification|analysis|comments?|feedback")
_SUGGESTIONS = re.compile(r"suggest(?:ions?|edimprovements?)|improvements?(?:hints?)?|recommendations?")
_ISSUES = re.compile(r"issues?|problems?")
_HINT = re.compile(r"(?:improvement)?hints?")
_LOOSE = "suggestions"
_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True)
class _Fields:
    """The members of a reply, by their plain names."""

    found: Found
    known: frozenset[str]

    def keys(self, name: str, aliases: re.Pattern[str]) -> list[str]:
        """The keys, as written, that mean this field."""
        own, others = plain(name), self.known - {plain(name)}
        named = ((key, plain(key)) for key in self.found.value)
        return [key for key, short in named if short == own or (aliases.fullmatch(short) and short not in others)]

    def get(self, name: str | None, aliases: re.Pattern[str]) -> Any:
        """The member of that name, else the first with an alias that says something."""
        if name is None:
            return None
        keys = self.keys(name, aliases)
        own = [self.found.value[key] for key in keys if plain(key) == plain(name)]
        if own and own[-1] is not None:
            return own[-1]
        others = (self.found.value[key] for key in keys if plain(key) != plain(name))
        return next((member for member in others if member not in (None, "")), None)


def read_reply(
    fields: ReplyMap, text: str, *, finish_reason: str | None = "stop", untrusted: Untrusted = NOTHING_UNTRUSTED
) -> Verdict | Unusable:
    """Read an evaluator's reply.

    Args:
        fields: the profile's map.
        text: the reply.
        finish_reason: the provider's word for why it ended.
        untrusted: what the evaluator was shown; a verdict that stands there is not its own.
    """
    reader = Reader(partial(_is_verdict, fields), partial(_read_fields, fields), partial(_state_of, fields))
    return own_verdict(reader, text, finish_reason, untrusted)


_LOST = "The evaluator's reply was not valid JSON, and mending it lost a part of its text."


def own_verdict(
    reader: Reader[Verdict], text: str, finish_reason: str | None, untrusted: Untrusted
) -> Verdict | Unusable:
    """The evaluator's own verdict; one that lost words in mending says so."""
    read = read_verdict(reader, text, finish_reason, untrusted)
    if isinstance(read, Unusable):
        return read
    found, verdict = read
    return replace(verdict, repaired=found.repaired, issues=(*verdict.issues, *([_LOST] if found.lost_text else [])))


def _read_fields(fields: ReplyMap, found: Found) -> Verdict | Unusable:
    try:
        return _verdict(fields, _Fields(found, _known(fields)))
    except UnreadableError as error:
        return error.unusable


def _state_of(fields: ReplyMap, verdict: Verdict) -> Statement:
    """What a verdict decides, and in which words."""
    if verdict.criteria:
        decisions = [Decision(_SCORE_NAMES, partial(_says_score, each.score)) for each in verdict.criteria]
        return Statement(
            tuple(decisions), words_of(verdict.criteria), members_of(verdict.criteria, evidence="reasoning"), "gap"
        )
    words = (verdict.evaluation_reasoning,) if verdict.evaluation_reasoning.strip() else verdict.improvement_suggestions
    if fields.pass_flag is not None:
        decision = Decision((fields.pass_flag, *_FLAG_NAMES), partial(says_flag, verdict.score))
    else:
        decision = Decision((fields.score or "score", *_SCORE_NAMES), partial(_says_score, verdict.score))
    sign = fields.reasoning or fields.improvement_hint or "evaluation_reasoning"
    return Statement((decision,), words, tuple(f": {each}" for each in words[:1]), sign)


_SCORE_NAMES = ("score", "rating", "grade", "mark", "points")
_FLAG_NAMES = ("meets_criteria", "criteria_met", "pass", "passed")


def _says_score(score: float | None, value: str) -> bool:
    said = fraction_or_none(value)
    return said is not None and score is not None and math.isclose(said, score, abs_tol=TOLERANCE)


def says_flag(score: float | None, value: str) -> bool:
    """Whether a word says yes for the score 1, or no for another."""
    return flag_of(value) is (score == 1)


def words_of(criteria: Iterable[CriterionResult]) -> tuple[str, ...]:
    """The words that are given for criteria, their ids among them."""
    return tuple(words for each in criteria for words in (each.id, each.evidence, each.gap))


def members_of(criteria: Iterable[CriterionResult], *, evidence: str = "evidence") -> tuple[str, ...]:
    """The words that are given for criteria, as members of their objects."""
    return tuple(words for each in criteria for words in (f"{evidence}: {each.evidence}", f"gap: {each.gap}"))


def _known(fields: ReplyMap) -> frozenset[str]:
    return frozenset(plain(name) for name in fields.fields)


def _is_verdict(fields: ReplyMap, value: Mapping[str, Any]) -> bool:
    members = _Fields(Found(value, repaired=False, repeated=frozenset()), _known(fields))
    if fields.dimensions:
        return all(members.keys(each.id, _NOTHING) for each in fields.dimensions)
    if fields.pass_flag is not None:
        return bool(members.keys(fields.pass_flag, _FLAG))
    return bool(members.keys(fields.score or "", _SCORE))


def _verdict(fields: ReplyMap, members: _Fields) -> Verdict:
    dimensions = _dimensions(members, fields.dimensions)
    score = _score_of(fields, members, dimensions)
    issues = texts_of(members.get(fields.issues, _ISSUES))
    hint = sentence_of(members.get(fields.improvement_hint, _HINT))
    reasoning = text_of(members.get(fields.reasoning, _REASONING)) or _summary(dimensions)
    suggestions = _suggestions(fields, members, dimensions) or (*issues, *([hint] if hint else []))
    if not suggestions and fields.pass_flag is not None and score == 0 and reasoning.strip():
        suggestions = (reasoning,)
    return Verdict(
        score=score,
        meets_criteria=flag_of(members.get(fields.meets_criteria, _FLAG)),
        evaluation_reasoning=reasoning,
        improvement_suggestions=suggestions,
        repaired=False,
        confidence=fraction_or_none(members.get(fields.confidence, _NOTHING)),
        issues=issues,
        improvement_hint=hint,
        criteria=dimensions,
    )


def _suggestions(fields: ReplyMap, members: _Fields, dimensions: Sequence[CriterionResult]) -> tuple[str, ...]:
    """The gaps of the dimensions, and what else the evaluator suggests."""
    name = fields.suggestions
    if name is None and dimensions and _LOOSE not in fields.fields:
        name = _LOOSE
    gaps = tuple(dict.fromkeys(each.gap for each in dimensions if each.gap))
    return (*gaps, *(each for each in texts_of(members.get(name, _SUGGESTIONS)) if each not in gaps))


def _summary(dimensions: Sequence[CriterionResult]) -> str:
    return "\n".join(f"{each.id}: {each.evidence}" for each in dimensions if each.evidence)


def _score_of(fields: ReplyMap, members: _Fields, dimensions: Sequence[CriterionResult]) -> float:
    if dimensions:
        return sum(each.score or 0.0 for each in dimensions) / len(dimensions)
    if fields.pass_flag is not None:
        keys = members.keys(fields.pass_flag, _FLAG)
        return _agreed(members, keys, partial(strict_flag, f'The field "{fields.pass_flag}"'))
    return _agreed(members, members.keys(fields.score or "", _SCORE), _fraction)


def _agreed(members: _Fields, keys: list[str], read: Any) -> float:
    if members.found.repeated.intersection(keys):
        raise UnreadableError(Unusable("ambiguous", "The verdict names its score more than once."))
    scores = {read(members.found.value[key]) for key in keys}
    if len(scores) > 1:
        raise UnreadableError(Unusable("ambiguous", f"The verdict holds {len(scores)} different scores."))
    return float(scores.pop())


def _fraction(value: object) -> float:
    try:
        return read_score(value)
    except ScoreError as error:
        raise UnreadableError(Unusable("invalid_score", error.message)) from None


def _dimensions(members: _Fields, dimensions: Sequence[Criterion]) -> tuple[CriterionResult, ...]:
    if dimensions and times_named(members.found, "score") > len(dimensions):
        raise UnreadableError(Unusable("ambiguous", "The verdict names a score more than once."))
    return tuple(_dimension(members, each) for each in dimensions)


def _dimension(members: _Fields, dimension: Criterion) -> CriterionResult:
    name = dimension.id
    keys = members.keys(name, _NOTHING)
    inner = members.found.value[keys[-1]]
    if not isinstance(inner, Mapping):
        raise UnreadableError(Unusable("invalid_score", f'"{name}" is {describe(inner)}, not an object with a score.'))
    parts = plain_members(cast("Mapping[str, Any]", inner))
    if len(keys) > 1 or members.found.repeated.intersection(keys) or "score" in repeated_in(cast("object", inner)):
        raise UnreadableError(Unusable("ambiguous", f'The verdict names the score of "{name}" more than once.'))
    if parts.get("score") is None:
        raise UnreadableError(Unusable("missing_score", f'"{name}" has no score.'))
    value = _fraction(parts["score"])
    return result_of(dimension, value, evidence=text_of(parts.get("reasoning")), gap=_gap(parts))


def _gap(parts: Mapping[str, Any]) -> str:
    """What to change: the gap, else the suggestions of this dimension as one text."""
    suggested = next((texts_of(value) for key, value in parts.items() if _SUGGESTIONS.fullmatch(key)), ())
    return sentence_of(parts.get("gap")) or " ".join(suggested)


def read_claims_reply(
    sources: QuotedSources,
    text: str,
    *,
    unclaimed: float,
    finish_reason: str | None = "stop",
    untrusted: Untrusted = NOTHING_UNTRUSTED,
) -> Verdict | Unusable:
    """Read a reply that checks an answer claim by claim; `unclaimed`: the score of an answer without claims."""

    def read(found: Found) -> Verdict | Unusable:
        check = read_check(found, sources)
        return check if isinstance(check, Unusable) else _of_claims(check, unclaimed)

    verdict = own_verdict(Reader(has_claims, read, _state_of_claims), text, finish_reason, untrusted)
    if isinstance(verdict, Unusable):
        return without_claims(verdict)
    return replace(verdict, check=verdict.check and replace(verdict.check, is_repaired=verdict.repaired))


def _of_claims(check: ClaimCheck, unclaimed: float) -> Verdict:
    held = sum(claim.supported for claim in check.claims)
    summary = f"{held} of {len(check.claims)} claims are supported by the sources."
    return Verdict(
        score=unclaimed if check.score is None else check.score,
        meets_criteria=check.grounded,
        evaluation_reasoning=summary if check.claims else "The evaluator found no claim in the answer.",
        improvement_suggestions=check.problems,
        repaired=False,
        confidence=check.confidence,
        check=check,
    )


def _state_of_claims(verdict: Verdict) -> Statement:
    claims = verdict.check.claims if verdict.check else ()
    if not claims:
        return Statement((Decision(("claims",), lambda value: value.startswith("[")),), ())
    decisions = [Decision(LABEL_NAMES, partial(is_label, claim.supported)) for claim in claims]
    words = tuple(claim.claim for claim in claims)
    return Statement(tuple(decisions), words, tuple(f"claim: {each}" for each in words), "quote")
