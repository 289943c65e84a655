"""Several verdicts on one answer become one: the mean of an evaluator's samples, the median of a panel."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Literal, TypeVar

from redraft.domain.evaluation.claims import ClaimCheck, merge_checks
from redraft.domain.evaluation.rubrics import (
    Criterion,
    CriterionResult,
    by_id,
    evaluated_by_model,
    requirements_met,
    result_of,
    score_of,
)
from redraft.domain.evaluation.scores import meets
from redraft.domain.evaluation.verdicts import Verdict

T = TypeVar("T")


CRITERIA_TOGETHER_MAX = 4
"""Up to so many criteria are judged well in one call."""

PerCall = Literal["auto", "all", "one"]


def groups_of(rubric: Sequence[Criterion] | None, per_call: PerCall) -> list[tuple[Criterion, ...]]:
    """What one evaluator is asked about, call by call: criteria of a rubric, or () for the profile's own.

    None at all for a rubric that code can judge.
    """
    if rubric is None:
        return [()]
    criteria = evaluated_by_model(rubric)
    if per_call == "one" or (per_call == "auto" and len(criteria) > CRITERIA_TOGETHER_MAX):
        return [(criterion,) for criterion in criteria]
    return [tuple(criteria)] if criteria else []


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one evaluator said, once.

    Attributes:
        judge: the number of the evaluator in its panel, from 0 on.
        verdict: None when it gave none.
        error: then the in-job error that says why.
    """

    judge: int
    model: str
    sample: int
    verdict: Verdict | None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CombinedVerdict:
    """What an evaluation says of an answer.

    Attributes:
        criteria: the rubric, line by line, in its order; empty without one.
        judges: who said what, one entry each; empty if only one was asked.
        check: what was found for each claim, where claims were checked.
        disagreement: how far apart the highest and the lowest score of the panel, or else of the samples, lie.
    """

    score: float
    is_qualified: bool = True
    meets_criteria: bool | None = None
    reasoning: str = ""
    suggestions: tuple[str, ...] = ()
    confidence: float | None = None
    issues: tuple[str, ...] = ()
    improvement_hint: str = ""
    criteria: tuple[CriterionResult, ...] = ()
    check: ClaimCheck | None = None
    judges: tuple[dict[str, Any], ...] = ()
    disagreement: float | None = None


def by_checks(rubric: Sequence[Criterion], checked: Sequence[CriterionResult]) -> CombinedVerdict:
    """What code alone found. Criteria that only a model can judge count as not met: the score is what is sure."""
    found = by_id(checked)
    results = tuple(found.get(criterion.id) or result_of(criterion, None) for criterion in rubric)
    return CombinedVerdict(
        score=score_of(results),
        is_qualified=requirements_met(results),
        reasoning=_reasoning_of(checked),
        suggestions=_gaps(results),
        criteria=results,
    )


def dimensions_at(results: Iterable[CriterionResult], threshold: float) -> tuple[CriterionResult, ...]:
    """The dimensions of a profile, each met when its score reaches the job's threshold."""
    return tuple(replace(each, passed=each.score is not None and meets(each.score, threshold)) for each in results)


def by_threshold(combined: CombinedVerdict, threshold: float) -> CombinedVerdict:
    """An evaluation by a profile's dimensions, as the job's threshold decides on them."""
    criteria = dimensions_at(combined.criteria, threshold)
    return replace(combined, criteria=criteria, is_qualified=requirements_met(criteria))


def combine(
    opinions: Sequence[Opinion], rubric: Sequence[Criterion] = (), checked: Sequence[CriterionResult] = ()
) -> CombinedVerdict | None:
    """One evaluation out of several opinions; None when none of them holds a verdict."""
    scored = [_scored(opinion, rubric, checked) for opinion in opinions if opinion.verdict is not None]
    if not scored:
        return None
    judges = _by_evaluator(scored)
    means = [fmean(each.score for each in samples) for samples in judges]
    score = median(means)
    spread = means if len(judges) > 1 else [each.score for each in scored]
    closest = min(scored, key=lambda each: abs(each.score - score))
    criteria = _merged(judges, rubric) if rubric else _merged_dimensions(judges, closest)
    verdicts = [each.verdict for each in scored]
    return CombinedVerdict(
        score=score,
        is_qualified=requirements_met(criteria),
        meets_criteria=_majority([verdict.meets_criteria for verdict in verdicts]),
        reasoning=_reasoning_of(criteria) if rubric else closest.verdict.evaluation_reasoning,
        suggestions=_gaps(criteria) if rubric else _united(verdict.improvement_suggestions for verdict in verdicts),
        confidence=_mean(verdict.confidence for verdict in verdicts),
        issues=_united(verdict.issues for verdict in verdicts),
        improvement_hint=closest.verdict.improvement_hint,
        criteria=criteria,
        check=_merged_check(verdicts),
        judges=tuple(_entry(opinion, scored) for opinion in opinions) if len(opinions) > 1 else (),
        disagreement=max(spread) - min(spread) if len(opinions) > 1 else None,
    )


def _merged_check(verdicts: Sequence[Verdict]) -> ClaimCheck | None:
    checks = [verdict.check for verdict in verdicts if verdict.check is not None]
    return merge_checks(checks) if checks else None


@dataclass(frozen=True, slots=True)
class _Scored:
    opinion: Opinion
    verdict: Verdict
    score: float
    criteria: tuple[CriterionResult, ...]


def _scored(opinion: Opinion, rubric: Sequence[Criterion], checked: Sequence[CriterionResult]) -> _Scored:
    verdict = opinion.verdict
    if verdict is None:
        raise ValueError("An opinion without a verdict has no score.")
    if not rubric:
        if verdict.score is None:
            raise ValueError("A verdict without a rubric has a score of its own.")
        return _Scored(opinion, verdict, verdict.score, verdict.criteria)
    found = by_id([*checked, *verdict.criteria])
    criteria = tuple(found[criterion.id] for criterion in rubric)
    return _Scored(opinion, verdict, score_of(criteria), criteria)


def _by_evaluator(scored: Sequence[_Scored]) -> list[list[_Scored]]:
    numbers = dict.fromkeys(each.opinion.judge for each in scored)
    return [[each for each in scored if each.opinion.judge == number] for number in numbers]


def _merged(judges: Sequence[Sequence[_Scored]], rubric: Sequence[Criterion]) -> tuple[CriterionResult, ...]:
    return tuple(_merge(criterion, judges, at) for at, criterion in enumerate(rubric))


def _merged_dimensions(judges: Sequence[Sequence[_Scored]], closest: _Scored) -> tuple[CriterionResult, ...]:
    """The dimensions in the words of the verdict that is closest, each with the middle of what was said."""
    return tuple(replace(each, score=_middle(judges, at)) for at, each in enumerate(closest.criteria))


def _middle(judges: Sequence[Sequence[_Scored]], at: int) -> float:
    return median(fmean(each.criteria[at].score or 0.0 for each in samples) for samples in judges)


def _merge(criterion: Criterion, judges: Sequence[Sequence[_Scored]], at: int) -> CriterionResult:
    """The middle of what was said, in the words of somebody who said the same."""
    value = _middle(judges, at)
    merged = result_of(criterion, value)
    said = [each.criteria[at] for samples in judges for each in samples]
    words = next((result for result in said if result.passed == merged.passed), said[0])
    return replace(merged, evidence=words.evidence, gap="" if merged.passed else words.gap)


def _entry(opinion: Opinion, scored: Sequence[_Scored]) -> dict[str, Any]:
    found = next((each for each in scored if each.opinion is opinion), None)
    return {
        "model": opinion.model,
        "sample": opinion.sample,
        "status": "ok" if found else "error",
        "score": found.score if found else None,
        "reasoning": found.verdict.evaluation_reasoning if found else "",
        "error": opinion.error,
    }


def _reasoning_of(results: Iterable[CriterionResult]) -> str:
    """The verdict in words, without what the generator must not see."""
    lines = [
        f"{result.id}: {'met' if result.passed else 'not met'}. {result.evidence}".strip()
        for result in results
        if not result.hidden and result.passed is not None
    ]
    return "\n".join(lines)


def _gaps(results: Iterable[CriterionResult]) -> tuple[str, ...]:
    """What to change; a criterion that fails without a word of why is named at least."""
    failing = [result for result in results if result.passed is False and not result.hidden]
    return tuple(result.gap or f"Make this hold: {result.name}." for result in failing)


def _united(lists: Iterable[Iterable[T]]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(each for texts in lists for each in texts))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _majority(flags: Sequence[bool | None]) -> bool | None:
    known = [flag for flag in flags if flag is not None]
    return None if not known else sum(known) * 2 > len(known)


def merge_parts(parts: Sequence[Verdict]) -> Verdict:
    """The verdicts on one criterion each, by the same evaluator, as one verdict on all of them."""
    return replace(
        parts[0],
        criteria=tuple(result for part in parts for result in part.criteria),
        evaluation_reasoning=_joined(part.evaluation_reasoning for part in parts),
        repaired=any(part.repaired for part in parts),
        issues=_united(part.issues for part in parts),
    )


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(filter(None, (text.strip() for text in texts)))
