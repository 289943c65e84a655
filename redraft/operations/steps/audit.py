"""The step `audit`: a judge outside of the loop scores the first answer and the returned one, and only people are told.

The loop has ended by then: whatever happens here, its reason to stop and its result stay.
"""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection

from redraft.domain.bulk.phrases import say_score
from redraft.domain.jobs.loop import best_of
from redraft.operations.calls.budgets import BudgetExhausted
from redraft.operations.calls.model_calls import PlannedCall
from redraft.operations.results.job_results import audit_failed, ending, loops_reason
from redraft.operations.steps.context import Move, StepInHand
from redraft.operations.steps.evaluate import (
    Judgement,
    Settled,
    hear_all,
    judge_all,
    later_if_passing,
    open_askings,
    settle,
    write_evaluations,
)
from redraft.operations.steps.evaluator_calls import Asking, prompt_of
from redraft.operations.steps.evaluator_calls import plan as plan_askings
from redraft.storage.jobs import history
from redraft.storage.jobs.history import IterationRecord

OVERFIT = "overfit_suspected"
_TOLERANCE = 1e-9


def plan(step: StepInHand) -> list[PlannedCall]:
    """One asking about each audited answer; none when the budget does not reach."""
    try:
        return plan_askings(step, _askings(step, settle(step, _audited(step))))
    except BudgetExhausted:
        return []


def look(step: StepInHand) -> None:
    """Do now what of the planning takes long: later it is known."""
    for asking in _askings(step, settle(step, _audited(step))):
        prompt_of(step, asking)


def work(step: StepInHand, planned: Sequence[PlannedCall]) -> Move:
    """Ask the outside judge, compare, and end the job as the loop ended."""
    settled = settle(step, _audited(step))
    asked = [asking for asking in _askings(step, settled) if _is_paid_for(step, asking, planned)]
    heard = hear_all(step, asked, planned)
    outcomes = [outcome for each in heard for outcome in each.outcomes]
    later = later_if_passing(step, heard, outcomes)
    if later:
        return later
    if not all(each.is_ours for each in heard):
        return Move(outcomes, values=None)
    judged = judge_all(step, _audited(step), settled, heard, [_auditor(step)])
    profiles = step.services.profiles
    reason = loops_reason(profiles, step.job, step.request, step.records)
    end = ending(profiles, step.job, step.request, step.records, reason)
    warnings = [*step.job.warnings, *_warnings(step, judged)]
    return Move(outcomes, {**end.values, "warnings": warnings}, [end.event], partial(_write, step, judged))


def _auditor(step: StepInHand) -> str:
    return step.request.evaluation.audit or ""


def _audited(step: StepInHand) -> list[IterationRecord]:
    """The answer that the first iteration gave on, and the one that is returned."""
    first = best_of(a for a in step.attempts if a.iteration == 1)
    returned = best_of(step.attempts, prefers_latest=step.rules.prefers_latest)
    places = {(each.iteration, each.candidate) for each in (first, returned) if each}
    return [record for record in step.records if (record.number, record.candidate) in places]


def _askings(step: StepInHand, settled: Settled) -> list[Asking]:
    return open_askings(step, _audited(step), settled, [_auditor(step)], samples=1)


def _is_paid_for(step: StepInHand, asking: Asking, planned: Sequence[PlannedCall]) -> bool:
    place = (asking.record.number, asking.record.candidate, 2 * asking.number)
    return place in step.memo or any(call.slot.key == place for call in planned)


def _warnings(step: StepInHand, judged: Sequence[Judgement]) -> list[dict[str, str]]:
    scores = [each.evaluation.score for each in judged if each.evaluation.score is not None]
    if len(scores) < len(judged):
        error = next((each.evaluation.error for each in judged if each.evaluation.error), None)
        return [audit_failed(error["detail"] if error else "what is left of the budget does not reach.")]
    if len(judged) < 2:
        return []
    before, after = (each.record.evaluation for each in (judged[0], judged[-1]))
    first, last = before and before.score, after and after.score
    if first is None or last is None or last <= first + _TOLERANCE or scores[-1] > scores[0] + _TOLERANCE:
        return []
    words = (
        f"The loop's score rose from {say_score(first)} to {say_score(last)}, that of the audit by {_auditor(step)}"
        f" did not ({say_score(scores[0])}, {say_score(scores[-1])}): the answer may please its evaluator and nobody"
        " else."
    )
    return [{"code": OVERFIT, "message": words}]


def _write(step: StepInHand, judged: Sequence[Judgement], connection: Connection) -> None:
    """What was known before a continuation is not entered again, nor what was not asked for want of a budget."""
    known = history.audited(connection, step.job.id, _auditor(step))
    new = [each for each in judged if (each.record.id, each.evaluation.score) not in known and _is_told(each)]
    write_evaluations(step, new, "audit", connection)


def _is_told(judgement: Judgement) -> bool:
    return judgement.evaluation.score is not None or judgement.evaluation.error is not None
