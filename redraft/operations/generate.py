"""The step `generate`: write one answer per candidate, and hand them on to be evaluated."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from redraft.domain.ids import new_id
from redraft.domain.loop import Feedback, feedback_for
from redraft.domain.requests import GenerateAnswer, ladder
from redraft.domain.states import Step
from redraft.operations import steps
from redraft.operations.calling import Outcome, PlannedCall, Slot, make_chat, plan_call
from redraft.operations.endings import Event, event
from redraft.operations.steps import Move, StepInHand
from redraft.prompts.render import feedback_text, generation_prompt
from redraft.storage import history
from redraft.storage.history import IterationRecord


def _request(step: StepInHand) -> GenerateAnswer:
    if not isinstance(step.request, GenerateAnswer):
        raise TypeError(f"Job {step.job.id} of kind {step.job.kind} has no generate step.")
    return step.request


def _slots(step: StepInHand) -> list[Slot]:
    number = step.job.iteration + 1
    count = _request(step).candidates
    return [Slot(step.job.id, Step.GENERATE, number, candidate, 0) for candidate in range(1, count + 1)]


def _model(step: StepInHand) -> str:
    models = ladder(_request(step))
    return models[min(step.job.iteration, len(models) - 1)]


def plan(step: StepInHand) -> list[PlannedCall]:
    """One call per candidate, all with the same prompt."""
    request = _request(step)
    chat = make_chat(
        generation_prompt(request, _feedback(step)),
        _model(step),
        temperature=request.sampling.temperature,
        max_output_tokens=request.sampling.max_output_tokens,
    )
    return [
        plan_call(step.services, slot, "generate", chat, token=step.job.lease_token, attempt=step.attempt_no)
        for slot in _slots(step)
    ]


def work(step: StepInHand, planned: Sequence[PlannedCall]) -> Move:
    """Make the reserved calls, and hand on what was written."""
    by_slot = {call.slot: call for call in planned}
    outcomes = steps.side_by_side(step, [partial(steps.first_outcome, step, slot, by_slot) for slot in _slots(step)])
    errors = [outcome.error for outcome in outcomes if outcome.error]
    passing = next((error for error in errors if error.retryable), None)
    later = steps.try_later(step, outcomes, passing) if passing else None
    if later:
        return later
    answered = [outcome for outcome in outcomes if outcome.text is not None]
    if not answered:
        return steps.give_up(step, outcomes, errors[0], _model(step))
    return _record(step, outcomes, answered)


def _feedback(step: StepInHand) -> Feedback | None:
    return feedback_for(steps.rules_of(step.job, step.request), step.attempts, step.job.guidance)


def _record(step: StepInHand, outcomes: Sequence[Outcome], answered: Sequence[Outcome]) -> Move:
    number = step.job.iteration + 1
    feedback = _feedback(step)
    written = tuple(
        IterationRecord(
            id=new_id("iteration"),
            number=number,
            candidate=outcome.slot.candidate,
            generator_model=_model(step),
            answer=outcome.text or "",
            feedback_given=feedback_text(feedback) if feedback else None,
            created_at=datetime.now(UTC),
            evaluation=None,
        )
        for outcome in answered
    )
    return steps.go_on(
        step,
        outcomes,
        Step.EVALUATE,
        iteration=number,
        records=step.records + written,
        events=[_told(step, outcome) for outcome in answered],
        write=lambda connection: history.add_iterations(connection, step.job.id, written),
    )


def _told(step: StepInHand, outcome: Outcome) -> Event:
    number = step.job.iteration + 1
    return event(
        "iteration.generated",
        f"Iteration {number}: an answer of {len(outcome.text or '')} characters was written.",
        iteration=number,
        candidate=outcome.slot.candidate,
        model=_model(step),
        answer=outcome.text,
        seconds=round(outcome.seconds, 3),
    )
