"""Compute the score of a rubric, the mean of an evaluator's samples, and the median of a panel."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Literal, TypeVar

from redraft.domain.evaluation.claims import ClaimCheck, majority, mean_of_known, merge_checks
from redraft.domain.evaluation.rubrics import (
    Criterion,
    CriterionResult,
    by_id,
    evaluated_by_model,
    result_of,
)
from redraft.domain.evaluation.scores import meets
from redraft.domain.evaluation.verdict_parsing import Verdict

T = TypeVar("T")

# Models evaluate at most this many criteria well in one call; docs/criteria.md names the measurement.
CRITERIA_TOGETHER_MAX = 4

PerCall = Literal["auto", "all", "one"]


def score_of(results: Iterable[CriterionResult]) -> float:
    """Return the weighted sum over the sum of positive weights, clamped to 0..1. A missing value counts as 0."""
    known = list(results)
    gained = sum(result.weight * (result.score or 0.0) for result in known)
    possible = sum(result.weight for result in known if result.weight > 0)
    return min(1.0, max(0.0, gained / possible))


def requirements_met(results: Iterable[CriterionResult]) -> bool:
    """Return whether all required criteria pass. A criterion that was not evaluated does not pass."""
    return all(result.passed for result in results if result.required)


def groups_of(rubric: Sequence[Criterion] | None, per_call: PerCall) -> list[tuple[Criterion, ...]]:
    """Group the criteria of a rubric by evaluator call.

    Without a rubric the result is one empty group, because one call evaluates the whole answer. A rubric that contains
    only checks has no group.
    """
    if rubric is None:
        return [()]
    criteria = evaluated_by_model(rubric)
    if per_call == "one" or (per_call == "auto" and len(criteria) > CRITERIA_TOGETHER_MAX):
        return [(criterion,) for criterion in criteria]
    return [tuple(criteria)] if criteria else []


@dataclass(frozen=True, slots=True)
class EvaluatorVerdict:
    """The verdict of one sample of one evaluator, or its error if the sample has no verdict."""

    evaluator: int  # The index in the panel
    model: str
    sample: int
    verdict: Verdict | None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CombinedVerdict:
    """The combined verdict of all evaluators on one answer.

    Attributes:
        criteria: the results of the rubric in its order; empty without a rubric.
        by_evaluator: an entry for each sample of each evaluator; empty for a single sample.
        disagreement: the highest minus the lowest score of the panel, or of the samples of a single evaluator; None
            for a single sample.
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
    by_evaluator: tuple[dict[str, Any], ...] = ()
    disagreement: float | None = None


def by_checks(rubric: Sequence[Criterion], checked: Sequence[CriterionResult]) -> CombinedVerdict:
    """Return the verdict of the checks alone.

    Criteria that need a model count as not met, so the score is a lower bound.
    """
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
    """Return the dimensions of a profile with `passed` set: true if the score reaches the job's threshold."""
    return tuple(replace(each, passed=each.score is not None and meets(each.score, threshold)) for each in results)


def by_threshold(combined: CombinedVerdict, threshold: float) -> CombinedVerdict:
    """Decide which dimensions of a combined verdict pass, by the job's threshold."""
    criteria = dimensions_at(combined.criteria, threshold)
    return replace(combined, criteria=criteria, is_qualified=requirements_met(criteria))


@dataclass(frozen=True, slots=True)
class _Scored:
    source: EvaluatorVerdict
    verdict: Verdict
    score: float
    criteria: tuple[CriterionResult, ...]


_Panel = list[list[_Scored]]


def combine(
    samples: Sequence[EvaluatorVerdict], rubric: Sequence[Criterion] = (), checked: Sequence[CriterionResult] = ()
) -> CombinedVerdict | None:
    """Return the combined verdict of all evaluators, or None if no evaluator has a verdict."""
    scored = [_score(each, each.verdict, rubric, checked) for each in samples if each.verdict is not None]
    if not scored:
        return None
    numbers = dict.fromkeys(each.source.evaluator for each in scored)
    panel = [[each for each in scored if each.source.evaluator == number] for number in numbers]
    # The mean of each evaluator comes first, so that an evaluator with more usable samples has no more weight.
    means = [fmean(each.score for each in evaluator) for evaluator in panel]
    score = median(means)
    spread = means if len(panel) > 1 else [each.score for each in scored]
    closest = min(scored, key=lambda each: abs(each.score - score))
    # Without a rubric there is no evidence per criterion to merge, so all texts come from one evaluator.
    if rubric:
        criteria = tuple(_merge(criterion, panel, at) for at, criterion in enumerate(rubric))
    else:
        criteria = tuple(replace(each, score=_median(panel, at)) for at, each in enumerate(closest.criteria))
    verdicts = [each.verdict for each in scored]
    checks = [verdict.check for verdict in verdicts if verdict.check is not None]
    return CombinedVerdict(
        score=score,
        is_qualified=requirements_met(criteria),
        meets_criteria=majority(verdict.meets_criteria for verdict in verdicts),
        reasoning=_reasoning_of(criteria) if rubric else closest.verdict.evaluation_reasoning,
        suggestions=_gaps(criteria) if rubric else _united(verdict.improvement_suggestions for verdict in verdicts),
        confidence=mean_of_known(verdict.confidence for verdict in verdicts),
        issues=_united(verdict.issues for verdict in verdicts),
        improvement_hint=closest.verdict.improvement_hint,
        criteria=criteria,
        check=merge_checks(checks) if checks else None,
        by_evaluator=tuple(_entry(each, scored) for each in samples) if len(samples) > 1 else (),
        disagreement=max(spread) - min(spread) if len(samples) > 1 else None,
    )


def _score(
    source: EvaluatorVerdict, verdict: Verdict, rubric: Sequence[Criterion], checked: Sequence[CriterionResult]
) -> _Scored:
    if rubric:
        found = by_id([*checked, *verdict.criteria])
        criteria = tuple(found[criterion.id] for criterion in rubric)
        return _Scored(source, verdict, score_of(criteria), criteria)
    if verdict.score is None:
        raise ValueError("A verdict without a rubric needs a score of its own.")
    return _Scored(source, verdict, verdict.score, verdict.criteria)


def _median(panel: _Panel, at: int) -> float:
    return median(fmean(each.criteria[at].score or 0.0 for each in samples) for samples in panel)


def _merge(criterion: Criterion, panel: _Panel, at: int) -> CriterionResult:
    """Return the median result, with the evidence and gap of an evaluator that made the same decision."""
    merged = result_of(criterion, _median(panel, at))
    results = [each.criteria[at] for samples in panel for each in samples]
    words = next((result for result in results if result.passed == merged.passed), results[0])
    return replace(merged, evidence=words.evidence, gap="" if merged.passed else words.gap)


def _entry(sample: EvaluatorVerdict, scored: Sequence[_Scored]) -> dict[str, Any]:
    found = next((each for each in scored if each.source is sample), None)
    return {
        "model": sample.model,
        "sample": sample.sample,
        "status": "ok" if found else "error",
        "score": found.score if found else None,
        "reasoning": found.verdict.evaluation_reasoning if found else "",
        "error": sample.error,
    }


def _reasoning_of(results: Iterable[CriterionResult]) -> str:
    # The next prompt of the generator contains this reasoning, and the generator must not see hidden criteria.
    return "\n".join(
        f"{result.id}: {'met' if result.passed else 'not met'}. {result.evidence}".strip()
        for result in results
        if not result.hidden and result.passed is not None
    )


def _gaps(results: Iterable[CriterionResult]) -> tuple[str, ...]:
    """Return the changes to make: the gap of each failing criterion, or its name if it has no gap."""
    failing = [result for result in results if result.passed is False and not result.hidden]
    return tuple(result.gap or f"Make this hold: {result.name}." for result in failing)


def _united(lists: Iterable[Iterable[T]]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(each for texts in lists for each in texts))


def merge_parts(parts: Sequence[Verdict]) -> Verdict:
    """Merge an evaluator's verdicts on groups of criteria into one verdict on the rubric."""
    return replace(
        parts[0],
        criteria=tuple(result for part in parts for result in part.criteria),
        evaluation_reasoning="\n".join(filter(None, (part.evaluation_reasoning.strip() for part in parts))),
        repaired=any(part.repaired for part in parts),
        issues=_united(part.issues for part in parts),
    )
