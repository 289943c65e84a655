"""The step `generate`: write one answer per candidate, and hand them on to be evaluated."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from redraft.domain.answers import Misfit, read_answer
from redraft.domain.chats import LimitOrigin, Prompt
from redraft.domain.ids import new_id
from redraft.domain.loop import Feedback, feedback_for
from redraft.domain.requests import GenerateAnswer
from redraft.domain.states import Step
from redraft.errors import ProviderError
from redraft.operations import steps
from redraft.operations.budgets import BudgetExhausted
from redraft.operations.calling import Ask, Outcome, PlannedCall, Slot, remembered
from redraft.operations.deltas import DeltaTeller
from redraft.operations.endings import Event, event
from redraft.operations.grounded import NOTHING, grounding_reader
from redraft.operations.steps import Move, StepInHand
from redraft.operations.terms import models_of, rules_of, schema_of
from redraft.prompts.render import feedback_text, generation_prompt, repair_prompt
from redraft.storage import history
from redraft.storage.history import IterationRecord


def _request(step: StepInHand) -> GenerateAnswer:
    if not isinstance(step.request, GenerateAnswer):
        raise TypeError(f"Job {step.job.id} of kind {step.job.kind} has no generate step.")
    return step.request


def _model(step: StepInHand) -> str:
    return models_of(step.job, step.request)[0]


def _slots(step: StepInHand) -> list[Slot]:
    number = step.job.iteration + 1
    count = _request(step).candidates
    return [Slot(step.job.id, Step.GENERATE, number, candidate, 0) for candidate in range(1, count + 1)]


def plan(step: StepInHand) -> list[PlannedCall]:
    """One call per candidate, all with the same prompt."""
    prompt = _prompt(step)
    # A continuation may ask something else in the same place
    is_first = step.job.continuations == 0
    unheard = [slot for slot in _slots(step) if not (is_first and slot.key in step.memo)]
    return [_plan_call(step, slot, "generate", prompt, calls_at_once=len(unheard)) for slot in unheard]


def look(step: StepInHand) -> None:
    """Do now what of the planning takes long: later it is known."""
    _prompt(step)


def _prompt(step: StepInHand) -> Prompt:
    if "prompt" not in step.found:
        step.found["prompt"] = generation_prompt(_request(step), _feedback(step), schema_of(step.request))
    return step.found["prompt"]


def _plan_call(step: StepInHand, slot: Slot, kind: str, prompt: Prompt, *, calls_at_once: int = 1) -> PlannedCall:
    request = _request(step)
    sampling = request.sampling
    origin = LimitOrigin(is_fixed=True) if sampling.max_output_tokens else None
    ask = Ask(prompt, _model(step), sampling.temperature, sampling.max_output_tokens, request.stream, origin)
    return steps.plan(step, slot, kind, ask, calls_at_once=calls_at_once)


def work(step: StepInHand, planned: Sequence[PlannedCall]) -> Move:
    """Make the reserved calls, and hand on what was written."""
    by_slot = {call.slot: call for call in planned}
    written = steps.side_by_side(step, [partial(_write, step, slot, by_slot) for slot in _slots(step)])
    outcomes = [outcome for candidate in written for outcome in candidate]
    # A second asking that failed leaves the first answer
    last = [next((o for o in reversed(candidate) if o.text is not None), candidate[-1]) for candidate in written]
    errors = [outcome.error for outcome in last if outcome.error]
    passing = next((error for error in errors if error.retryable), None)
    later = steps.try_later(step, outcomes, passing) if passing else None
    if later:
        return later
    answered = [outcome for outcome in last if outcome.text is not None]
    if not answered:
        return steps.give_up(step, outcomes, errors[0], _model(step))
    return _record(step, outcomes, answered)


def _write(step: StepInHand, slot: Slot, planned: Mapping[Slot, PlannedCall]) -> tuple[Outcome, ...]:
    """One candidate: its call, and a second one if what came does not fit the answer's schema. The last text counts."""
    with _telling(step, slot) as on_delta:
        made = steps.outcomes_of(step, slot, planned, on_delta)
    schema = schema_of(step.request)
    if schema is not None and made[-1].text is not None:
        read = read_answer(made[-1].text, schema)
        if isinstance(read, Misfit):
            made = _repair(step, slot, (*made[:-1], steps.not_to_reuse(made[-1])), read)
    return steps.keep_one_of(step, planned, made)


def _repair(step: StepInHand, slot: Slot, made: tuple[Outcome, ...], misfit: Misfit) -> tuple[Outcome, ...]:
    *before, first = made
    slot = replace(slot, seq=1)
    row = step.memo.get(slot.key)
    if row is not None:
        return (*made, remembered(slot, row))
    prompt = repair_prompt(_prompt(step), first.text or "", misfit.message)
    try:
        asked = steps.ask_again(step, first, lambda now: _plan_call(now, slot, "repair", prompt))
    except (BudgetExhausted, ProviderError):
        return made
    if asked is None:
        return made
    stored, planned = asked
    with _telling(step, slot) as on_delta:
        again = steps.call(step, planned, on_delta)
    text, schema = again[-1].text, schema_of(step.request)
    if text is not None and schema is not None and isinstance(read_answer(text, schema), Misfit):
        again = (*again[:-1], steps.not_to_reuse(again[-1]))
    return (*before, stored, *again)


@contextmanager
def _telling(step: StepInHand, slot: Slot) -> Generator[Callable[[str], None] | None]:
    """Where the text of a streamed call goes; a second asking counts as a further attempt."""
    if not _request(step).stream:
        yield None
        return
    is_ours = partial(step.holder.may_call, step.job.id, step.job.lease_token)
    teller = DeltaTeller(step.services.queue, slot, step.attempt_no + slot.seq, is_ours)
    yield teller
    teller.flush()


def _feedback(step: StepInHand) -> Feedback | None:
    return feedback_for(rules_of(step.job, step.request), step.attempts, step.job.guidance)


def _record(step: StepInHand, outcomes: Sequence[Outcome], answered: Sequence[Outcome]) -> Move:
    number = step.job.iteration + 1
    feedback = _feedback(step)
    grounding_of = grounding_reader(step.request)
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
            grounding=grounding_of(outcome.text or ""),
        )
        for outcome in answered
    )
    return steps.go_on(
        step,
        outcomes,
        Step.EVALUATE,
        iteration=number,
        records=step.records + written,
        events=[_told(step, outcome, record) for outcome, record in zip(answered, written, strict=True)],
        write=lambda connection: history.add_iterations(connection, step.job.id, written),
    )


def _told(step: StepInHand, outcome: Outcome, record: IterationRecord) -> Event:
    number = step.job.iteration + 1
    found = record.grounding or NOTHING
    return event(
        "iteration.generated",
        f"Iteration {number}: an answer of {len(outcome.text or '')} characters was written.",
        iteration=number,
        candidate=outcome.slot.candidate,
        model=_model(step),
        answer=outcome.text,
        citations=found["citations"],
        grounding_score=found["grounding_score"],
        seconds=round(outcome.seconds, 3),
    )
