"""The step `generate`: write one answer per candidate; the next step evaluates them."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from redraft.domain.calls.conversation import LimitOrigin, Prompt, keep_stable_parts
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.jobs.states import Step, StopReason
from redraft.domain.loop.feedback import Feedback, feedback_for
from redraft.domain.structured.answers import Mismatch, read_answer
from redraft.errors import ProviderError
from redraft.operations.calls.budgets import BudgetExhausted
from redraft.operations.calls.deltas import DeltaPublisher
from redraft.operations.calls.model_calls import Ask, Outcome, PlannedCall, Slot, recorded_outcome
from redraft.operations.calls.step_work import Work, together
from redraft.operations.request_views import models_of, schema_of
from redraft.operations.results.grounding import NOTHING, grounding_reader
from redraft.operations.results.job_results import Event, ending, event
from redraft.operations.results.truncated_answers import evaluation_of, larger_limit
from redraft.operations.steps import context
from redraft.operations.steps.context import StepContext, StepResult
from redraft.operations.steps.evaluate import best_columns, decide
from redraft.operations.steps.step_events import evaluated, started, thinking, vetoes_of
from redraft.operations.steps.unexpected_errors import recorded_when_busy
from redraft.operations.template_lookup import template_of
from redraft.prompts.render import feedback_text, generation_prompt, repair_prompt
from redraft.storage.engine.columns import DbNow
from redraft.storage.jobs import history
from redraft.storage.jobs.history import IterationRecord

CandidateOutcomes = tuple[Outcome, ...]
"""The outcomes of the calls for one candidate."""


def _request(step: StepContext) -> GenerateAnswer:
    if not isinstance(step.request, GenerateAnswer):
        raise TypeError(f"Job {step.job.id} of kind {step.job.kind} has no generate step.")
    return step.request


def _model(step: StepContext) -> str:
    return models_of(step.job, step.request)[0]


def slots_of(step: StepContext, seq: int = 0) -> list[Slot]:
    """Return one slot per candidate."""
    number = step.job.iteration + 1
    count = _request(step).candidates
    return [Slot(step.job.id, Step.GENERATE, number, candidate, seq) for candidate in range(1, count + 1)]


def plan(step: StepContext, seq: int = 0) -> list[PlannedCall]:
    """Plan one call per candidate, all with the same prompt."""
    prompt = _prompt(step)
    # A continuation may have another prompt for the same slot
    is_first = step.job.continuations == 0
    unrecorded = [slot for slot in slots_of(step, seq) if not (is_first and slot.key in step.recorded)]
    kind = "comprehensive_retry" if _regenerates(step) else "generate"
    return [_plan_call(step, slot, kind, prompt, calls_at_once=len(unrecorded)) for slot in unrecorded]


def _regenerates(step: StepContext) -> bool:
    """Whether this is a later iteration with the profile `comprehensive`. The ledger has another type for its calls."""
    return step.request.profile == "comprehensive" and step.job.iteration > 0


def prepare(step: StepContext) -> None:
    """Compute the prompt for planning, outside of a unit of work. The step keeps it."""
    _prompt(step)


def _prompt(step: StepContext) -> Prompt:
    if "prompt" not in step.found:
        request = _request(step)
        template = template_of(step.services, request)
        prompt = generation_prompt(request, _feedback(step), schema_of(request), template)
        if request.iter_max == 1:  # No later call repeats the task
            prompt = replace(prompt, messages=keep_stable_parts(prompt.messages, 0))
        step.found["prompt"] = prompt
    return step.found["prompt"]


def _plan_call(step: StepContext, slot: Slot, kind: str, prompt: Prompt, *, calls_at_once: int = 1) -> PlannedCall:
    request = _request(step)
    sampling, model = request.sampling, _model(step)
    limit = sampling.max_output_tokens or larger_limit(step.records, model)
    origin = LimitOrigin(is_fixed=True) if sampling.max_output_tokens else None
    parameters = sampling.parameters
    # With the same seed, the same prompt would lead to the same answer again
    if slot.is_speculative and sampling.seed is not None:
        parameters["seed"] = sampling.seed ^ (slot.iteration - 1)
    ask = Ask(prompt, model, parameters, limit, request.stream, origin)
    return context.plan(step, slot, kind, ask, calls_at_once=calls_at_once)


def work(step: StepContext, planned: Sequence[PlannedCall]) -> Work[StepResult]:
    """Make the reserved calls, and store the answers."""
    written = yield from write_all(step, slots_of(step), planned)
    outcomes = [outcome for candidate in written for outcome in candidate]
    last = _last_of(written)
    errors = [outcome.error for outcome in last if outcome.error]
    transient = next((error for error in errors if error.retryable), None)
    rescheduled = context.reschedule(step, outcomes, transient) if transient else None
    if rescheduled:
        return rescheduled
    answered = answered_in(written)
    if not answered:
        return context.give_up(step, outcomes, errors[0], _model(step))
    return record(step, outcomes, answered)


def write_all(
    step: StepContext, slots: Sequence[Slot], planned: Sequence[PlannedCall]
) -> Work[list[CandidateOutcomes]]:
    """Write the candidates at the same time."""
    by_slot = {call.slot: call for call in planned}
    return (yield from together([_write(step, slot, by_slot) for slot in slots], step.width))


def answered_in(written: Sequence[CandidateOutcomes]) -> list[Outcome]:
    """Return the outcomes that have an answer. The answer may be cut off."""
    return [outcome for outcome in _last_of(written) if outcome.text is not None or outcome.cut is not None]


def _last_of(written: Sequence[CandidateOutcomes]) -> list[Outcome]:
    # If a retry failed, the text of the first call is used
    return [next((o for o in reversed(candidate) if o.text is not None), candidate[-1]) for candidate in written]


def _write(step: StepContext, slot: Slot, planned: Mapping[Slot, PlannedCall]) -> Work[CandidateOutcomes]:
    """Write one candidate, with a retry if the answer does not fit its schema. The last text is used."""
    with _publishing(step, slot) as on_delta:
        made = yield from context.outcomes_of(step, slot, planned, on_delta)
    schema = schema_of(step.request)
    if schema is not None and made[-1].text is not None:
        with recorded_when_busy(step, made[-1:]):
            read = read_answer(made[-1].text, schema)
        if isinstance(read, Mismatch):
            made = yield from _repair(step, slot, (*made[:-1], context.not_to_reuse(made[-1])), read)
    return context.record_one_of(step, planned, made)


def _repair(step: StepContext, slot: Slot, made: tuple[Outcome, ...], mismatch: Mismatch) -> Work[CandidateOutcomes]:
    *before, first = made
    slot = replace(slot, seq=slot.seq + 1)
    row = step.recorded.get(slot.key)
    if row is not None:
        return (*made, recorded_outcome(slot, row))
    prompt = repair_prompt(_prompt(step), first.text or "", mismatch.message)
    try:
        asked = context.retry(step, first, lambda now: _plan_call(now, slot, "repair", prompt))
    # The evaluation refuses the unrepaired answer, and its feedback names the mismatch
    except (BudgetExhausted, ProviderError):
        return made
    if asked is None:
        return made
    stored, planned = asked
    with _publishing(step, slot) as on_delta:
        again = yield from context.call(step, planned, on_delta)
    text, schema = again[-1].text, schema_of(step.request)
    with recorded_when_busy(step, again[-1:]):
        if text is not None and schema is not None and isinstance(read_answer(text, schema), Mismatch):
            again = (*again[:-1], context.not_to_reuse(again[-1]))
    return (*before, stored, *again)


@contextmanager
def _publishing(step: StepContext, slot: Slot) -> Generator[Callable[[str], None] | None]:
    """Publish the text of a streamed call; a retry counts as a further attempt.

    Speculative text is not published, because it may be discarded.
    """
    if not _request(step).stream or slot.is_speculative:
        yield None
        return
    is_ours = partial(step.holder.may_call, step.job.id, step.job.lease_token)
    publisher = DeltaPublisher(step.services.queue, slot, step.attempt_no + slot.seq, is_ours)
    yield publisher
    publisher.flush()


def _feedback(step: StepContext) -> Feedback | None:
    feedback = feedback_for(step.rules, step.attempts, step.job.guidance)
    if feedback is None or feedback.base is None:
        return feedback
    place = (feedback.base.iteration, feedback.base.candidate)
    base = next(record for record in step.records if (record.number, record.candidate) == place)
    return replace(feedback, vetoes=vetoes_of(step.request, base))


def record(
    step: StepContext, outcomes: Sequence[Outcome], answered: Sequence[Outcome], before: StepResult | None = None
) -> StepResult:
    """Store the answers of the next iteration, and with `before` also the evaluation of the current iteration."""
    number = step.job.iteration + 1
    feedback = _feedback(step)
    said = feedback_text(feedback) if feedback else None
    grounding_of = grounding_reader(step.request)
    written = tuple(_written(step, outcome, said, grounding_of) for outcome in answered)
    new_events = [event for each in zip(answered, written, strict=True) for event in _events_of(step, *each)]
    write = partial(_store, step, written)
    best: dict[str, Any] = {}
    if before is not None:
        step = replace(step, records=before.records)
        new_events = [*_events_between(step, before), *new_events]
        write, best = partial(_store_both, before.write, write), best_columns(step)
    step = replace(step, job=replace(step.job, iteration=number), records=step.records + written)
    if any(record.evaluation is None for record in written):
        values: dict[str, Any] = {"iteration": number, **best}
        if _ends_with_its_answer(step):
            end = ending(step.services.profiles, step.job, step.request, step.records, StopReason.ANSWERED)
            new_events.append(end.event)
            values |= {**end.values, "rung_at": DbNow()}
        return context.go_on(
            step, outcomes, Step.EVALUATE, records=step.records, events=new_events, write=write, **values
        )
    result = decide(step, outcomes, new_events, write)
    return replace(result, values={**(result.values or {}), "iteration": number})


def _ends_with_its_answer(step: StepContext) -> bool:
    """Whether the job ends with this answer, before its evaluation."""
    return _request(step).evaluation.when == "after_answer"


def _written(
    step: StepContext, outcome: Outcome, said: str | None, grounding_of: Callable[[str], dict[str, Any] | None]
) -> IterationRecord:
    number, cut, error = step.job.iteration + 1, outcome.cut, outcome.error
    verdict = None
    if cut and error:
        model, attempts = _model(step), step.attempt_no
        verdict = evaluation_of(step.request, error, cut, model=model, number=number, attempts=attempts)
    return IterationRecord(
        id=new_id("iteration"),
        number=number,
        candidate=outcome.slot.candidate,
        generator_model=_model(step),
        answer=cut.text if cut else outcome.text or "",
        feedback_given=said,
        generator_template=_request(step).generator_template,
        created_at=datetime.now(UTC),
        evaluation=verdict,
        grounding=None if cut else grounding_of(outcome.text or ""),
    )


def _store(step: StepContext, written: Sequence[IterationRecord], connection: Connection) -> None:
    history.add_iterations(connection, step.job.id, written)
    cut = [(record, record.evaluation) for record in written if record.evaluation is not None]
    history.add_evaluations(connection, [history.evaluation_row(step.job.id, *each) for each in cut])


def _store_both(
    first: Callable[[Connection], None], then: Callable[[Connection], None], connection: Connection
) -> None:
    first(connection)
    then(connection)


def _events_between(step: StepContext, before: StepResult) -> list[Event]:
    """Return the events of an evaluation that ended after the next answer was written, and of the next iteration."""
    current = [record for record in step.records if record.number == step.job.iteration]
    last = thinking(step, current, is_written=True)
    return [*before.events[:-1], last, *started(step.job, starts_job=False, starts_iteration=True)]


def _events_of(step: StepContext, outcome: Outcome, record: IterationRecord) -> list[Event]:
    number, verdict = step.job.iteration + 1, record.evaluation
    found = record.grounding or NOTHING
    size = f"{len(record.answer)} characters"
    message = f"an answer of {size} was {'cut off before its end' if verdict else 'written'}."
    generated = event(
        "iteration.generated",
        f"Iteration {number}: {message}",
        iteration=number,
        candidate=outcome.slot.candidate,
        model=_model(step),
        answer=record.answer,
        citations=found["citations"],
        grounding_score=found["grounding_score"],
        seconds=round(outcome.seconds, 3),
    )
    return [generated, evaluated(record, verdict, 0.0)] if verdict else [generated]
