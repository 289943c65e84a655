"""The step `evaluate` with `evaluation.when: overlap`: it also generates the next iteration, before the verdict.

The speculative calls have slots of their own, so no other step uses their replies. If the loop continues, this step
also stores their answers as the next iteration. If the loop ends, the speculative calls are aborted. If they fail, the
step `generate` follows as usual.
"""

from collections.abc import Sequence
from dataclasses import replace

from redraft.domain.jobs.states import Step
from redraft.errors import ProviderError
from redraft.operations.calls.budgets import BudgetExhausted, with_planned
from redraft.operations.calls.model_calls import SPECULATIVE_SEQ, PlannedCall
from redraft.operations.calls.step_work import Work, with_speculation
from redraft.operations.request_views import overlaps
from redraft.operations.steps import evaluate, generate
from redraft.operations.steps.context import StepContext, StepResult
from redraft.storage.engine.columns import DbNow

_IS_PLANNED = "speculation is planned"


def prepare(step: StepContext) -> None:
    """Compute the verdicts and the prompts for planning, outside of a unit of work."""
    evaluate.prepare(step)
    if _may_speculate(step):
        generate.prepare(_context(step))


def plan(step: StepContext) -> list[PlannedCall]:
    """Plan the evaluators' calls, and the speculative calls if the budget suffices for all of them."""
    evaluator_calls = evaluate.plan(step)
    return [*evaluator_calls, *_plan_speculation(step, evaluator_calls)]


def _may_speculate(step: StepContext) -> bool:
    return overlaps(step.request) and step.job.iteration < step.job.iteration_limit


def _context(step: StepContext, evaluator_calls: Sequence[PlannedCall] = ()) -> StepContext:
    """Return the context of the next iteration, which does not include the answers that are being evaluated."""
    records = tuple(record for record in step.records if record.number < step.job.iteration)
    spent = with_planned(step.services, step.spent, evaluator_calls)
    return replace(step, job=replace(step.job, step=Step.GENERATE.value), records=records, spent=spent)


def _plan_speculation(step: StepContext, evaluator_calls: Sequence[PlannedCall]) -> list[PlannedCall]:
    if not _may_speculate(step):
        return []
    following = _context(step, evaluator_calls)
    is_recorded = any(slot.key in step.recorded for slot in generate.slots_of(following, SPECULATIVE_SEQ))
    # Without a call of an evaluator, the verdict is known at once
    if not evaluator_calls and not is_recorded:
        return []
    try:
        planned = generate.plan(following, SPECULATIVE_SEQ)
    # The step `generate` meets the same error, and handles it
    except (BudgetExhausted, ProviderError):
        return []
    step.found[_IS_PLANNED] = True
    return planned


def work(step: StepContext, planned: Sequence[PlannedCall]) -> Work[StepResult]:
    """Evaluate the answers of the iteration, and generate the next iteration at the same time."""
    reserved = {call.slot for call in planned}
    following = _context(step)
    slots = [
        slot
        for slot in (generate.slots_of(following, SPECULATIVE_SEQ) if step.found.get(_IS_PLANNED) else ())
        if slot in reserved or slot.key in step.recorded
    ]
    if not slots:
        return (yield from evaluate.work(step, planned))
    result, written = yield from with_speculation(
        evaluate.work(step, planned), generate.write_all(following, slots, planned), _needs_speculation
    )
    outcomes = [*result.outcomes, *(outcome for candidate in written for outcome in candidate)]
    answered = generate.answered_in(written)
    result = replace(result, outcomes=outcomes)
    if result.next_step is not Step.GENERATE:
        return result
    return generate.record(following, outcomes, answered, result) if answered else _after_wait(step, result)


def _after_wait(step: StepContext, result: StepResult) -> StepResult:
    """Delay the next step by the time for which the provider refused the speculative calls."""
    asked_s = max((o.error.retry_after_s or 0 for o in result.outcomes if o.error and o.slot.is_speculative), default=0)
    # At the deadline the next step says why there is no answer
    if not 0 < asked_s < step.remaining_s():
        return result
    values = {**(result.values or {}), "available_at": DbNow(asked_s), "rung_at": None}
    # Without `next_step`, no worker claims the next step or is notified of it before the step is due
    return replace(result, values=values, next_step=None)


def _needs_speculation(result: StepResult) -> bool:
    """Whether the speculative reply may be used: the job continues, the lease was lost, or the step is rescheduled."""
    return result.next_step is not Step.AUDIT and "stop_reason" not in (result.values or {})
