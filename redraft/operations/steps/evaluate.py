"""The step `evaluate`: evaluate each answer of the iteration, then decide how the loop continues."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection

from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.requests import RescoreAnswers
from redraft.domain.jobs.states import Step, StopReason
from redraft.domain.loop.attempts import best_of
from redraft.domain.loop.stopping import Evaluate, Finish, LoopAction, next_action, next_rescored
from redraft.operations.calls.model_calls import Outcome, PlannedCall
from redraft.operations.calls.step_work import Work, together
from redraft.operations.request_views import evaluators_of, needs_evaluator, schema_of
from redraft.operations.results.job_results import Event, ending
from redraft.operations.results.truncated_answers import without_whole_answer
from redraft.operations.steps import context, evaluator_calls
from redraft.operations.steps.answer_evaluations import AnswerEvaluation, CodeVerdicts, evaluate_all, evaluate_by_code
from redraft.operations.steps.context import StepContext, StepResult
from redraft.operations.steps.evaluator_calls import (
    EvaluatorQuestion,
    EvaluatorReply,
    collect,
    keep_version,
    prompt_of,
    questions_about,
)
from redraft.operations.steps.step_events import evaluated, thinking
from redraft.operations.steps.unexpected_errors import recorded_when_busy
from redraft.storage.jobs import history
from redraft.storage.jobs.history import IterationRecord

# With longer sources, building the prompts would keep a unit of work open for too long
_SOURCES_CHARS = 200_000


def _current(step: StepContext) -> list[IterationRecord]:
    """The answers of the iteration that have no evaluation yet."""
    return [record for record in step.records if record.number == step.job.iteration and record.evaluation is None]


def prepare(step: StepContext) -> None:
    """Compute verdicts and prompts for planning, outside of a unit of work. The step keeps them."""
    for question in _questions(step, evaluate_by_code(step, _current(step))):
        prompt_of(step, question)


def takes_long(step: StepContext) -> bool:
    """Whether planning is too slow for a unit of work."""
    return _has_long_sources(step) or (step.job.step != Step.GENERATE and _uses_child_processes(step))


def may_wait(step: StepContext) -> bool:
    """Whether the steps of this job may need a thread for long, because of long texts or child processes."""
    return _has_long_sources(step) or _uses_child_processes(step)


def _has_long_sources(step: StepContext) -> bool:
    return sum(len(source.content) for source in step.request.sources) > _SOURCES_CHARS


def _uses_child_processes(step: StepContext) -> bool:
    has_checks = any(criterion.check for criterion in step.request.rubric or ())
    return has_checks or schema_of(step.request) is not None


def open_questions(
    step: StepContext,
    records: Sequence[IterationRecord],
    code_verdicts: CodeVerdicts,
    evaluators: Sequence[str],
    samples: int,
) -> list[EvaluatorQuestion]:
    """Return the questions about the answers that need an evaluator."""
    return [
        question
        for record in records
        if code_verdicts[record.id] is None
        for question in questions_about(step, record, evaluators, samples)
    ]


def plan(step: StepContext) -> list[PlannedCall]:
    """Plan one call per question about an answer that needs an evaluator."""
    return evaluator_calls.plan(step, _questions(step, evaluate_by_code(step, _current(step))))


def _questions(step: StepContext, code_verdicts: CodeVerdicts) -> list[EvaluatorQuestion]:
    return open_questions(
        step, _current(step), code_verdicts, evaluators_of(step.request), step.request.evaluation.samples
    )


def work(step: StepContext, planned: Sequence[PlannedCall]) -> Work[StepResult]:
    """Evaluate the answers of the iteration, and decide how the loop continues."""
    code_verdicts = evaluate_by_code(step, _current(step))
    replies = yield from collect_all(step, _questions(step, code_verdicts), planned)
    outcomes = [outcome for each in replies for outcome in each.outcomes]
    rescheduled = retry_if_transient(step, replies, outcomes)
    if rescheduled:
        return rescheduled
    if not all(each.is_ours for each in replies):
        return StepResult(outcomes, values=None)
    with recorded_when_busy(step, outcomes):
        return _conclude(step, evaluate_all(step, _current(step), code_verdicts, replies, evaluators_of(step.request)))


def collect_all(
    step: StepContext, asked: Sequence[EvaluatorQuestion], planned: Sequence[PlannedCall]
) -> Work[list[EvaluatorReply]]:
    """Ask all questions in parallel."""
    by_slot = {call.slot: call for call in planned}
    return (yield from together([collect(step, question, by_slot) for question in asked], step.width))


def retry_if_transient(
    step: StepContext, replies: Sequence[EvaluatorReply], outcomes: Sequence[Outcome]
) -> StepResult | None:
    """Reschedule the step after a transient failure. Calls with recorded replies are not made again."""
    transient = next((each.blocked for each in replies if each.blocked and each.blocked.retryable), None)
    return context.reschedule(step, outcomes, transient) if transient else None


def _conclude(step: StepContext, evaluations: Sequence[AnswerEvaluation]) -> StepResult:
    outcomes = [outcome for each in evaluations for outcome in each.outcomes]
    blocked = next((each.blocked for each in evaluations if each.blocked), None)
    step = replace(step, records=_with_verdicts(step, evaluations))
    new_events = [
        evaluated(each.record, each.evaluation, sum(o.seconds for o in each.outcomes)) for each in evaluations
    ]
    write = partial(write_evaluations, step, evaluations, _role(step))
    if blocked:
        model = evaluators_of(step.request)[0]
        return context.give_up(step, outcomes, blocked, model, new_events=new_events, write=write, **best_columns(step))
    return decide(step, outcomes, new_events, write)


def best_columns(step: StepContext) -> dict[str, Any]:
    """The columns of the job's best answer so far."""
    best = best_of(step.attempts, prefers_latest=step.rules.prefers_latest)
    return {"best_score": best.score, "best_iteration": best.iteration} if best and best.score is not None else {}


def _with_verdicts(step: StepContext, evaluations: Sequence[AnswerEvaluation]) -> tuple[IterationRecord, ...]:
    verdicts = {each.record.id: each.evaluation for each in evaluations}
    return tuple(replace(r, evaluation=verdicts[r.id]) if r.id in verdicts else r for r in step.records)


def _role(step: StepContext) -> str:
    return "rescore" if isinstance(step.request, RescoreAnswers) else "loop"


def _next(step: StepContext) -> LoopAction:
    if isinstance(step.request, RescoreAnswers):
        return next_rescored(step.attempts)
    return next_action(step.rules, step.attempts)


def decide(
    step: StepContext, outcomes: Sequence[Outcome], new_events: list[Event], write: Callable[[Connection], None]
) -> StepResult:
    """Decide how the loop continues. The decision is stored together with the verdicts.

    Args:
        step: the context, with all answers of the iteration evaluated or cut off.
        outcomes: the calls of the step.
        new_events: the events of the step; an event is added if another iteration follows.
        write: stores the iteration's evaluations.
    """
    action = _next(step)
    best = best_columns(step)
    if isinstance(action, Evaluate):
        return context.go_on(
            step,
            outcomes,
            Step.EVALUATE,
            iteration=action.iteration,
            records=step.records,
            events=new_events,
            write=write,
            **best,
        )
    if isinstance(action, Finish) and _is_audited(step):
        return context.go_on(step, outcomes, Step.AUDIT, records=step.records, events=new_events, write=write, **best)
    if isinstance(action, Finish):
        error = _last_error(step, action)
        end = ending(step.services.profiles, step.job, step.request, step.records, action.reason, error)
        return StepResult(outcomes, {**end.values, **best}, [*new_events, end.event], write)
    new_events.append(thinking(step, [record for record in step.records if record.number == step.job.iteration]))
    return context.go_on(step, outcomes, Step.GENERATE, records=step.records, events=new_events, write=write, **best)


def _is_audited(step: StepContext) -> bool:
    has_score = any(attempt.score is not None for attempt in step.attempts)
    is_wanted = step.request.evaluation.audit is not None and needs_evaluator(step.request)
    return is_wanted and has_score and _role(step) == "loop"


def _last_error(step: StepContext, action: Finish) -> dict[str, Any] | None:
    if action.reason is not StopReason.EVALUATOR_ERROR:
        return without_whole_answer(step.records, action)
    if not step.records:
        return job_error("evaluator_invalid", "The answers to evaluate do not exist any more: their job was deleted.")
    whole = [record.evaluation for record in step.records if not record.as_attempt().is_truncated]
    errors = [evaluation.error for evaluation in whole if evaluation is not None and evaluation.error]
    return errors[-1] if errors else None


def write_evaluations(
    step: StepContext, evaluations: Sequence[AnswerEvaluation], role: str, connection: Connection
) -> None:
    rows = [history.evaluation_row(step.job.id, each.record, each.evaluation, role) for each in evaluations]
    if role == "rescore":
        # The rescored job may have been deleted meanwhile
        there = history.lock_existing(connection, [row["iteration_id"] for row in rows])
        rows = [row for row in rows if row["iteration_id"] in there]
    history.add_evaluations(connection, rows)
    keep_version(step, connection)
