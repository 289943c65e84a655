"""The states of a job and the transitions between them. `docs/architecture.md` has a diagram."""

from enum import StrEnum

from redraft.errors import Conflict


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class JobKind(StrEnum):
    GENERATE_ANSWER = "generate_answer"
    EVALUATE_ANSWER = "evaluate_answer"
    RESCORE_ANSWERS = "rescore_answers"


class Step(StrEnum):
    GENERATE = "generate"
    EVALUATE = "evaluate"
    AUDIT = "audit"


class StopReason(StrEnum):
    # The job has ended with its first answer, which is evaluated next. The result of the evaluation replaces this
    ANSWERED = "answered"
    ACCEPTED = "accepted"
    ITERATION_LIMIT = "iteration_limit"
    PLATEAU = "plateau"
    UNCHANGED = "unchanged"
    BUDGET_EXHAUSTED = "budget_exhausted"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    EVALUATOR_ERROR = "evaluator_error"
    EVALUATION_SKIPPED = "evaluation_skipped"
    CANCELED = "canceled"
    ERROR = "error"


class Outcome(StrEnum):
    """What people want to know about a job: its status, and the verdict on the returned answer if there is one."""

    QUEUED = "queued"
    RUNNING = "running"
    ACCEPTED = "accepted"
    NOT_ACCEPTED = "not_accepted"
    NOT_EVALUATED = "not_evaluated"
    FAILED = "failed"
    CANCELED = "canceled"


def outcome_of(status: str, *, is_accepted: bool, is_evaluated: bool) -> Outcome:
    """Return the outcome of a job. The last two arguments are about the returned answer.

    Raises ValueError for an unknown status.
    """
    if status != JobStatus.SUCCEEDED:
        return Outcome(JobStatus(status).value)
    if is_accepted:
        return Outcome.ACCEPTED
    return Outcome.NOT_ACCEPTED if is_evaluated else Outcome.NOT_EVALUATED


# Wordings of reasons whose names are not clear enough for people.
_STOP_PHRASES: dict[str, str] = {
    StopReason.ANSWERED: "being evaluated",
    StopReason.EVALUATION_SKIPPED: "not evaluated",
    StopReason.PLATEAU: "score stopped rising",
    StopReason.UNCHANGED: "answer repeated",
    StopReason.BUDGET_EXHAUSTED: "budget used up",
    StopReason.DEADLINE_EXCEEDED: "deadline passed",
    StopReason.EVALUATOR_ERROR: "no usable evaluation",
    StopReason.ERROR: "a step failed",
}


def describe_stop_reason(reason: str, *, only_evaluates: bool = False) -> str:
    """Describe a stop reason in a few words. A job that only evaluates has no iteration limit."""
    if only_evaluates and reason == StopReason.ITERATION_LIMIT:
        return "not accepted"
    return _STOP_PHRASES.get(reason, reason.replace("_", " "))


TERMINAL = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED})
LIVE = frozenset(JobStatus) - TERMINAL

# A worker claims a job; a worker or the sweeper finishes it; a person cancels or continues it.
TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.CANCELED, JobStatus.SUCCEEDED, JobStatus.FAILED}),
    JobStatus.RUNNING: frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED}),
    JobStatus.SUCCEEDED: frozenset({JobStatus.QUEUED}),
    JobStatus.FAILED: frozenset({JobStatus.QUEUED}),
    JobStatus.CANCELED: frozenset({JobStatus.QUEUED}),
}


def states_before(target: JobStatus) -> tuple[str, ...]:
    """Return the states from which a job may change to `target`, for the WHERE clause of the UPDATE."""
    return tuple(status.value for status in JobStatus if target in TRANSITIONS[status])


def final_status(reason: StopReason, *, has_answer: bool) -> JobStatus:
    """Return the final status. A score below the threshold is `succeeded`; `failed` means that no answer exists."""
    if reason is StopReason.CANCELED:
        return JobStatus.CANCELED
    return JobStatus.SUCCEEDED if has_answer else JobStatus.FAILED


def ensure_can_continue(kind: str, status: str, job_id: str) -> None:
    """Check that a job can be continued.

    Raises:
        Conflict: the job has not ended, or its kind has no loop.
    """
    if kind != JobKind.GENERATE_ANSWER:
        raise Conflict(f"Job {job_id} only evaluates given answers; there is nothing to continue.")
    if JobStatus(status) not in TERMINAL:
        raise Conflict(f"Job {job_id} is {status}; it can be continued once it has ended.", code="job_not_terminal")
