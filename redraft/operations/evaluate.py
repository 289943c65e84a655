"""The step `evaluate`: judge each answer of the iteration, then decide what comes next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection

from redraft.domain.answers import Misfit, read_answer
from redraft.domain.failures import job_error
from redraft.domain.ids import new_id
from redraft.domain.loop import Finish, best_of, next_move, passes, twin_of
from redraft.domain.requests import GenerateAnswer
from redraft.domain.states import Step
from redraft.domain.texts import is_trivial
from redraft.domain.verdicts import Unusable, Verdict, parse_verdict
from redraft.errors import ProviderError
from redraft.operations import steps
from redraft.operations.budgets import BudgetExhausted
from redraft.operations.calling import Ask, Outcome, PlannedCall, Slot, remembered
from redraft.operations.endings import Event, ending, event
from redraft.operations.steps import Move, StepInHand
from redraft.prompts.render import evaluation_prompt
from redraft.storage import history
from redraft.storage.history import EvaluationRecord, IterationRecord

# What says something of this answer only, not of the provider: the evaluation is an error, the loop goes on.
_ABOUT_THIS_REPLY = frozenset({"refused", "content_filtered"})
# What a second asking may run into for being longer than the first, which went through.
_ABOUT_THE_SECOND = frozenset({"provider_bad_request", "context_too_long"})


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one candidate, and the calls it took. `blocked` is a provider failure, not a verdict."""

    record: IterationRecord
    evaluation: EvaluationRecord | None
    outcomes: tuple[Outcome, ...] = ()
    blocked: ProviderError | None = None


def _current(step: StepInHand) -> list[IterationRecord]:
    return [record for record in step.records if record.number == step.job.iteration]


def _slot(step: StepInHand, record: IterationRecord, seq: int = 0) -> Slot:
    return Slot(step.job.id, Step.EVALUATE, record.number, record.candidate, seq)


def plan(step: StepInHand) -> list[PlannedCall]:
    """One call per answer that needs one."""
    return [_plan_call(step, record, 0) for record in _current(step) if _without_model(step, record) is None]


def work(step: StepInHand, planned: Sequence[PlannedCall]) -> Move:
    """Judge the answers of the iteration, and decide."""
    by_slot = {call.slot: call for call in planned}
    settled = {record.candidate: _without_model(step, record) for record in _current(step)}
    open_records = [record for record in _current(step) if settled[record.candidate] is None]
    judged = steps.side_by_side(step, [partial(_judge, step, record, by_slot) for record in open_records])
    return _conclude(step, [found for found in settled.values() if found] + judged)


def _plan_call(step: StepInHand, record: IterationRecord, seq: int, complaint: str | None = None) -> PlannedCall:
    budget = step.services.settings.evaluator_max_output_tokens
    prompt = evaluation_prompt(step.request, record.answer, complaint)
    ask = Ask(prompt, step.job.evaluator_model, max_output_tokens=budget * 2 if seq else budget)
    at_once = 1 if seq else len(_current(step))
    return steps.plan(step, _slot(step, record, seq), "repair" if seq else "evaluate", ask, calls_at_once=at_once)


def _without_model(step: StepInHand, record: IterationRecord) -> Judgement | None:
    """What needs no call: an answer that was judged before, or one that is none."""
    if is_trivial(record.answer):
        return Judgement(
            record, _evaluation(step, score=0.0, passed=False, reasoning=_TRIVIAL, suggestions=[_WRITE_ONE])
        )
    misfit = _misfit(step, record)
    if misfit is not None:
        return Judgement(record, _evaluation(step, score=0.0, passed=False, reasoning=misfit, suggestions=[misfit]))
    twin = twin_of(record.as_attempt(), step.attempts)
    known = next(
        (r for r in step.records if twin and (r.number, r.candidate) == (twin.iteration, twin.candidate)),
        None,
    )
    if known is None or known.evaluation is None or known.evaluation.score is None:
        return None
    passed = passes(known.evaluation.score, step.request.score_threshold)
    copied = replace(known.evaluation, id=new_id("evaluation"), passed=passed, reused_from=known.evaluation.id)
    return Judgement(record, copied)


def _misfit(step: StepInHand, record: IterationRecord) -> str | None:
    """Why the answer is not the JSON that was asked for; decided in code, and told to the next generation."""
    schema = steps.schema_of(step.request)
    read = read_answer(record.answer, schema) if schema is not None else None
    return read.message if isinstance(read, Misfit) else None


_CUT = "The evaluator's reply was cut off at its output limit (REDRAFT_EVALUATOR_MAX_OUTPUT_TOKENS)."
_TRIVIAL = "The answer is empty or trivial; it was not shown to the evaluator."
_WRITE_ONE = "Write an answer to the task: the last one held no content."


def _judge(step: StepInHand, record: IterationRecord, planned: Mapping[Slot, PlannedCall]) -> Judgement:
    made = steps.outcomes_of(step, _slot(step, record), planned)
    verdict = _read(made[-1])
    if isinstance(verdict, Unusable):
        return _judge_again(step, record, _not_to_reuse(made), verdict)
    return _judgement(step, record, made, verdict)


def _judge_again(step: StepInHand, record: IterationRecord, made: tuple[Outcome, ...], unusable: Unusable) -> Judgement:
    """The second asking; without a verdict the judgement says that this step is not ours any more."""
    slot = _slot(step, record, 1)
    row = step.memo.get(slot.key)
    if row is not None:
        return _second_judgement(step, record, (*made, remembered(slot, row)))
    complaint = None if unusable.kind == "truncated" else unusable.message
    try:
        asked = steps.ask_again(step, made[-1], lambda now: _plan_call(now, record, 1, complaint))
    except BudgetExhausted as error:
        return _failed(step, record, "evaluator_invalid", f"{unusable.message} {error}", made)
    if asked is None:
        return Judgement(record, None, made)
    stored, planned = asked
    return _second_judgement(step, record, (*made[:-1], stored, *steps.call(step, planned)))


def _second_judgement(step: StepInHand, record: IterationRecord, made: tuple[Outcome, ...]) -> Judgement:
    verdict = _read(made[-1])
    if isinstance(verdict, Unusable):
        words = f"The evaluator gave no usable verdict, twice. {verdict.message}"
        return _failed(step, record, "evaluator_invalid", words, _not_to_reuse(made))
    if isinstance(verdict, ProviderError) and verdict.code in _ABOUT_THE_SECOND:
        return _failed(step, record, verdict.code, verdict.message, made)
    return _judgement(step, record, made, verdict)


def _not_to_reuse(made: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    return (*made[:-1], steps.not_to_reuse(made[-1]))


def _judgement(
    step: StepInHand, record: IterationRecord, outcomes: tuple[Outcome, ...], verdict: Verdict | ProviderError
) -> Judgement:
    if isinstance(verdict, ProviderError):
        return _blocked_or_failed(step, record, outcomes, verdict)
    return Judgement(record, _from_verdict(step, verdict), outcomes)


def _failed(
    step: StepInHand, record: IterationRecord, code: str, words: str, outcomes: tuple[Outcome, ...]
) -> Judgement:
    return Judgement(record, _evaluation(step, error=_failure(step, code, words)), outcomes)


def _read(outcome: Outcome) -> Verdict | Unusable | ProviderError:
    if outcome.error is None:
        return parse_verdict(outcome.text or "", finish_reason=outcome.finish_reason)
    if outcome.error.code == "output_truncated":
        return Unusable("truncated", _CUT)
    if outcome.error.code == "empty_output":
        return Unusable("no_verdict", outcome.error.message)
    return outcome.error


def _blocked_or_failed(
    step: StepInHand, record: IterationRecord, outcomes: tuple[Outcome, ...], error: ProviderError
) -> Judgement:
    failed = _evaluation(step, error=_failure(step, error.code, error.message))
    blocked = None if error.code in _ABOUT_THIS_REPLY else error
    return Judgement(record, failed, outcomes, blocked)


def _failure(step: StepInHand, code: str, detail: str) -> dict[str, Any]:
    return job_error(
        code, detail, model=step.job.evaluator_model, iteration=step.job.iteration, attempts=step.attempt_no
    )


def _from_verdict(step: StepInHand, verdict: Verdict) -> EvaluationRecord:
    return _evaluation(
        step,
        score=verdict.score,
        passed=passes(verdict.score, step.request.score_threshold),
        meets_criteria=verdict.meets_criteria,
        reasoning=verdict.evaluation_reasoning,
        suggestions=list(verdict.improvement_suggestions),
    )


def _evaluation(
    step: StepInHand,
    *,
    score: float | None = None,
    passed: bool = False,
    meets_criteria: bool | None = None,
    reasoning: str = "",
    suggestions: list[str] | None = None,
    error: dict[str, Any] | None = None,
) -> EvaluationRecord:
    return EvaluationRecord(
        id=new_id("evaluation"),
        status="error" if error else "ok",
        score=score,
        passed=passed,
        meets_criteria=meets_criteria,
        reasoning=reasoning,
        suggestions=suggestions or [],
        evaluator_model=step.job.evaluator_model,
        profile=step.request.profile,
        reused_from=None,
        error=error,
    )


def _conclude(step: StepInHand, judged: Sequence[Judgement]) -> Move:
    outcomes = [outcome for judgement in judged for outcome in judgement.outcomes]
    blocked = [judgement.blocked for judgement in judged if judgement.blocked]
    passing = next((error for error in blocked if error.retryable), None)
    later = steps.try_later(step, outcomes, passing) if passing else None
    if later:
        return later
    if any(judgement.evaluation is None for judgement in judged):
        return Move(outcomes, values=None)
    step = replace(step, records=_with_verdicts(step, judged))
    if blocked:
        write = partial(_write, step, judged)
        return steps.give_up(step, outcomes, blocked[0], step.job.evaluator_model, write=write)
    return _decide(step, judged, outcomes)


def _with_verdicts(step: StepInHand, judged: Sequence[Judgement]) -> tuple[IterationRecord, ...]:
    verdicts = {judgement.record.id: judgement.evaluation for judgement in judged}
    return tuple(replace(r, evaluation=verdicts[r.id]) if r.id in verdicts else r for r in step.records)


def _decide(step: StepInHand, judged: Sequence[Judgement], outcomes: Sequence[Outcome]) -> Move:
    """The loop's decision, stored together with the verdicts it rests on."""
    move = next_move(steps.rules_of(step.job, step.request), step.attempts)
    best = best_of(step.attempts)
    marks = {"best_score": best.score, "best_iteration": best.iteration} if best and best.score is not None else {}
    told = [_told(judgement) for judgement in judged]
    write = partial(_write, step, judged)
    if isinstance(move, Finish):
        end = ending(
            move.reason,
            step.records,
            created_at=step.job.created_at,
            error=_last_error(move, judged),
            schema=steps.schema_of(step.request),
        )
        return Move(outcomes, {**end.values, **marks}, [*told, end.event], write)
    told.append(_thinking(step))
    return steps.go_on(step, outcomes, Step.GENERATE, records=step.records, events=told, write=write, **marks)


def _last_error(move: Finish, judged: Sequence[Judgement]) -> dict[str, Any] | None:
    if move.reason != "evaluator_error":
        return None
    return next((j.evaluation.error for j in judged if j.evaluation and j.evaluation.error), None)


def _write(step: StepInHand, judged: Sequence[Judgement], connection: Connection) -> None:
    rows = [
        {
            **{name: getattr(judgement.evaluation, name) for name in EvaluationRecord.__slots__},
            "job_id": step.job.id,
            "iteration_id": judgement.record.id,
        }
        for judgement in judged
        if judgement.evaluation
    ]
    history.add_evaluations(connection, rows)


def _told(judgement: Judgement) -> Event:
    verdict = judgement.evaluation
    number = judgement.record.number
    score = verdict.score if verdict else None
    words = f"scored {score:.2f}" if score is not None else "could not be evaluated"
    return event(
        "iteration.evaluated",
        f"Iteration {number} {words}.",
        iteration=number,
        candidate=judgement.record.candidate,
        score=score,
        passed=bool(verdict and verdict.passed),
        evaluation_reasoning=verdict.reasoning if verdict else "",
        improvement_suggestions=verdict.suggestions if verdict else [],
        reused=bool(verdict and verdict.reused_from),
        error=verdict.error if verdict else None,
        seconds=round(sum(outcome.seconds for outcome in judgement.outcomes), 3),
    )


def _thinking(step: StepInHand) -> Event:
    strategy = step.request.revision.strategy if isinstance(step.request, GenerateAnswer) else "revise"
    is_scored = any(record.evaluation and record.evaluation.score is not None for record in _current(step))
    why = f"The score is below {step.request.score_threshold:g}" if is_scored else "There is no score"
    what = "the" if is_scored else "the last good"
    kind, data = event(
        "thinking",
        f"{why}; {what} feedback goes into iteration {step.job.iteration + 1}.",
        strategy=strategy,
        retry_count=step.job.iteration,
    )
    return kind, {**data, "ts": data["at"]}
