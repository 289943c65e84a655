"""The views of a job on its pages; each is one short read transaction with a fixed number of queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from redraft.domain.jobs.loop import passes
from redraft.domain.jobs.states import JobStatus
from redraft.domain.jobs.time_intervals import covered
from redraft.errors import existing
from redraft.operations.jobs import iterations, queries
from redraft.operations.jobs.iterations import CriteriaMatrix, Iteration
from redraft.operations.jobs.resources import (
    Call,
    CallLine,
    Event,
    Job,
    Rating,
    WebhookDelivery,
    call_line,
    call_resource,
    delivery_resource,
    event_resource,
    job_resource,
    rating_resource,
)
from redraft.operations.results.job_results import best_candidate
from redraft.operations.services import Services
from redraft.operations.steps.step_events import shortcomings
from redraft.storage.admin import ratings
from redraft.storage.jobs import calls, events, history, webhooks
from redraft.storage.jobs.jobs import JobRecord

# Longer tables make a page slow; the API has all calls and events
CALLS_MAX = 500
EVENTS_MAX = 500


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


@dataclass(frozen=True, slots=True)
class JobView:
    """A job, with the number of its last event, from which a stream continues."""

    job: Job
    last_event: int
    facts: JobFacts


@dataclass(frozen=True, slots=True)
class RequestView(JobView):
    """A job with the events of its continuations; each event holds the request of one."""

    continued: list[Event]


@dataclass(frozen=True, slots=True)
class HistoryView(JobView):
    iterations: list[Iteration]
    matrix: CriteriaMatrix
    ratings: list[Rating]


@dataclass(frozen=True, slots=True)
class CallsView(JobView):
    """A job with its first calls; `has_more`: there are more."""

    calls: list[CallLine]
    has_more: bool

    @property
    def called_s(self) -> float:
        """The total time in which at least one of these calls ran."""
        return covered(call.interval for call in self.calls)


@dataclass(frozen=True, slots=True)
class CallView(JobView):
    """A job with one call; very long texts are cut."""

    call: Call


@dataclass(frozen=True, slots=True)
class EventsView(JobView):
    """A job with its events after a number; `has_more`: there are more."""

    events: list[Event]
    has_more: bool
    deliveries: list[WebhookDelivery]


def _read_job(connection: Connection, job_id: str) -> tuple[JobRecord, tuple[Job, int, JobFacts]]:
    """A job's row, and the fields that all views have. Raises NotFound if there is no such job."""
    record = queries.record_of(connection, job_id)
    return record, (job_resource(record), record.event_seq, _facts_of(connection, record))


def view_job(services: Services, job_id: str) -> JobView:
    """The job alone. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        return JobView(*_read_job(connection, job_id)[1])


def view_request(services: Services, job_id: str) -> RequestView:
    """The job, with the requests of its continuations. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record, common = _read_job(connection, job_id)
        continued = events.of_types(connection, job_id, ("job.continued",)) if record.continuations else []
    return RequestView(*common, [event_resource(each) for each in continued])


def view_history(services: Services, job_id: str) -> HistoryView:
    """The job, with its iterations and the ratings of their evaluations. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record, common = _read_job(connection, job_id)
        written = queries.iterations_of(connection, record)
        matrix = iterations.criteria_matrix(history.iterations_of(connection, record))
        rated = [rating_resource(each) for each in ratings.of_job(connection, job_id)]
    return HistoryView(*common, written, matrix, rated)


def view_calls(services: Services, job_id: str) -> CallsView:
    """The job, with its calls but without their texts. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        _, common = _read_job(connection, job_id)
        rows = calls.summaries_of_job(connection, job_id, CALLS_MAX + 1)
    return CallsView(*common, [call_line(row) for row in rows[:CALLS_MAX]], len(rows) > CALLS_MAX)


def view_call(services: Services, job_id: str, call_id: str) -> CallView:
    """The job, with one call. Raises NotFound if there is no such job, or no such call of it."""
    with services.database.read() as connection:
        _, common = _read_job(connection, job_id)
        row = calls.get(connection, job_id, call_id)
    return CallView(*common, call_resource(existing(row, "call", call_id)))


def view_events(services: Services, job_id: str, after: int = 0) -> EventsView:
    """The job, with its events after a number and their deliveries. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record, common = _read_job(connection, job_id)
        found = events.after(connection, job_id, after, EVENTS_MAX + 1)
        sent = webhooks.list_of(connection, job_id) if record.request.get("webhook") else []
    shown = [event_resource(each) for each in found[:EVENTS_MAX]]
    return EventsView(*common, shown, len(found) > EVENTS_MAX, [delivery_resource(each) for each in sent])


def _facts_of(connection: Connection, job: JobRecord) -> JobFacts:
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
    record = best_candidate(history.iterations_of(connection, job), number)
    return shortcomings(record, record.evaluation) if record and record.evaluation else ()


def _rested_ms(connection: Connection, job: JobRecord) -> int:
    rested, ended = timedelta(), None
    # Events and not rows: a job keeps only its last end
    for kind, at in events.times(connection, job.id, ("done", "job.continued")):
        if kind == "done":
            ended = at
        elif ended is not None:
            rested += at - ended
            ended = None
    return round(rested.total_seconds() * 1000)
