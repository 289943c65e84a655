"""Builds the end of a job: its result, its error, and the event `done` with both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from redraft.domain.evaluation.aggregation import dimensions_at, requirements_met
from redraft.domain.jobs.requests import AnyRequest
from redraft.domain.jobs.states import JobKind, Step, StopReason, final_status
from redraft.domain.loop.attempts import Attempt, best_of, is_accepted
from redraft.domain.loop.rules import Rules
from redraft.domain.loop.stopping import Finish, next_action
from redraft.domain.structured.answers import Parsed, read_answer
from redraft.operations.request_views import rules_of, schema_of
from redraft.operations.resource_base import rfc3339
from redraft.operations.results.grounding import final_answer, grounding_fields, meets_rule
from redraft.prompts.profiles import Profiles
from redraft.storage.engine.columns import DbNow
from redraft.storage.jobs.history import IterationRecord
from redraft.storage.jobs.jobs import JobRecord

Event = tuple[str, Mapping[str, Any]]

_WORDS = {
    StopReason.ANSWERED: "This is the answer; it is evaluated now.",
    StopReason.ACCEPTED: "The answer of iteration {best} was accepted.",
    StopReason.ITERATION_LIMIT: "The iteration limit was reached; this is the best answer.",
    StopReason.PLATEAU: "The score stopped rising; this is the best answer.",
    StopReason.UNCHANGED: "The model repeated an earlier answer; this is the best one.",
    StopReason.BUDGET_EXHAUSTED: "The budget is used up; this is the best answer so far.",
    StopReason.DEADLINE_EXCEEDED: "The deadline passed; this is the best answer so far.",
    StopReason.EVALUATOR_ERROR: "No evaluation could be used; this is the last answer, without a verdict.",
    StopReason.EVALUATION_SKIPPED: "This is the answer; it was not evaluated.",
    StopReason.CANCELED: "The job was canceled.",
    StopReason.ERROR: "A step failed permanently; this is the best answer so far.",
}

_VERDICTS = {
    StopReason.ACCEPTED: "The answer was evaluated and accepted.",
    StopReason.ITERATION_LIMIT: "The answer was evaluated, and is not accepted.",
}
_BELOW = {
    JobKind.EVALUATE_ANSWER: "The answer scored below the threshold.",
    JobKind.RESCORE_ANSWERS: "No answer reached the threshold; this is the best one.",
}
_UNQUALIFIED = {
    JobKind.EVALUATE_ANSWER: "The answer was not accepted: it lacks what is required.",
    JobKind.RESCORE_ANSWERS: "No answer was accepted; this is the best one.",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """The column values that end a job, and the event `done`. For the verdict on an answered job, it is `evaluated`."""

    values: Mapping[str, Any]
    event: Event


def event(kind: str, message: str, **facts: Any) -> Event:
    """Build an event with a message and the current time."""
    return kind, {"message": message, "at": rfc3339(datetime.now(UTC)), **facts}


def ending(
    profiles: Profiles,
    job: JobRecord,
    request: AnyRequest | None,
    records: Sequence[IterationRecord],
    reason: StopReason,
    error: Mapping[str, Any] | None = None,
) -> Ending:
    """Build the end of a job for this reason, or with this error. An answered job stays ended, and gets its verdict.

    `job` is the record before the end, and `records` are all its iterations. The request is None if an earlier version
    stored it in a form that this version cannot read; the job then gets no result.
    """
    warnings = job.warnings
    is_answered = job.stop_reason == StopReason.ANSWERED
    if is_answered and reason is StopReason.CANCELED:
        reason = StopReason.EVALUATION_SKIPPED
    # An audit never changes the result of the loop, so its failure is only a warning
    if job.step == Step.AUDIT and reason is not StopReason.CANCELED and request is not None:
        warnings = [*warnings, audit_failed(error["detail"])] if error else warnings
        reason, error = loops_reason(profiles, job, request, records), None
    result = job.result if request is None else _result(records, request, rules_of(job, request, profiles), reason)
    status = final_status(reason, has_answer=result is not None)
    values = {
        "status": status.value,
        "stop_reason": reason.value,
        "result": result,
        "error": error,
        "warnings": warnings,
        "rung_at": None,
        **({} if is_answered else {"finished_at": DbNow()}),
    }
    message = _words(job, request, reason, result)
    if result is None and reason is not StopReason.CANCELED:
        message = f"There is no answer: {error['detail'] if error else reason.value}"
    facts = {
        "status": status.value,
        "stop_reason": reason.value,
        "result": result,
        "error": error,
        "trace_id": job.trace_id,
        # Not below 0, since the clock of a worker may be behind the clock of the database
        "seconds": round(max(0.0, (datetime.now(UTC) - job.created_at).total_seconds()), 3),
    }
    return Ending(values, event("evaluated", message, **facts) if is_answered else event("done", message, **facts))


def _words(job: JobRecord, request: AnyRequest | None, reason: StopReason, result: Mapping[str, Any] | None) -> str:
    kind = JobKind(job.kind)
    if job.stop_reason == StopReason.ANSWERED and reason in _VERDICTS:
        return _VERDICTS[reason]
    if reason is StopReason.ITERATION_LIMIT and kind in _BELOW and request is not None:
        score = result["final_score"] if result else None
        return (_BELOW if score is None or score < request.score_threshold else _UNQUALIFIED)[kind]
    best = result["best_iteration"] if result else None
    words = _WORDS[reason].format(best=best)
    stays = result is not None and result["success"] and reason is not StopReason.ACCEPTED
    return f"{words} The answer of iteration {best} stays accepted." if stays else words


def audit_failed(why: str) -> dict[str, str]:
    """The warning that the audit of a job gave no score."""
    return {"code": "audit_failed", "message": f"The audit gave no score: {why}"}


def loops_reason(
    profiles: Profiles, job: JobRecord, request: AnyRequest, records: Sequence[IterationRecord]
) -> StopReason:
    """Compute the stop reason of an ended loop again, from its iterations."""
    action = next_action(rules_of(job, request, profiles), attempts_of(request, records))
    return action.reason if isinstance(action, Finish) else StopReason.ERROR


def attempts_of(request: AnyRequest, records: Iterable[IterationRecord]) -> list[Attempt]:
    """Convert iterations to the attempts that the loop decides about, by the current threshold of the request."""
    return [_attempt(request, record) for record in records]


def _attempt(request: AnyRequest, record: IterationRecord) -> Attempt:
    attempt = record.as_attempt()
    evaluation = attempt.evaluation
    if evaluation is None or request.rubric or not any(each.required for each in evaluation.criteria):
        return attempt
    # A continuation may have changed the threshold, which required dimensions must reach
    criteria = dimensions_at(evaluation.criteria, request.score_threshold)
    is_qualified = requirements_met(criteria) and meets_rule(request, record.grounding, None)
    return replace(attempt, evaluation=replace(evaluation, criteria=criteria, is_qualified=is_qualified))


def best_candidate(records: Iterable[IterationRecord], number: int | None) -> IterationRecord | None:
    """The best candidate of an iteration, as the loop chooses it. None if the iteration has no candidates."""
    candidates = {record.candidate: record for record in records if record.number == number}
    best = best_of(record.as_attempt() for record in candidates.values())
    return candidates[best.candidate] if best else None


def _result(
    records: Sequence[IterationRecord], request: AnyRequest, rules: Rules, reason: StopReason
) -> dict[str, Any] | None:
    best = best_of(attempts_of(request, records), prefers_latest=rules.prefers_latest)
    if best is None:
        return None
    record = next(r for r in records if (r.number, r.candidate) == (best.iteration, best.candidate))
    schema = schema_of(request)
    read = None if schema is None else read_answer(best.answer, schema)
    # Without a verdict it is unknown whether the answer is accepted, so `success` is None
    if best.evaluation is None:
        is_open = reason in {StopReason.ANSWERED, StopReason.EVALUATION_SKIPPED}
    else:
        is_open = best.evaluation.is_skipped
    return {
        "final_answer": best.answer if schema is not None else final_answer(request, record),
        "parsed": read.value if isinstance(read, Parsed) else None,
        "success": None if is_open else is_accepted(best, request.score_threshold),
        "total_iterations": max(record.number for record in records),
        "final_score": best.score,
        "best_iteration": best.iteration,
        **grounding_fields(request, record),
    }
