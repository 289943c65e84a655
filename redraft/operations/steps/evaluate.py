"""The step `evaluate`: judge each answer of the iteration, then decide what comes next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection

from redraft.domain.evaluation.aggregation import Judged, by_checks, by_threshold
from redraft.domain.evaluation.rubrics import Criterion, CriterionResult, evaluated_by_model, run_checks
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.loop import Evaluate, Finish, LoopAction, best_of, next_action, next_rescored, passes, twin_of
from redraft.domain.jobs.requests import RescoreAnswers
from redraft.domain.jobs.skipping import why_skip
from redraft.domain.jobs.states import Step, StopReason
from redraft.domain.structured.answers import Misfit, read_answer
from redraft.domain.text.cleaning import is_trivial, preview
from redraft.errors import ProviderError
from redraft.operations.calls.model_calls import Outcome, PlannedCall
from redraft.operations.request_views import evaluators_of, needs_evaluator, schema_of
from redraft.operations.results.grounding import checked_claims, meets_rule, problems_of
from redraft.operations.results.job_results import Event, ending
from redraft.operations.steps import context, evaluator_calls
from redraft.operations.steps.context import StepContext, StepResult
from redraft.operations.steps.crashes import kept_when_busy
from redraft.operations.steps.evaluator_calls import (
    EvaluatorQuestion,
    EvaluatorReply,
    collect,
    keep_version,
    profile_of,
    prompt_of,
    questions_about,
    verdict_on,
)
from redraft.operations.steps.step_events import evaluated, thinking
from redraft.operations.steps.truncated_answers import without_whole_answer
from redraft.storage.jobs import history
from redraft.storage.jobs.history import EvaluationRecord, IterationRecord

_TRIVIAL = "The answer is empty or trivial; it was not shown to the evaluator."
_WRITE_ONE = "Write an answer to the task: the last one held no content."
_MODEL_CHARS = 220
_SOURCES_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class AnswerEvaluation:
    """The evaluation of one answer, and what was heard for it."""

    record: IterationRecord
    evaluation: EvaluationRecord
    replies: tuple[EvaluatorReply, ...] = ()

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for reply in self.replies for outcome in reply.outcomes]

    @property
    def blocked(self) -> ProviderError | None:
        """The provider's failure, if it is why there is no verdict."""
        if self.evaluation.status != "error":
            return None
        return next((reply.blocked for reply in self.replies if reply.blocked), None)


def _current(step: StepContext) -> list[IterationRecord]:
    """The answers of the iteration that wait for a verdict."""
    return [record for record in step.records if record.number == step.job.iteration and record.evaluation is None]


CodeVerdicts = Mapping[str, EvaluationRecord | None]
"""By iteration id: the evaluation that needed no model, None where one is needed."""


def evaluate_by_code(step: StepContext, records: Sequence[IterationRecord]) -> CodeVerdicts:
    """Judge what code alone can judge, once a step."""
    for record in records:
        if f"settled {record.id}" not in step.found:
            step.found[f"settled {record.id}"] = _without_model(step, record)
    return {record.id: step.found[f"settled {record.id}"] for record in records}


def prepare(step: StepContext) -> None:
    """Do now what of the planning takes long: later it is known."""
    for question in _questions(step, evaluate_by_code(step, _current(step))):
        prompt_of(step, question)


def takes_long(step: StepContext) -> bool:
    """Whether code has more to look for in an answer, or to put into a prompt, than a unit of work may wait for."""
    if sum(len(source.content) for source in step.request.sources) > _SOURCES_CHARS:
        return True
    has_checks = any(criterion.check for criterion in step.request.rubric or ())
    return step.job.step != Step.GENERATE and (has_checks or schema_of(step.request) is not None)


def open_questions(
    step: StepContext,
    records: Sequence[IterationRecord],
    code_verdicts: CodeVerdicts,
    evaluators: Sequence[str],
    samples: int,
) -> list[EvaluatorQuestion]:
    """What has to be asked about the others."""
    return [
        question
        for record in records
        if code_verdicts[record.id] is None
        for question in questions_about(step, record, evaluators, samples)
    ]


def plan(step: StepContext) -> list[PlannedCall]:
    """One call per question about an answer that needs one."""
    return evaluator_calls.plan(step, _questions(step, evaluate_by_code(step, _current(step))))


def _questions(step: StepContext, code_verdicts: CodeVerdicts) -> list[EvaluatorQuestion]:
    return open_questions(
        step, _current(step), code_verdicts, evaluators_of(step.request), step.request.evaluation.samples
    )


def work(step: StepContext, planned: Sequence[PlannedCall]) -> StepResult:
    """Judge the answers of the iteration, and decide."""
    code_verdicts = evaluate_by_code(step, _current(step))
    replies = collect_all(step, _questions(step, code_verdicts), planned)
    outcomes = [outcome for each in replies for outcome in each.outcomes]
    rescheduled = retry_if_transient(step, replies, outcomes)
    if rescheduled:
        return rescheduled
    if not all(each.is_ours for each in replies):
        return StepResult(outcomes, values=None)
    with kept_when_busy(step, outcomes):
        return _conclude(step, evaluate_all(step, _current(step), code_verdicts, replies, evaluators_of(step.request)))


def collect_all(
    step: StepContext, asked: Sequence[EvaluatorQuestion], planned: Sequence[PlannedCall]
) -> list[EvaluatorReply]:
    """Ask all side by side."""
    by_slot = {call.slot: call for call in planned}
    return context.side_by_side(step, [partial(collect, step, question, by_slot) for question in asked])


def retry_if_transient(
    step: StepContext, replies: Sequence[EvaluatorReply], outcomes: Sequence[Outcome]
) -> StepResult | None:
    """A failure that may pass is waited for while there are attempts left; who has answered is not asked again."""
    transient = next((each.blocked for each in replies if each.blocked and each.blocked.retryable), None)
    return context.reschedule(step, outcomes, transient) if transient else None


def evaluate_all(
    step: StepContext,
    records: Sequence[IterationRecord],
    code_verdicts: CodeVerdicts,
    replies: Sequence[EvaluatorReply],
    evaluators: Sequence[str],
) -> list[AnswerEvaluation]:
    """The evaluation of each answer, by code alone or by what its judges said."""
    known = [(record, code_verdicts[record.id]) for record in records]
    return [
        AnswerEvaluation(r, found) if found else _evaluate_answer(step, r, replies, evaluators) for r, found in known
    ]


def _evaluate_answer(
    step: StepContext, record: IterationRecord, replies: Sequence[EvaluatorReply], evaluators: Sequence[str]
) -> AnswerEvaluation:
    its_own = tuple(each for each in replies if each.question.record.id == record.id)
    rubric, checked = step.request.rubric or (), _checked(step, record)
    judged = verdict_on(its_own, rubric, checked)
    if judged is not None:
        return AnswerEvaluation(record, _from_verdict(step, record, judged, evaluators), its_own)
    error = next((each.error for each in its_own if each.error), None)
    return AnswerEvaluation(
        record, _evaluation(step, status="error", error=error, evaluator_model=_names(evaluators)), its_own
    )


def _without_model(step: StepContext, record: IterationRecord) -> EvaluationRecord | None:
    """What needs no call: an answer that is none, that was judged before, or that code can judge by itself."""
    # An empty list may be the right answer to a schema
    if is_trivial(record.answer) and schema_of(step.request) is None:
        return _refused(step, _TRIVIAL, _WRITE_ONE)
    misfit = _misfit(step, record)
    if misfit is not None:
        return _refused(step, misfit, misfit)
    known = _known(step, record)
    if known is not None:
        return known
    reason = why_skip(step.request)
    if reason is not None:
        return _evaluation(step, status="skipped", reasoning=reason)
    return _by_checks(step, record)


def _refused(step: StepContext, reasoning: str, suggestion: str) -> EvaluationRecord:
    return _evaluation(step, score=0.0, requirements_met=False, reasoning=reasoning, suggestions=[suggestion])


def _misfit(step: StepContext, record: IterationRecord) -> str | None:
    """Why the answer is not the JSON that was asked for; decided in code, and told to the next generation."""
    schema = schema_of(step.request)
    read = read_answer(record.answer, schema) if schema is not None else None
    return read.message if isinstance(read, Misfit) else None


def _known(step: StepContext, record: IterationRecord) -> EvaluationRecord | None:
    """The evaluation of an earlier answer that says the same."""
    twin = twin_of(record.as_attempt(), step.attempts)
    known = next(
        (r for r in step.records if twin and (r.number, r.candidate) == (twin.iteration, twin.candidate)),
        None,
    )
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
    """Whether an earlier verdict may be about other sources: a structured answer does not tell."""
    is_earlier = known.number < step.job.first_iteration and bool(step.request.sources)
    return known.is_outdated or (is_earlier and known.grounding is None)


def _by_checks(step: StepContext, record: IterationRecord) -> EvaluationRecord | None:
    """The verdict of code alone: the rubric holds only checks, or a required one fails and that is enough."""
    rubric = step.request.rubric
    if rubric is None:
        return None
    checked = _checked(step, record)
    fails = any(result.required and not result.passed for result in checked)
    if evaluated_by_model(rubric) and not (fails and step.request.evaluation.skip == "when_checks_fail"):
        return None
    return _from_verdict(step, record, by_checks(rubric, checked), ())


def _checked(step: StepContext, record: IterationRecord) -> list[CriterionResult]:
    key = f"checked {record.id}"
    if key not in step.found:
        step.found[key] = run_checks(step.request.rubric or (), record.answer, sources=len(step.request.sources))
    return step.found[key]


def _passes(step: StepContext, score: float, *, is_qualified: bool) -> bool:
    return is_qualified and passes(score, step.request.score_threshold)


def _from_verdict(
    step: StepContext, record: IterationRecord, judged: Judged, evaluators: Sequence[str]
) -> EvaluationRecord:
    if judged.criteria and not step.request.rubric:
        judged = by_threshold(judged, step.request.score_threshold)
    is_grounded = meets_rule(step.request, record.grounding, judged.check)
    return _evaluation(
        step,
        score=judged.score,
        requirements_met=judged.is_qualified and is_grounded,
        meets_criteria=judged.meets_criteria,
        reasoning=judged.reasoning,
        suggestions=[*judged.suggestions, *problems_of(step.request, record.grounding, judged.check)],
        confidence=judged.confidence,
        issues=list(judged.issues),
        improvement_hint=judged.improvement_hint or None,
        criteria=[asdict(result) for result in judged.criteria] or None,
        checks=_check_results(step.request.rubric or (), judged.criteria),
        grounding=checked_claims(judged.check),
        judges=list(judged.judges) or None,
        disagreement=judged.disagreement,
        evaluator_model=_names(evaluators),
    )


def _check_results(rubric: Sequence[Criterion], results: Sequence[CriterionResult]) -> list[dict[str, Any]] | None:
    kinds = {criterion.id: criterion.check.kind for criterion in rubric if criterion.check}
    return [
        {"id": result.id, "kind": kinds[result.id], "passed": result.passed, "message": result.gap or result.evidence}
        for result in results
        if result.id in kinds
    ] or None


def _names(evaluators: Sequence[str]) -> str | None:
    """The evaluator, or the panel as one name; None when no model judged."""
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
    defaults: dict[str, Any] = {"meets_criteria": None, "reasoning": "", "evaluator_model": None, "error": None}
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
        reused_from=None,
    )


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
        return context.give_up(
            step, outcomes, blocked, model, new_events=new_events, write=write, **_best_columns(step)
        )
    return decide(step, outcomes, new_events, write)


def _best_columns(step: StepContext) -> dict[str, Any]:
    """The columns that show a job's best so far."""
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
    """The loop's decision, stored together with the verdicts it rests on.

    Args:
        step: at the iteration, with all records of it evaluated or cut off.
        outcomes: the calls of the step.
        new_events: its events so far; one is added where another iteration follows.
        write: stores the iteration's evaluations.
    """
    action = _next(step)
    best_columns = _best_columns(step)
    if isinstance(action, Evaluate):
        return context.go_on(
            step,
            outcomes,
            Step.EVALUATE,
            iteration=action.iteration,
            records=step.records,
            events=new_events,
            write=write,
            **best_columns,
        )
    if isinstance(action, Finish) and _is_audited(step):
        return context.go_on(
            step, outcomes, Step.AUDIT, records=step.records, events=new_events, write=write, **best_columns
        )
    if isinstance(action, Finish):
        error = _last_error(step, action)
        end = ending(step.services.profiles, step.job, step.request, step.records, action.reason, error)
        return StepResult(outcomes, {**end.values, **best_columns}, [*new_events, end.event], write)
    new_events.append(thinking(step, [record for record in step.records if record.number == step.job.iteration]))
    return context.go_on(
        step, outcomes, Step.GENERATE, records=step.records, events=new_events, write=write, **best_columns
    )


def _is_audited(step: StepContext) -> bool:
    has_score = any(attempt.score is not None for attempt in step.attempts)
    is_wanted = step.request.evaluation.audit is not None and needs_evaluator(step.request)
    return is_wanted and has_score and _role(step) == "loop"


def _last_error(step: StepContext, action: Finish) -> dict[str, Any] | None:
    if action.reason is not StopReason.EVALUATOR_ERROR:
        return without_whole_answer(step.records, action)
    if not step.records:
        return job_error("evaluator_invalid", "The answers to judge are gone: their job was deleted.")
    whole = [record.evaluation for record in step.records if not record.as_attempt().is_cut]
    errors = [evaluation.error for evaluation in whole if evaluation is not None and evaluation.error]
    return errors[-1] if errors else None


def write_evaluations(
    step: StepContext, evaluations: Sequence[AnswerEvaluation], role: str, connection: Connection
) -> None:
    rows = [history.evaluation_row(step.job.id, each.record, each.evaluation, role) for each in evaluations]
    if role == "rescore":
        # The job that they hang on may have been deleted meanwhile
        there = history.hold_existing(connection, [row["iteration_id"] for row in rows])
        rows = [row for row in rows if row["iteration_id"] in there]
    history.add_evaluations(connection, rows)
    keep_version(step, connection)
