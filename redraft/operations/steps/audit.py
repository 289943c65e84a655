"""The step `audit`: an independent evaluator scores the first answer and the returned answer, only for the report.

The loop has already ended: its stop reason and its result do not change.
"""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection

from redraft.domain.bulk.phrases import format_score
from redraft.domain.loop.attempts import best_of
from redraft.operations.calls.budgets import BudgetExhausted
from redraft.operations.calls.model_calls import PlannedCall
from redraft.operations.calls.step_work import Work
from redraft.operations.results.job_results import audit_failed, ending, loops_reason
from redraft.operations.steps.answer_evaluations import AnswerEvaluation, CodeVerdicts, evaluate_all, evaluate_by_code
from redraft.operations.steps.context import StepContext, StepResult
from redraft.operations.steps.evaluate import collect_all, open_questions, retry_if_transient, write_evaluations
from redraft.operations.steps.evaluator_calls import EvaluatorQuestion, prompt_of
from redraft.operations.steps.evaluator_calls import plan as plan_questions
from redraft.storage.jobs import history
from redraft.storage.jobs.history import IterationRecord

OVERFIT = "overfit_suspected"
# Equal scores can differ by rounding
_TOLERANCE = 1e-9


def plan(step: StepContext) -> list[PlannedCall]:
    """Plan one question about each audited answer. The list is empty if the budget is too small."""
    try:
        return plan_questions(step, _questions(step, evaluate_by_code(step, _audited(step))))
    # The job already has its result, so the audit is left out with a warning
    except BudgetExhausted:
        return []


def prepare(step: StepContext) -> None:
    """Compute verdicts and prompts for planning, outside of a unit of work. The step keeps them."""
    for question in _questions(step, evaluate_by_code(step, _audited(step))):
        prompt_of(step, question)


def work(step: StepContext, planned: Sequence[PlannedCall]) -> Work[StepResult]:
    """Ask the independent evaluator, compare the scores, and end the job with the result of the loop."""
    code_verdicts = evaluate_by_code(step, _audited(step))
    asked = [question for question in _questions(step, code_verdicts) if _is_paid_for(step, question, planned)]
    replies = yield from collect_all(step, asked, planned)
    outcomes = [outcome for each in replies for outcome in each.outcomes]
    rescheduled = retry_if_transient(step, replies, outcomes)
    if rescheduled:
        return rescheduled
    if not all(each.is_ours for each in replies):
        return StepResult(outcomes, values=None)
    evaluations = evaluate_all(step, _audited(step), code_verdicts, replies, [_auditor(step)])
    profiles = step.services.profiles
    reason = loops_reason(profiles, step.job, step.request, step.records)
    end = ending(profiles, step.job, step.request, step.records, reason)
    warnings = [*step.job.warnings, *_warnings(step, evaluations)]
    return StepResult(outcomes, {**end.values, "warnings": warnings}, [end.event], partial(_write, step, evaluations))


def _auditor(step: StepContext) -> str:
    return step.request.evaluation.audit or ""


def _audited(step: StepContext) -> list[IterationRecord]:
    """Return the best answer of the first iteration and the returned answer."""
    first = best_of(a for a in step.attempts if a.iteration == 1)
    returned = best_of(step.attempts, prefers_latest=step.rules.prefers_latest)
    places = {(each.iteration, each.candidate) for each in (first, returned) if each}
    return [record for record in step.records if (record.number, record.candidate) in places]


def _questions(step: StepContext, code_verdicts: CodeVerdicts) -> list[EvaluatorQuestion]:
    return open_questions(step, _audited(step), code_verdicts, [_auditor(step)], samples=1)


def _is_paid_for(step: StepContext, question: EvaluatorQuestion, planned: Sequence[PlannedCall]) -> bool:
    place = (question.record.number, question.record.candidate, 2 * question.number)
    return place in step.recorded or any(call.slot.key == place for call in planned)


def _warnings(step: StepContext, evaluations: Sequence[AnswerEvaluation]) -> list[dict[str, str]]:
    scores = [each.evaluation.score for each in evaluations if each.evaluation.score is not None]
    if len(scores) < len(evaluations):
        error = next((each.evaluation.error for each in evaluations if each.evaluation.error), None)
        return [audit_failed(error["detail"] if error else "the remaining budget is too small.")]
    if len(evaluations) < 2:
        return []
    before, after = (each.record.evaluation for each in (evaluations[0], evaluations[-1]))
    first, last = before and before.score, after and after.score
    if first is None or last is None or last <= first + _TOLERANCE or scores[-1] > scores[0] + _TOLERANCE:
        return []
    words = (
        f"The loop's score rose from {format_score(first)} to {format_score(last)}, but the score of the audit by "
        f"{_auditor(step)} did not rise ({format_score(scores[0])}, {format_score(scores[-1])}): the answer may please "
        "only its own evaluator."
    )
    return [{"code": OVERFIT, "message": words}]


def _write(step: StepContext, evaluations: Sequence[AnswerEvaluation], connection: Connection) -> None:
    """Store the new audits. Audits that are stored already, or that the budget did not allow, are left out."""
    known = history.audit_scores(connection, step.job.id, _auditor(step))
    new = [
        each for each in evaluations if (each.record.id, each.evaluation.score) not in known and _is_reportable(each)
    ]
    write_evaluations(step, new, "audit", connection)


def _is_reportable(each: AnswerEvaluation) -> bool:
    return each.evaluation.score is not None or each.evaluation.error is not None
