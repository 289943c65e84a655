"""What is told of a job beside its row: why a good score was not enough, how long it rested, whether a call is out."""

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
    """Beside the row.

    Attributes:
        held_back: why the best answer was not accepted although its score is high enough; empty when that is not so.
        rested_ms: between an end and the continuation after it, all together.
        is_call_out: whether a call that was made before the end has not come back.
    """

    held_back: tuple[str, ...] = ()
    rested_ms: int = 0
    is_call_out: bool = False


def facts_of(connection: Connection, job: JobRecord) -> JobFacts:
    """A query for each that can be there at all; none for most jobs."""
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
    records = {(each.number, each.candidate): each for each in history.of(connection, job)}
    number = job.result["best_iteration"] if job.result else None
    best = best_of(each.as_attempt() for each in records.values() if each.number == number)
    record = records[best.iteration, best.candidate] if best else None
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
