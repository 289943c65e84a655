"""An evaluator's reply becomes a verdict: by a profile's map of its fields, or criterion by criterion.

No text raises, no score is invented, clamped or guessed, and what the model says of passing never decides.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from redraft.domain.claims import ClaimCheck, QuotedSources, read_claims
from redraft.domain.replies import Found, Unusable, find_object, repeated_in, times_named
from redraft.domain.reply_members import (
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
from redraft.domain.rubrics import SCALE_TOP, Criterion, CriterionResult, result_of
from redraft.domain.scores import ScoreError, describe, read_score
from redraft.domain.texts import clean, fold, preview


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


def read_reply(fields: ReplyMap, text: str, *, finish_reason: str | None = "stop") -> Verdict | Unusable:
    """Read an evaluator's reply; `finish_reason` is the provider's word for why the reply ended."""
    found = find_object(text, finish_reason, partial(_is_verdict, fields))
    if isinstance(found, Unusable):
        return found
    try:
        return _verdict(fields, _Fields(found, _known(fields)))
    except UnreadableError as error:
        return error.unusable


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
        repaired=members.found.repaired,
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
    sources: QuotedSources, text: str, *, unclaimed: float, finish_reason: str | None = "stop"
) -> Verdict | Unusable:
    """Read a reply that checks an answer claim by claim; `unclaimed`: the score of an answer without claims."""
    check = read_claims(text, sources, finish_reason=finish_reason)
    if isinstance(check, Unusable):
        return check
    held = sum(claim.supported for claim in check.claims)
    told = f"{held} of {len(check.claims)} claims are supported by the sources."
    return Verdict(
        score=unclaimed if check.score is None else check.score,
        meets_criteria=check.grounded,
        evaluation_reasoning=told if check.claims else "The evaluator found no claim in the answer.",
        improvement_suggestions=check.problems,
        repaired=check.is_repaired,
        confidence=check.confidence,
        check=check,
    )


def read_rubric_reply(
    criteria: Sequence[Criterion], text: str, *, finish_reason: str | None = "stop"
) -> Verdict | Unusable:
    """Read a reply that judges these criteria one by one; exactly these, each once, or it is none."""
    ids = [criterion.id for criterion in criteria]
    found = find_object(_as_object(text), finish_reason, partial(_judges, frozenset(ids)))
    if isinstance(found, Unusable):
        return found
    try:
        entries = _entries(found, ids)
        results = tuple(_result(criterion, entries[criterion.id]) for criterion in criteria)
    except UnreadableError as error:
        return error.unusable
    return Verdict(None, None, "", (), repaired=found.repaired, criteria=results)


_LIST = re.compile(r"(?:```(?:json)?\s*)?(\[.*\])(?:\s*```)?", re.DOTALL | re.IGNORECASE)


def _as_object(text: str) -> str:
    """A reply that is nothing but a list of criteria, as the object it should have been."""
    bare = _LIST.fullmatch(text.strip())
    return f'{{"criteria": {bare[1]}}}' if bare else text


def _judges(ids: frozenset[str], value: Mapping[str, Any]) -> bool:
    return any(plain(key) == "criteria" for key in value) or ids <= value.keys()


_STRAY_NAMES_MAX = 20


def _entries(found: Found, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    keys = [key for key in found.value if plain(key) == "criteria"]
    if len(keys) > 1 or found.repeated.intersection(keys):
        raise UnreadableError(Unusable("ambiguous", "The reply holds its criteria more than once."))
    told: Any = found.value[keys[0]] if keys else found.value
    named = _named(told)
    names = [name for name, _ in named]
    if len(names) > 2 * len(ids) + _STRAY_NAMES_MAX:
        words = f"The reply names {len(names)} criteria, where {len(ids)} were asked for."
        raise UnreadableError(Unusable("incomplete", words))
    twice = {name for name in names if names.count(name) > 1 or times_named(found, name) > 1}
    twice |= repeated_in(told)
    _refuse_gaps(ids, names, twice)
    entries = {name: _object(name, entry) for name, entry in named}
    for verdict in ("met", "level"):
        if times_named(found, verdict) > len(ids):
            raise UnreadableError(Unusable("ambiguous", f'The reply says "{verdict}" more often than it has criteria.'))
    return entries


def _named(told: object) -> list[tuple[str, Any]]:
    if isinstance(told, Mapping):
        return list(cast("Mapping[str, Any]", told).items())
    if isinstance(told, list):
        items = cast("list[Any]", told)
        return [(text_of(plain_members(item).get("id")).strip() or describe(item), item) for item in items]
    raise UnreadableError(
        Unusable("incomplete", f"The criteria are {describe(told)}, not an object with one entry each.")
    )


def _refuse_gaps(ids: Sequence[str], names: Sequence[str], twice: set[str]) -> None:
    wrong = {
        "leaves out": [each for each in ids if each not in names],
        "names unknown": [each for each in names if each not in ids],
        "repeats": sorted(twice),
    }
    told = [f"{words} {_listed(found)}" for words, found in wrong.items() if found]
    if told:
        raise UnreadableError(Unusable("incomplete", f"Of the criteria, the reply {'; it '.join(told)}."))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(preview(fold(clean(name)), 64) or '""' for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


def _object(name: str, entry: object) -> Mapping[str, Any]:
    if isinstance(entry, Mapping):
        return cast("Mapping[str, Any]", entry)
    raise UnreadableError(Unusable("invalid_score", f'The criterion "{name}" is {describe(entry)}, not an object.'))


def _result(criterion: Criterion, entry: Mapping[str, Any]) -> CriterionResult:
    asked = "level" if criterion.kind == "scale" else "met"
    parts = plain_members(entry)
    where = f'"{asked}" of the criterion "{criterion.id}"'
    if [plain(key) for key in entry].count(asked) > 1 or asked in repeated_in(entry):
        raise UnreadableError(Unusable("ambiguous", f"The reply gives {where} more than once."))
    if parts.get(asked) is None:
        raise UnreadableError(Unusable("incomplete", f"The reply gives no {where}."))
    if criterion.kind == "scale":
        value = _level(where, parts[asked]) / SCALE_TOP
    else:
        value = float(strict_flag(where, parts[asked]))
    return result_of(criterion, value, evidence=text_of(parts.get("evidence")), gap=sentence_of(parts.get("gap")))


_LEVEL = re.compile(rf"([0-{SCALE_TOP}])(?:\.0+)?(?:\s*(?:/|\bout\s+of\b)\s*{SCALE_TOP})?", re.IGNORECASE)


def _level(where: str, value: object) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    level = _LEVEL.fullmatch(json.dumps(value) if is_number else value.strip() if isinstance(value, str) else "")
    if level is None:
        words = f"{where} is {describe(value)}, not a whole number from 0 to {SCALE_TOP}."
        raise UnreadableError(Unusable("invalid_score", words))
    return int(level[1])
