"""Parse an evaluator's reply into a verdict, either by the field map of a profile, or claim by claim.

The functions never raise, whatever the reply is. No score is invented, clamped or guessed. The model's own opinion on
passing is only reported.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from redraft.domain.evaluation.claims import LABEL_NAMES, ClaimCheck, QuotedSources, has_claims, is_label, read_check
from redraft.domain.evaluation.json_extraction import (
    Found,
    Reader,
    UnreadableError,
    Unusable,
    read_verdict,
    repeated_in,
)
from redraft.domain.evaluation.quoted_verdicts import NO_UNTRUSTED_TEXTS, Decision, Statement, UntrustedTexts
from redraft.domain.evaluation.reply_members import (
    flag_of,
    plain,
    plain_members,
    sentence_of,
    strict_flag,
    text_of,
    texts_of,
)
from redraft.domain.evaluation.rubrics import Criterion, CriterionResult, result_of
from redraft.domain.evaluation.scores import TOLERANCE, ScoreError, describe, fraction_or_none, read_score


@dataclass(frozen=True, slots=True)
class Verdict:
    """An evaluator's verdict.

    Attributes:
        score: in 0..1; None for a rubric, whose score code computes from `criteria`.
        meets_criteria: the model's own opinion, which is only reported.
        repaired: the reply was not valid JSON.
        criteria: the results for the criteria of a rubric or the dimensions of a profile.
        check: the check of the claims, if the profile has one.
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
    """The names of a reply's fields by their meaning. Exactly one of the first four is set.

    Attributes:
        score: the field with a number in 0..1.
        pass_flag: the field with a boolean, which is the score 1 or 0.
        dimensions: objects with a `score`, and optionally `reasoning` and `gap`, by their field names. Their mean is
            the score.
        claims: a list of claims with quotes. The share of supported ones is the score.
        fields: the names of all fields. An alias of one field never matches the name of another.
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


# Names that models use instead of the field's own name.
_SCORE = re.compile(r"(?:overall|final|total|evaluation)?score")
_FLAG = re.compile(r"meets(?:all)?criteri(?:a|on)|criteriamet|pass(?:ed)?")
_REASONING = re.compile(r"reason(?:s|ing)?|explanation|rationale|justification|analysis|comments?|feedback")
_SUGGESTIONS = re.compile(r"suggest(?:ions?|edimprovements?)|improvements?(?:hints?)?|recommendations?")
_ISSUES = re.compile(r"issues?|problems?")
_HINT = re.compile(r"(?:improvement)?hints?")
_NO_ALIAS = re.compile(r"(?!)")
_LOOSE_SUGGESTIONS = "suggestions"

_SCORE_NAMES = ("score", "rating", "grade", "mark", "points")
_FLAG_NAMES = ("meets_criteria", "criteria_met", "pass", "passed")
_LOST = "The evaluator's reply was not valid JSON, and its repair lost a part of its text."


def read_reply(
    fields: ReplyMap, text: str, *, finish_reason: str | None = "stop", untrusted: UntrustedTexts = NO_UNTRUSTED_TEXTS
) -> Verdict | Unusable:
    """Read a reply by a profile's map. A verdict that an untrusted text contains is not the evaluator's own."""
    reader = Reader(partial(_is_verdict, fields), partial(_verdict, fields), partial(_statement, fields))
    return own_verdict(reader, text, finish_reason, untrusted)


def own_verdict(
    reader: Reader[Verdict], text: str, finish_reason: str | None, untrusted: UntrustedTexts
) -> Verdict | Unusable:
    """Return the evaluator's own verdict, with an issue if its repair lost text."""
    read = read_verdict(reader, text, finish_reason, untrusted)
    if isinstance(read, Unusable):
        return read
    found, verdict = read
    return replace(verdict, repaired=found.repaired, issues=(*verdict.issues, *([_LOST] if found.lost_text else [])))


def _keys(fields: ReplyMap, value: Mapping[str, Any], name: str, aliases: re.Pattern[str] = _NO_ALIAS) -> list[str]:
    """Return the keys that mean a field: its own name, or an alias that is no other field's name."""
    own, others = plain(name), {plain(each) for each in fields.fields} - {plain(name)}
    named = ((key, plain(key)) for key in value)
    return [key for key, short in named if short == own or (aliases.fullmatch(short) and short not in others)]


def _is_verdict(fields: ReplyMap, value: Mapping[str, Any]) -> bool:
    if fields.dimensions:
        return all(_keys(fields, value, each.id) for each in fields.dimensions)
    if fields.pass_flag is not None:
        return bool(_keys(fields, value, fields.pass_flag, _FLAG))
    return bool(_keys(fields, value, fields.score or "", _SCORE))


def _verdict(fields: ReplyMap, found: Found) -> Verdict:
    def get(name: str | None, aliases: re.Pattern[str] = _NO_ALIAS) -> Any:
        """Return the field of that name, else the first alias that is not empty."""
        keys = _keys(fields, found.value, name, aliases) if name is not None else []
        own = [found.value[key] for key in keys if plain(key) == plain(name or "")]
        if own and own[-1] is not None:
            return own[-1]
        others = (found.value[key] for key in keys if plain(key) != plain(name or ""))
        return next((member for member in others if member not in (None, "")), None)

    # A repair drops repeated names, so only their count in the text shows a second score.
    if fields.dimensions and found.value.times["score"] > len(fields.dimensions):
        raise UnreadableError("ambiguous", "The verdict names a score more than once.")
    dimensions = tuple(_dimension(each, found, _keys(fields, found.value, each.id)) for each in fields.dimensions)
    score = _score_of(fields, found, dimensions)
    issues = texts_of(get(fields.issues, _ISSUES))
    hint = sentence_of(get(fields.improvement_hint, _HINT))
    summary = "\n".join(f"{each.id}: {each.evidence}" for each in dimensions if each.evidence)
    reasoning = text_of(get(fields.reasoning, _REASONING)) or summary
    loose = _LOOSE_SUGGESTIONS if dimensions and _LOOSE_SUGGESTIONS not in fields.fields else None
    named = texts_of(get(fields.suggestions or loose, _SUGGESTIONS))
    gaps = tuple(dict.fromkeys(each.gap for each in dimensions if each.gap))
    suggestions = (*gaps, *(each for each in named if each not in gaps)) or (*issues, *([hint] if hint else []))
    # Profiles with a yes/no verdict often have no field for suggestions, and the generator needs feedback.
    if not suggestions and fields.pass_flag is not None and score == 0 and reasoning.strip():
        suggestions = (reasoning,)
    return Verdict(
        score=score,
        meets_criteria=flag_of(get(fields.meets_criteria, _FLAG)),
        evaluation_reasoning=reasoning,
        improvement_suggestions=suggestions,
        repaired=False,
        confidence=fraction_or_none(get(fields.confidence)),
        issues=issues,
        improvement_hint=hint,
        criteria=dimensions,
    )


def _score_of(fields: ReplyMap, found: Found, dimensions: Sequence[CriterionResult]) -> float:
    if dimensions:
        return sum(each.score or 0.0 for each in dimensions) / len(dimensions)
    if fields.pass_flag is not None:
        keys = _keys(fields, found.value, fields.pass_flag, _FLAG)
        return _agreed(found, keys, partial(strict_flag, f'The field "{fields.pass_flag}"'))
    return _agreed(found, _keys(fields, found.value, fields.score or "", _SCORE), _fraction)


def _agreed(found: Found, keys: list[str], read: Callable[[object], float]) -> float:
    if found.value.repeated.intersection(keys):
        raise UnreadableError("ambiguous", "The verdict names its score more than once.")
    scores = {read(found.value[key]) for key in keys}
    if len(scores) > 1:
        raise UnreadableError("ambiguous", f"The verdict holds {len(scores)} different scores.")
    return float(scores.pop())


def _fraction(value: object) -> float:
    try:
        return read_score(value)
    except ScoreError as error:
        raise UnreadableError("invalid_score", str(error)) from None


def _dimension(dimension: Criterion, found: Found, keys: list[str]) -> CriterionResult:
    name, inner = dimension.id, found.value[keys[-1]]
    if not isinstance(inner, Mapping):
        raise UnreadableError("invalid_score", f'"{name}" is {describe(inner)}, not an object with a score.')
    parts = plain_members(cast("Mapping[str, Any]", inner))
    if len(keys) > 1 or found.value.repeated.intersection(keys) or "score" in repeated_in(cast("object", inner)):
        raise UnreadableError("ambiguous", f'The verdict names the score of "{name}" more than once.')
    if parts.get("score") is None:
        raise UnreadableError("missing_score", f'"{name}" has no score.')
    suggested = next((texts_of(value) for key, value in parts.items() if _SUGGESTIONS.fullmatch(key)), ())
    gap = sentence_of(parts.get("gap")) or " ".join(suggested)
    return result_of(dimension, _fraction(parts["score"]), evidence=text_of(parts.get("reasoning")), gap=gap)


def _statement(fields: ReplyMap, verdict: Verdict) -> Statement:
    """Return the decisions and words of a verdict, by which the verdict is recognised in the untrusted texts."""
    if verdict.criteria:
        decisions = [Decision(_SCORE_NAMES, partial(_is_same_score, each.score)) for each in verdict.criteria]
        return criteria_statement(decisions, verdict.criteria, evidence="reasoning")
    words = (verdict.evaluation_reasoning,) if verdict.evaluation_reasoning.strip() else verdict.improvement_suggestions
    if fields.pass_flag is not None:
        decision = Decision((fields.pass_flag, *_FLAG_NAMES), partial(is_same_flag, verdict.score))
    else:
        decision = Decision((fields.score or "score", *_SCORE_NAMES), partial(_is_same_score, verdict.score))
    sign = fields.reasoning or fields.improvement_hint or "evaluation_reasoning"
    return Statement((decision,), words, tuple(f": {each}" for each in words[:1]), sign)


def _is_same_score(score: float | None, value: str) -> bool:
    said = fraction_or_none(value)
    return said is not None and score is not None and math.isclose(said, score, abs_tol=TOLERANCE)


def is_same_flag(score: float | None, value: str) -> bool:
    """Return whether a word means yes for the score 1, or no for any other score."""
    return flag_of(value) is (score == 1)


def criteria_statement(
    decisions: Iterable[Decision], criteria: Sequence[CriterionResult], *, evidence: str = "evidence"
) -> Statement:
    """Return the statement of a verdict by criteria; `evidence` is the member name of their evidence."""
    words = tuple(words for each in criteria for words in (each.id, each.evidence, each.gap))
    members = tuple(words for each in criteria for words in (f"{evidence}: {each.evidence}", f"gap: {each.gap}"))
    return Statement(tuple(decisions), words, members, "gap")


def read_claims_reply(
    sources: QuotedSources,
    text: str,
    *,
    unclaimed: float,
    finish_reason: str | None = "stop",
    untrusted: UntrustedTexts = NO_UNTRUSTED_TEXTS,
) -> Verdict | Unusable:
    """Read a reply that checks an answer claim by claim. `unclaimed` is the score of an answer without claims."""
    reader = Reader(has_claims, lambda found: _claims_verdict(read_check(found, sources), unclaimed), _claims_statement)
    verdict = own_verdict(reader, text, finish_reason, untrusted)
    if isinstance(verdict, Verdict):
        return replace(verdict, check=verdict.check and replace(verdict.check, is_repaired=verdict.repaired))
    if verdict.kind == "missing_score":
        return Unusable("incomplete", 'The reply is a JSON object without a list "claims" of its own.')
    return verdict


def _claims_verdict(check: ClaimCheck, unclaimed: float) -> Verdict:
    supported = sum(claim.supported for claim in check.claims)
    summary = f"{supported} of {len(check.claims)} claims are supported by the sources."
    return Verdict(
        score=unclaimed if check.score is None else check.score,
        meets_criteria=check.grounded,
        evaluation_reasoning=summary if check.claims else "The evaluator found no claim in the answer.",
        improvement_suggestions=check.problems,
        repaired=False,
        confidence=check.confidence,
        check=check,
    )


def _claims_statement(verdict: Verdict) -> Statement:
    claims = verdict.check.claims if verdict.check else ()
    if not claims:
        return Statement((Decision(("claims",), lambda value: value.startswith("[")),), ())
    decisions = [Decision(LABEL_NAMES, partial(is_label, claim.supported)) for claim in claims]
    words = tuple(claim.claim for claim in claims)
    return Statement(tuple(decisions), words, tuple(f"claim: {each}" for each in words), "quote")
