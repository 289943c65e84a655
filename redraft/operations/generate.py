"""The step `generate`: write one answer per candidate, and hand them on to be evaluated."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection

from redraft.domain.ids import new_id
from redraft.domain.loop import feedback_for
from redraft.domain.requests import GenerateAnswer, ladder
from redraft.domain.states import Step
from redraft.jobs import StepMessage
from redraft.operations import steps
from redraft.operations.calling import Outcome, PlannedCall, Slot, make_chat, plan_call
from redraft.operations.endings import Event, event
from redraft.operations.leases import LeaseHolder
from redraft.operations.services import Services
from redraft.operations.steps import StepInHand
from redraft.prompts.render import feedback_text, generation_prompt
from redraft.storage import history


def generate(services: Services, holder: LeaseHolder, job_id: str, step_no: int) -> None:
    """Do the step, if it is due and nobody else has it."""
    claimed = steps.claim_step(services, holder, StepMessage(Step.GENERATE, job_id, step_no), _plan)
    if claimed is None:
        return
    step, planned = claimed
    with holder.holding(job_id, step.job.lease_token):
        by_slot = {call.slot: call for call in planned}
        work = [partial(steps.first_outcome, step, slot, by_slot) for slot in _slots(step)]
        _conclude(step, steps.side_by_side(step, work))


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


def _plan(step: StepInHand) -> Sequence[PlannedCall]:
    request = _request(step)
    missing = [slot for slot in _slots(step) if (slot.candidate, slot.seq) not in _replies(step)]
    feedback = feedback_for(steps.rules_of(step.job, request), step.attempts, step.job.guidance)
    chat = make_chat(
        generation_prompt(request, feedback),
        _model(step),
        temperature=request.sampling.temperature,
        max_output_tokens=request.sampling.max_output_tokens,
    )
    return [
        plan_call(step.services, slot, "generate", chat, token=step.job.lease_token, attempt=step.attempt_no)
        for slot in missing
    ]


def _replies(step: StepInHand) -> set[tuple[int, int]]:
    """Only replies count: a failure that was final once may be mended by the time a job is continued."""
    return {key for key, row in step.memo.items() if row["status"] == "ok"}


def _conclude(step: StepInHand, outcomes: list[Outcome]) -> None:
    errors = [outcome.error for outcome in outcomes if outcome.error]
    passing = next((error for error in errors if error.retryable), None)
    if passing and steps.try_later(step, outcomes, passing):
        return
    answered = [outcome for outcome in outcomes if outcome.text is not None]
    if not answered:
        steps.give_up(step, outcomes, errors[0], _model(step))
        return
    if _record(step, outcomes, answered):
        steps.ring_next(step, Step.EVALUATE)


def _record(step: StepInHand, outcomes: list[Outcome], answered: list[Outcome]) -> bool:
    number = step.job.iteration + 1
    feedback = feedback_for(steps.rules_of(step.job, step.request), step.attempts, step.job.guidance)
    rows = [
        {
            "id": new_id("iteration"),
            "job_id": step.job.id,
            "number": number,
            "candidate": outcome.slot.candidate,
            "generator_model": _model(step),
            "answer": outcome.text,
            "feedback_given": feedback_text(feedback) if feedback else None,
        }
        for outcome in answered
    ]

    def write(connection: Connection) -> None:
        history.add_iterations(connection, rows)

    values = steps.go_on(step, Step.EVALUATE, iteration=number)
    return steps.finish(step, outcomes, values, [_told(step, outcome) for outcome in answered], write)


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
