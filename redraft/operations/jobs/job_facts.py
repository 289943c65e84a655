"""Facts about a job that its row does not hold: missing requirements, time between continuations, open calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from redraft.domain.jobs.loop import best_of, passes
from redraft.domain.jobs.states import JobStatus
from redraft.operations.steps.step_events import shortcomings
from redraft.storage.jobs import calls, events, history
from redraft.storage.jobs.jobs import JobRecord


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts about a job.

    Attributes:
        held_back: what the best answer lacks, if its score reaches the threshold but it was not accepted.
        rested_ms: the total time between each end of the job and the next continuation.
        is_call_out: whether a call is still open although the job was canceled.
    """

    held_back: tuple[str, ...]
    rested_ms: int
    is_call_out: bool


def facts_of(connection: Connection, job: JobRecord) -> JobFacts:
    """Collect the facts."""
    # Every page of a job asks for them, so each query is made only for jobs that can have the fact
    return JobFacts(
        held_back=tuple(_held_back(connection, job)) if _has_score(job) else (),
        rested_ms=_rested_ms(connection, job) if job.continuations else 0,
        is_call_out=job.status == JobStatus.CANCELED and calls.has_open(connection, job.id),
    )


def _has_score(job: JobRecord) -> bool:
    result = job.result
    return (
        result is not None
        and not result["success"]
        and result["final_score"] is not None
        and passes(result["final_score"], job.request["score_threshold"])
    )


def _held_back(connection: Connection, job: JobRecord) -> Sequence[str]:
    number = job.result["best_iteration"] if job.result else None
    records = {each.candidate: each for each in history.of(connection, job) if each.number == number}
    best = best_of(each.as_attempt() for each in records.values())
    record = records[best.candidate] if best else None
    return shortcomings(record, record.evaluation) if record and record.evaluation else ()


def _rested_ms(connection: Connection, job: JobRecord) -> int:
    rested, ended = timedelta(), None
    for kind, at in events.moments(connection, job.id, ("done", "job.continued")):
        if kind == "done":
            ended = at
        elif ended is not None:
            rested += at - ended
            ended = None
    return round(rested.total_seconds() * 1000)
