"""The states of a job and who may move it. `docs/architecture.md` draws them."""

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


TERMINAL = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED})
LIVE = frozenset(JobStatus) - TERMINAL

# Who moves a job: a worker's claim, its finish or the sweeper, a person's cancel, a person's continue.
TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.CANCELED, JobStatus.SUCCEEDED, JobStatus.FAILED}),
    JobStatus.RUNNING: frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED}),
    JobStatus.SUCCEEDED: frozenset({JobStatus.QUEUED}),
    JobStatus.FAILED: frozenset({JobStatus.QUEUED}),
    JobStatus.CANCELED: frozenset({JobStatus.QUEUED}),
}


def sources_of(target: JobStatus) -> tuple[str, ...]:
    """The states from which a job may move to `target`, for the WHERE of the statement that moves it."""
    return tuple(status.value for status in JobStatus if target in TRANSITIONS[status])


def ending_status(reason: StopReason, *, has_answer: bool) -> JobStatus:
    """Missing the threshold is no failure; `failed` means that there is no answer to give."""
    if reason is StopReason.CANCELED:
        return JobStatus.CANCELED
    return JobStatus.SUCCEEDED if has_answer else JobStatus.FAILED


def ensure_can_continue(kind: str, status: str, job_id: str) -> None:
    """Raise Conflict unless a person may continue this job."""
    if kind != JobKind.GENERATE_ANSWER:
        raise Conflict(f"Job {job_id} only evaluates given answers; there is nothing to continue.")
    if JobStatus(status) not in TERMINAL:
        raise Conflict(f"Job {job_id} is {status}; it can be continued once it has ended.", code="job_not_terminal")
