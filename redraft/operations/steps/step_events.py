"""The events for users about an evaluated iteration, and about the next iteration."""

from collections.abc import Mapping, Sequence
from typing import Any

from redraft.domain.bulk.phrases import format_score
from redraft.domain.jobs.requests import AnyRequest, GenerateAnswer
from redraft.domain.jobs.states import Step
from redraft.domain.loop.attempts import passes
from redraft.operations.request_views import step_iteration
from redraft.operations.results.job_results import Event, event
from redraft.operations.steps.context import StepContext
from redraft.storage.jobs.history import EvaluationRecord, IterationRecord
from redraft.storage.jobs.jobs import JobRecord

_UNSEEN = "The answer does not meet another requirement."


def evaluated(record: IterationRecord, verdict: EvaluationRecord, seconds: float) -> Event:
    """Return the event for one evaluated answer. The evaluation took `seconds`."""
    return event(
        "iteration.evaluated",
        f"Iteration {record.number} {_outcome_in_words(record, verdict)}.",
        iteration=record.number,
        candidate=record.candidate,
        score=verdict.score,
        passed=verdict.passed,
        evaluation_reasoning=verdict.reasoning,
        improvement_suggestions=verdict.suggestions,
        criteria=verdict.criteria or [],
        grounding=verdict.grounding,
        disagreement=verdict.disagreement,
        reused=bool(verdict.reused_from),
        error=verdict.error,
        seconds=round(seconds, 3),
    )


def _outcome_in_words(record: IterationRecord, verdict: EvaluationRecord) -> str:
    if verdict.status == "skipped":
        return "is not evaluated"
    if record.as_attempt().is_truncated:
        return "is not evaluated: its answer was cut off at the output limit"
    if verdict.score is None:
        return "could not be evaluated"
    silent = [each["model"] for each in verdict.judges or () if each["status"] != "ok"]
    without = f" without {', '.join(dict.fromkeys(silent))}, which gave no verdict" if silent else ""
    unmet = [each["id"] for each in _unmet(verdict)]
    lacking = f"; required and not met: {', '.join(unmet)}" if unmet else ""
    ungrounded = "; its sources do not support it" if _is_ungrounded(record, verdict) else ""
    return f"scored {format_score(verdict.score)}{without}{lacking}{ungrounded}"


def shortcomings(record: IterationRecord, verdict: EvaluationRecord) -> list[str]:
    """Return the reasons other than the score for which an answer is not accepted."""
    unmet = [f"required and not met: {each['text'] or each['id']}" for each in _unmet(verdict)]
    return [*unmet, *(["its sources do not support it"] if _is_ungrounded(record, verdict) else [])]


def vetoes_of(request: AnyRequest, record: IterationRecord) -> tuple[str, ...]:
    """Return the failed checks and grounding problems for which an answer is not accepted, whatever its score."""
    verdict = record.evaluation
    failed = [each for each in _unmet(verdict) if each["kind"] == "check"] if verdict else []
    # The generator must not see hidden criteria
    checks = dict.fromkeys(_UNSEEN if each["hidden"] else each["gap"] or each["text"] for each in failed)
    return (*checks, *_code_findings(request, record))


def _code_findings(request: AnyRequest, record: IterationRecord) -> Sequence[str]:
    verdict = record.evaluation
    if verdict and verdict.requirements_met is False and _is_by_code(verdict):
        return verdict.suggestions
    found = record.grounding or {}
    has_claims = verdict is not None and bool((verdict.grounding or {}).get("claims"))
    is_ungrounded = request.grounds is not None and request.grounds.require_grounding and not found.get("met", True)
    return found.get("problems", ()) if is_ungrounded and not has_claims else ()


def _is_by_code(verdict: EvaluationRecord) -> bool:
    """Whether the suggestions come from code: no model was called, or code has verified the quotes of the model."""
    has_claims = bool((verdict.grounding or {}).get("claims"))
    return has_claims or (verdict.evaluator_model is None and not verdict.criteria)


def _unmet(verdict: EvaluationRecord) -> list[Mapping[str, Any]]:
    return [each for each in verdict.criteria or () if each["required"] and not each["passed"]]


def _is_ungrounded(record: IterationRecord, verdict: EvaluationRecord) -> bool:
    """Whether an answer may not be accepted because its sources do not support it."""
    if verdict.requirements_met is not False:
        return False
    claims = (verdict.grounding or {}).get("ungrounded_claims")
    return bool(claims) or (record.grounding or {}).get("met") is False


def worker_lost(job: JobRecord, calls: int) -> Event:
    """Return the event that the worker of a claimed step was lost, with its number of calls in flight."""
    them = "a call" if calls == 1 else f"{calls} calls"
    return event(
        "step.retrying",
        f"The worker of this step was lost with {them} in flight; another worker executes the step now.",
        step=job.step,
        iteration=step_iteration(job),
        code="worker_lost",
        attempt=job.step_claims,
        wait_s=0.0,
        seconds=0.0,
        withdrawn=bool(job.request.get("stream")) and job.step == Step.GENERATE,
    )


def thinking(step: StepContext, current: Sequence[IterationRecord], *, is_written: bool = False) -> Event:
    """Return the reason for another iteration, from the findings about the answers of the current iteration.

    With `is_written`, the answers of that iteration were written during the evaluation of the current answers.
    """
    strategy = step.request.revision.strategy if isinstance(step.request, GenerateAnswer) else "revise"
    kind, data = event(
        "thinking",
        _why_again(step, current, is_written=is_written),
        strategy=strategy,
        retry_count=step.job.iteration,
    )
    return kind, {**data, "ts": data["at"]}


def _why_again(step: StepContext, current: Sequence[IterationRecord], *, is_written: bool) -> str:
    number, threshold = step.job.iteration + 1, step.request.score_threshold
    following = f"iteration {number}"
    if is_written and number >= step.job.iteration_limit:
        return f"The answer is not accepted; {following} is written already, and is the last one."
    if is_written:
        following = f"iteration {number + 1}, because {following} is written already"
    scored = [(r, r.evaluation) for r in current if r.evaluation and r.evaluation.score is not None]
    if not scored:
        return _why_unscored(step, current, following)
    reached = [(record, verdict) for record, verdict in scored if passes(verdict.score, threshold)]
    if any(_unmet(verdict) for _, verdict in reached):
        return f"A required criterion is not met; the feedback goes into {following}."
    if any(_is_ungrounded(record, verdict) for record, verdict in reached):
        return f"The sources do not support the answer; the feedback goes into {following}."
    return f"The score is below {threshold:g}; the feedback goes into {following}."


def _why_unscored(step: StepContext, current: Sequence[IterationRecord], following: str) -> str:
    if all(record.as_attempt().is_truncated for record in current):
        return f"The answer was cut off at its output limit; {following} is asked for a shorter answer."
    if any(attempt.score is not None for attempt in step.attempts):
        return f"There is no score; the last good feedback goes into {following}."
    return f"There is no score, and no feedback yet; {following} goes on without any."


def started(job: JobRecord, *, starts_job: bool, starts_iteration: bool) -> list[Event]:
    """Return the events for the start of the job and of the iteration, if the claimed step starts them."""
    new: list[Event] = []
    if starts_job:
        new.append(event("job.started", "A worker has taken up the job."))
    if starts_iteration:
        number = job.iteration + 1
        words = f"Iteration {number} of at most {job.iteration_limit} begins."
        new.append(event("iteration.started", words, iteration=number))
    return new
