"""Evaluates each answer of a step: without a model where that is possible, otherwise from the evaluators' replies."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from redraft.domain.checks.kinds.outside_checks import OutsideCheck
from redraft.domain.evaluation.aggregation import CombinedVerdict, by_checks, by_threshold
from redraft.domain.evaluation.rubrics import CriterionResult, evaluated_by_model, run_checks
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.skip_rules import reason_for_no_evaluator, skip_reason
from redraft.domain.jobs.states import Step
from redraft.domain.loop.attempts import earlier_duplicate, passes
from redraft.domain.structured.answers import Mismatch, read_answer
from redraft.domain.text.cleaning import preview
from redraft.domain.text.trivial_answers import is_trivial
from redraft.errors import ProviderError
from redraft.operations.calls.check_requests import CheckFailed, OutsideChecks
from redraft.operations.calls.model_calls import Outcome
from redraft.operations.request_views import schema_of
from redraft.operations.results.grounding import checked_claims, meets_rule, problems_of
from redraft.operations.steps.context import StepContext
from redraft.operations.steps.evaluator_calls import (
    EvaluatorReply,
    profile_of,
    verdict_on,
)
from redraft.storage.jobs.history import EvaluationRecord, IterationRecord

_TRIVIAL = "The answer is empty or trivial; it was not shown to the evaluator."
_WRITE_ONE = "Write an answer to the task: the last one held no content."
# The length of the column with the names of the evaluators
_MODEL_CHARS = 220


@dataclass(frozen=True, slots=True)
class AnswerEvaluation:
    """The evaluation of one answer, and the evaluators' replies from which it is computed."""

    record: IterationRecord
    evaluation: EvaluationRecord
    replies: tuple[EvaluatorReply, ...] = ()

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for reply in self.replies for outcome in reply.outcomes]

    @property
    def blocked(self) -> ProviderError | None:
        """The provider's failure that prevented a verdict; None if no such failure happened."""
        if self.evaluation.status != "error":
            return None
        return next((reply.blocked for reply in self.replies if reply.blocked), None)


CodeVerdicts = Mapping[str, EvaluationRecord | None]
"""The evaluation without a model, by iteration id. None if an evaluator is needed."""


def evaluate_by_code(step: StepContext, records: Sequence[IterationRecord]) -> CodeVerdicts:
    """Evaluate the answers that need no model. Each result is computed once per step."""
    for record in records:
        if f"code verdict {record.id}" not in step.found:
            step.found[f"code verdict {record.id}"] = _without_model(step, record)
    return {record.id: step.found[f"code verdict {record.id}"] for record in records}


def evaluate_all(
    step: StepContext,
    records: Sequence[IterationRecord],
    code_verdicts: CodeVerdicts,
    replies: Sequence[EvaluatorReply],
    evaluators: Sequence[str],
) -> list[AnswerEvaluation]:
    """Return the evaluation of each answer, either without a model or from its evaluators' replies."""
    known = [(record, code_verdicts[record.id]) for record in records]
    return [
        AnswerEvaluation(r, found) if found else _evaluate_answer(step, r, replies, evaluators) for r, found in known
    ]


def _evaluate_answer(
    step: StepContext, record: IterationRecord, replies: Sequence[EvaluatorReply], evaluators: Sequence[str]
) -> AnswerEvaluation:
    its_own = tuple(each for each in replies if each.question.record.id == record.id)
    rubric, checked = step.request.rubric or (), _checked(step, record)
    combined = verdict_on(its_own, rubric, checked)
    if combined is not None:
        return AnswerEvaluation(record, _from_verdict(step, record, combined, evaluators), its_own)
    error = next((each.error for each in its_own if each.error), None)
    return AnswerEvaluation(
        record, _evaluation(step, status="error", error=error, evaluator_model=_names(evaluators)), its_own
    )


def _without_model(step: StepContext, record: IterationRecord) -> EvaluationRecord | None:
    """Evaluate an answer without a model. None if an evaluator is needed."""
    # An empty list may be the right answer to a schema
    if is_trivial(record.answer) and schema_of(step.request) is None:
        return _refused(step, _TRIVIAL, _WRITE_ONE)
    mismatch = _mismatch(step, record)
    if mismatch is not None:
        return _refused(step, mismatch, mismatch)
    known = _known(step, record)
    if known is not None:
        return known
    reason = skip_reason(step.request)
    if reason is not None:
        return _evaluation(step, status="skipped", reasoning=reason)
    return _without_evaluator(step, record)


def _refused(step: StepContext, reasoning: str, suggestion: str) -> EvaluationRecord:
    return _evaluation(step, score=0.0, requirements_met=False, reasoning=reasoning, suggestions=[suggestion])


def _mismatch(step: StepContext, record: IterationRecord) -> str | None:
    """Return the validation error of the answer, which the next generation prompt contains. None if it is valid."""
    schema = schema_of(step.request)
    read = read_answer(record.answer, schema) if schema is not None else None
    return read.message if isinstance(read, Mismatch) else None


def _known(step: StepContext, record: IterationRecord) -> EvaluationRecord | None:
    """Return the evaluation of an earlier answer with the same text, if it may be reused."""
    twin = earlier_duplicate(record.as_attempt(), step.attempts)
    known = next(
        (r for r in step.records if twin and (r.number, r.candidate) == (twin.iteration, twin.candidate)),
        None,
    )
    # An audit asks another evaluator, so it must not reuse a verdict of the loop
    if step.job.step == Step.AUDIT or known is None or known.evaluation is None or known.evaluation.score is None:
        return None
    if _may_rest_on_others(step, known):
        return None
    is_qualified = twin is not None and twin.is_qualified
    return replace(
        known.evaluation,
        id=new_id("evaluation"),
        passed=_passes(step, known.evaluation.score, is_qualified=is_qualified),
        requirements_met=is_qualified,
        reused_from=known.evaluation.id,
    )


def _may_rest_on_others(step: StepContext, known: IterationRecord) -> bool:
    """Whether the sources may have changed since an earlier verdict on a structured answer."""
    is_earlier = known.number < step.job.first_iteration and bool(step.request.sources)
    return known.is_outdated or (is_earlier and known.grounding is None)


def _without_evaluator(step: StepContext, record: IterationRecord) -> EvaluationRecord | None:
    """Return the verdict of the checks if it suffices, or a skipped evaluation. None if an evaluator is needed."""
    rubric, options = step.request.rubric, step.request.evaluation
    try:
        checked = _checked(step, record)
    except CheckFailed as failed:
        asked = _checks_until(step, record, failed)
        return _evaluation(step, status="error", error=failed.error, checks=asked)
    fails = any(result.required and not result.passed for result in checked)
    reason = reason_for_no_evaluator(options, step.job.id, record.answer)
    # An answer that fails a required check is not accepted in any case, so a call of an evaluator can be saved
    suffices = fails and (reason is not None or options.skip == "when_checks_fail")
    if rubric and (suffices or not evaluated_by_model(rubric)):
        return _from_verdict(step, record, by_checks(rubric, checked), ())
    return _evaluation(step, status="skipped", reasoning=reason) if reason else None


def _checked(step: StepContext, record: IterationRecord) -> list[CriterionResult]:
    key = f"checked {record.id}"
    if key not in step.found and step.job.step == Step.AUDIT and record.evaluation and record.evaluation.criteria:
        # The loop has run the checks on this answer
        known = [CriterionResult(**each) for each in record.evaluation.criteria]
        step.found[key] = [each for each in known if each.kind == "check"]
    if key not in step.found:
        asked = _outside_checks(step, record)
        rubric, sources = step.request.rubric or (), len(step.request.sources)
        step.found[key] = run_checks(rubric, record.answer, sources=sources, ask=asked.ask)
    return step.found[key]


def _outside_checks(step: StepContext, record: IterationRecord) -> OutsideChecks:
    """Return the outside checks of an answer. The step keeps them, with the traces of their requests."""
    key = f"outside checks {record.id}"
    if key not in step.found:
        place = f"{step.job.id}/{record.id}"
        settings, request = step.services.settings, step.request
        step.found[key] = OutsideChecks(settings, request, place, record.answer, step.remaining_s)
    return step.found[key]


def _passes(step: StepContext, score: float, *, is_qualified: bool) -> bool:
    return is_qualified and passes(score, step.request.score_threshold)


def _from_verdict(
    step: StepContext, record: IterationRecord, combined: CombinedVerdict, evaluators: Sequence[str]
) -> EvaluationRecord:
    if combined.criteria and not step.request.rubric:
        combined = by_threshold(combined, step.request.score_threshold)
    is_grounded = meets_rule(step.request, record.grounding, combined.check)
    return _evaluation(
        step,
        score=combined.score,
        requirements_met=combined.is_qualified and is_grounded,
        meets_criteria=combined.meets_criteria,
        reasoning=combined.reasoning,
        suggestions=[*combined.suggestions, *problems_of(step.request, record.grounding, combined.check)],
        confidence=combined.confidence,
        issues=list(combined.issues),
        improvement_hint=combined.improvement_hint or None,
        criteria=[asdict(result) for result in combined.criteria] or None,
        checks=_check_results(step, record, combined.criteria),
        grounding=checked_claims(combined.check),
        judges=list(combined.by_evaluator) or None,
        disagreement=combined.disagreement,
        evaluator_model=_names(evaluators),
    )


def _check_results(
    step: StepContext, record: IterationRecord, results: Sequence[CriterionResult]
) -> list[dict[str, Any]] | None:
    checks = {criterion.id: criterion.check for criterion in step.request.rubric or () if criterion.check}
    traces = _outside_checks(step, record).traces
    return [
        {
            "id": result.id,
            "kind": check.kind,
            "passed": result.passed,
            "message": result.gap or result.evidence,
            **({"request": traces.get((check.kind, check.value))} if isinstance(check, OutsideCheck) else {}),
        }
        for result in results
        if (check := checks.get(result.id))
    ] or None


def _checks_until(step: StepContext, record: IterationRecord, failed: CheckFailed) -> list[dict[str, Any]]:
    """Return the outside checks that were called: first those with a verdict, then the failed check."""
    asked = _outside_checks(step, record)
    outside = [(each, each.check) for each in step.request.rubric or () if isinstance(each.check, OutsideCheck)]
    known = [each for each, check in outside if (check.kind, check.value) in asked.results]
    results = run_checks(known, record.answer, ask=asked.ask)
    criterion = next(each for each, check in outside if (check.kind, check.value) == failed.key)
    kind, detail = failed.key[0], failed.error["detail"]
    trace = asked.traces.get(failed.key)
    last = {"id": criterion.id, "kind": kind, "passed": False, "message": detail, "request": trace}
    return [*(_check_results(step, record, results) or ()), last]


def _names(evaluators: Sequence[str]) -> str | None:
    """Return the name of the evaluator, or the joined names of the panel; None if no model evaluated."""
    return preview(" + ".join(evaluators), _MODEL_CHARS - 1) or None


def _evaluation(
    step: StepContext,
    *,
    status: str = "ok",
    score: float | None = None,
    requirements_met: bool = True,
    suggestions: Sequence[str] = (),
    **facts: Any,
) -> EvaluationRecord:
    defaults: dict[str, Any] = {"meets_criteria": None, "reasoning": "", "evaluator_model": None}
    return EvaluationRecord(
        **{**defaults, **facts},
        id=new_id("evaluation"),
        status=status,
        score=score,
        passed=score is not None and _passes(step, score, is_qualified=requirements_met),
        requirements_met=requirements_met,
        suggestions=list(suggestions),
        profile=step.request.profile,
        profile_version=profile_of(step).version,
    )
