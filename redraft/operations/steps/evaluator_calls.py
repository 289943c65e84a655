"""Asks evaluators questions about answers: plans the calls, retries them, and reads the replies.

Each evaluator is asked `samples` times, about the whole rubric at once or about each criterion on its own. All
questions of a step are asked in parallel, and each reply is recorded at once.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection

from redraft.domain.calls.conversation import LimitOrigin, Prompt, keep_stable_parts
from redraft.domain.calls.model_names import parse_model
from redraft.domain.evaluation.aggregation import CombinedVerdict, EvaluatorVerdict, combine, groups_of, merge_parts
from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.rubrics import Criterion, CriterionResult, evaluated_by_model
from redraft.domain.evaluation.verdict_parsing import Verdict
from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.jobs.states import Step
from redraft.errors import Invalid, ProviderError
from redraft.operations.calls.budgets import BudgetExhausted
from redraft.operations.calls.model_calls import Ask, Outcome, PlannedCall, Slot, recorded_outcome
from redraft.operations.calls.step_work import Work
from redraft.operations.results.grounding import NOTHING
from redraft.operations.steps import context
from redraft.operations.steps.context import StepContext
from redraft.operations.tuning_lookup import profile_for
from redraft.prompts.evaluation import evaluation_prompt, read_verdict
from redraft.prompts.profiles import Profile
from redraft.providers.shared.protocol import UnusableReply
from redraft.storage.admin import profile_versions
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs.history import IterationRecord

# The answer causes these failures, not the provider. So the evaluation is an error, and the loop continues.
_ABOUT_THIS_REPLY = frozenset({"refused", "content_filtered"})
# After an accepted first call, only the longer prompt of the retry can cause these failures.
_ABOUT_THE_SECOND = frozenset({"provider_bad_request", "context_too_long"})
# The output limit of a retry, as a multiple of the first limit. If reasoning has used up the first limit,
# the larger factor applies
_REPAIR_FACTOR = 2
_REASONING_FACTOR = 4

# The profile versions that each database contains, so that an evaluation does not query them again.
_kept: WeakKeyDictionary[Database, set[tuple[str, str]]] = WeakKeyDictionary()

# By run: the hash of the first stable part of its latest prompt
_first_parts: dict[str, int] = {}
_first_parts_lock = threading.Lock()
_RUNS_MAX = 256


@dataclass(frozen=True, slots=True)
class EvaluatorQuestion:
    """One question that one evaluator is asked about one answer.

    Attributes:
        number: the position of the question among the questions about this answer. Its call has the number 2n, and
            the retry has 2n + 1.
        evaluator: the index of the evaluator in its panel.
        criteria: the criteria to evaluate; empty for the criteria of the profile.
    """

    record: IterationRecord
    number: int
    evaluator: int
    model: str
    sample: int
    criteria: tuple[Criterion, ...]


@dataclass(frozen=True, slots=True)
class EvaluatorReply:
    """The result of a question: a verdict, or the reason why there is no verdict.

    Attributes:
        blocked: the provider's failure, unless the answer caused it.
        is_ours: whether this worker still has the lease. False if the lease was lost before the retry.
    """

    question: EvaluatorQuestion
    outcomes: tuple[Outcome, ...]
    verdict: Verdict | None = None
    error: dict[str, Any] | None = None
    blocked: ProviderError | None = None
    is_ours: bool = True


def questions_about(
    step: StepContext, record: IterationRecord, evaluators: Sequence[str], samples: int
) -> list[EvaluatorQuestion]:
    """Return all questions about an answer. A question keeps its number if other criteria are grouped differently."""
    count = len(evaluated_by_model(step.request.rubric))
    groups = groups_of(step.request.rubric, step.services.settings.criteria_per_call)
    places = [(0 if len(group) == count else at, group) for at, group in enumerate(groups, 1)]
    return [
        EvaluatorQuestion(record, (evaluator * samples + sample) * (count + 1) + place, evaluator, model, sample, group)
        for evaluator, model in enumerate(evaluators)
        for sample in range(samples)
        for place, group in places
    ]


def _slot(step: StepContext, question: EvaluatorQuestion, *, is_second: bool = False) -> Slot:
    record = question.record
    return Slot(step.job.id, Step(step.job.step), record.number, record.candidate, 2 * question.number + is_second)


def plan(step: StepContext, asked: Sequence[EvaluatorQuestion]) -> list[PlannedCall]:
    """Plan the first call of each question that has no recorded reply.

    Raises:
        BudgetExhausted: the sum of the calls could cost more than the remaining budget.
    """
    # A continuation may ask another question in the same slot
    is_first = step.job.continuations == 0
    unrecorded = [question for question in asked if not (is_first and _slot(step, question).key in step.recorded)]
    return [_plan_call(step, question, calls_at_once=len(unrecorded)) for question in unrecorded]


def _plan_call(
    step: StepContext,
    question: EvaluatorQuestion,
    *,
    factor: int = 1,
    complaint: str | None = None,
    calls_at_once: int = 1,
) -> PlannedCall:
    providers, sampling = step.services.providers, step.request.evaluator_sampling
    own = sampling.max_output_tokens
    limit = (own or providers.verdict_tokens(parse_model(question.model))) * factor
    is_second = factor > 1
    origin = providers.verdict_limit_origin(is_second=is_second)
    if own and not is_second:
        origin = LimitOrigin("evaluator_sampling.max_output_tokens", is_fixed=True)
    ask = Ask(prompt_of(step, question, complaint), question.model, sampling.parameters, limit, limit_origin=origin)
    kind = "repair" if is_second else "verify_claims" if profile_of(step).reply.claims else "evaluate"
    return context.plan(step, _slot(step, question, is_second=is_second), kind, ask, calls_at_once=calls_at_once)


def prompt_of(step: StepContext, question: EvaluatorQuestion, complaint: str | None = None) -> Prompt:
    """Return the prompt of a question. All evaluators of a panel get the same prompt."""
    key = f"prompt {question.record.id} {[criterion.id for criterion in question.criteria]} {complaint}"
    if key not in step.found:
        prompt = evaluation_prompt(
            profile_of(step), step.request, question.record.answer, criteria=question.criteria, complaint=complaint
        )
        step.found[key] = _with_repeated_parts(step, prompt)
    return step.found[key]


def _with_repeated_parts(step: StepContext, prompt: Prompt) -> Prompt:
    """Keep only the stable parts that a later call probably repeats, because providers charge for cache writes."""
    if isinstance(step.request, GenerateAnswer) and step.request.iter_max > 1:
        return prompt
    (message,) = prompt.messages
    first = message.content[: message.stable_ends[0]] if message.stable_ends else ""
    is_shared = step.job.run_id is not None and _is_as_before(step.job.run_id, hash(first))
    return replace(prompt, messages=keep_stable_parts(prompt.messages, int(is_shared)))


def _is_as_before(run_id: str, first_part: int) -> bool:
    """Whether the previous prompt of this run in this process had the same first stable part."""
    with _first_parts_lock:
        before = _first_parts.pop(run_id, None)
        _first_parts[run_id] = first_part
        if len(_first_parts) > _RUNS_MAX:
            del _first_parts[next(iter(_first_parts))]
    return before == first_part


def profile_of(step: StepContext) -> Profile:
    """Return the job's profile, in the version of this worker.

    Raises:
        ProviderError: this worker has no profile of that name (code `evaluator_invalid`).
    """
    if "profile" not in step.found:
        step.found["profile"] = _find_profile(step)
    return step.found["profile"]


def _find_profile(step: StepContext) -> Profile:
    try:
        return profile_for(step.services, step.request)
    except Invalid as error:
        words = (
            f"A worker that took the job does not know profile {step.request.profile!r}: {error.message}"
            " Set REDRAFT_PROFILES_DIR for every worker, and start them anew."
        )
        raise ProviderError("evaluator_invalid", words) from error


def keep_version(step: StepContext, connection: Connection) -> None:
    """Store the texts of the profile version in the unit of work that stores an evaluation."""
    profile = profile_of(step)
    known, key = _kept.setdefault(step.services.database, set()), (profile.name, profile.version)
    if key in known:
        return
    if profile_versions.is_stored(connection, *key):
        known.add(key)
    else:
        # Not added to `known`, because this unit of work may still be rolled back
        profile_versions.store(connection, *key, profile.texts)


def collect(
    step: StepContext, question: EvaluatorQuestion, planned: Mapping[Slot, PlannedCall]
) -> Work[EvaluatorReply]:
    """Ask a question, and retry once if the reply is unusable. With several calls, the outcome is recorded at once.

    Raises:
        LeaseLost: the call may not be sent any more.
    """
    made = yield from context.outcomes_of(step, _slot(step, question), planned)
    read = _read(step, question, made[-1])
    if isinstance(read, Unusable):
        reply = yield from _retry(step, question, made, read)
    else:
        reply = _reply(step, question, made, read)
    return replace(reply, outcomes=context.record_one_of(step, planned, reply.outcomes))


def _read(step: StepContext, question: EvaluatorQuestion, outcome: Outcome) -> Verdict | Unusable | ProviderError:
    error = outcome.error
    if error is None:
        return read_verdict(
            profile_of(step),
            step.request,
            question.record.answer,
            outcome.text or "",
            criteria=question.criteria,
            unclaimed=_unclaimed(question.record),
            finish_reason=outcome.finish_reason,
        )
    if error.code == "output_truncated":
        return Unusable("truncated", error.message)
    if isinstance(error, UnusableReply) and error.retryable and error.text:
        # The provider interrupted the reply, so it is retried like a truncated reply
        return Unusable("truncated", error.message)
    return Unusable("no_verdict", error.message) if error.code == "empty_output" else error


def _unclaimed(record: IterationRecord) -> float:
    """Return the score of an answer without claims: its grounding score, or 1 if it has no grounding score."""
    score = (record.grounding or NOTHING)["grounding_score"]
    return 1.0 if score is None else score


def _reply(
    step: StepContext, question: EvaluatorQuestion, made: tuple[Outcome, ...], read: Verdict | ProviderError
) -> EvaluatorReply:
    if isinstance(read, Verdict):
        return EvaluatorReply(question, made, verdict=read)
    blocked = None if read.code in _ABOUT_THIS_REPLY else read
    return replace(_failed(step, question, made, read.code, read.message), blocked=blocked)


def _failed(
    step: StepContext, question: EvaluatorQuestion, made: tuple[Outcome, ...], code: str, words: str
) -> EvaluatorReply:
    error = job_error(code, words, model=question.model, iteration=question.record.number, attempts=step.attempt_no)
    return EvaluatorReply(question, made, error=error)


def _retry(
    step: StepContext, question: EvaluatorQuestion, made: tuple[Outcome, ...], unusable: Unusable
) -> Work[EvaluatorReply]:
    made = (*made[:-1], context.not_to_reuse(made[-1]))
    slot = _slot(step, question, is_second=True)
    row = step.recorded.get(slot.key)
    if row is not None:
        return _second(step, question, (*made, recorded_outcome(slot, row)))
    # A truncated reply needs a larger output limit. The reply has no mistake that the retry could correct
    complaint = None if unusable.kind == "truncated" else unusable.message
    factor = _REASONING_FACTOR if _is_reasoning_alone(made[-1]) else _REPAIR_FACTOR
    try:
        asked = context.retry(step, made[-1], lambda now: _plan_call(now, question, factor=factor, complaint=complaint))
    except BudgetExhausted as error:
        return _failed(step, question, made, "evaluator_invalid", f"{unusable.message} {error}")
    if asked is None:
        return EvaluatorReply(question, made, is_ours=False)
    stored, planned = asked
    again = yield from context.call(step, planned)
    return _second(step, question, (*made[:-1], stored, *again))


def _is_reasoning_alone(outcome: Outcome) -> bool:
    """Whether the output limit cut the reply before its first text."""
    return outcome.cut is not None and not outcome.cut.text.strip()


def _second(step: StepContext, question: EvaluatorQuestion, made: tuple[Outcome, ...]) -> EvaluatorReply:
    read = _read(step, question, made[-1])
    if isinstance(read, Unusable):
        words = f"The evaluator gave no usable verdict, twice. {read.message}"
        return _failed(step, question, (*made[:-1], context.not_to_reuse(made[-1])), "evaluator_invalid", words)
    if isinstance(read, ProviderError) and read.code in _ABOUT_THE_SECOND:
        return _failed(step, question, made, read.code, read.message)
    return _reply(step, question, made, read)


def verdict_on(
    replies: Sequence[EvaluatorReply], rubric: Sequence[Criterion], checked: Sequence[CriterionResult]
) -> CombinedVerdict | None:
    """Combine the replies about one answer into one verdict; None if no reply is usable."""
    return combine(_evaluator_verdicts(replies), rubric, checked)


def _evaluator_verdicts(replies: Sequence[EvaluatorReply]) -> list[EvaluatorVerdict]:
    by_evaluator: dict[tuple[int, int], list[EvaluatorReply]] = {}
    for each in replies:
        by_evaluator.setdefault((each.question.evaluator, each.question.sample), []).append(each)
    return [_evaluator_verdict(parts) for parts in by_evaluator.values()]


def _evaluator_verdict(parts: Sequence[EvaluatorReply]) -> EvaluatorVerdict:
    question = parts[0].question
    verdicts = [part.verdict for part in parts if part.verdict is not None]
    is_whole = len(verdicts) == len(parts)
    error = next((part.error for part in parts if part.error), None)
    return EvaluatorVerdict(
        question.evaluator, question.model, question.sample, merge_parts(verdicts) if is_whole else None, error
    )
