"""Reads the views of a job for its pages. Each view is one short read transaction with a fixed number of queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from redraft.domain.jobs.states import JobStatus, StopReason
from redraft.domain.loop.attempts import passes
from redraft.domain.numbers.time_intervals import covered
from redraft.errors import existing
from redraft.operations.jobs import iterations, queries
from redraft.operations.jobs.iterations import CriteriaMatrix, Iteration
from redraft.operations.jobs.resources import (
    Call,
    Event,
    Job,
    PlacedCall,
    Rating,
    WebhookDelivery,
    call_resource,
    delivery_resource,
    event_resource,
    job_resource,
    placed_call,
    rating_resource,
)
from redraft.operations.results.job_results import best_candidate
from redraft.operations.services import Services
from redraft.operations.steps.step_events import shortcomings
from redraft.storage.admin import ratings
from redraft.storage.jobs import calls, events, history, webhooks
from redraft.storage.jobs.jobs import JobRecord

# Longer tables make a page slow; the API lists all calls and events
CALLS_MAX = 500
EVENTS_MAX = 500


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts about a job.

    Attributes:
        held_back: the shortcomings of the best answer, if it was not accepted although its score reaches the threshold.
        idle_ms: the total time between each end of the job and the next continuation.
        has_open_call: whether the job was canceled and a call is still open.
        step_since: when the current step began, or began to wait for a worker; None if the job has ended.
    """

    held_back: tuple[str, ...]
    idle_ms: int
    has_open_call: bool
    step_since: datetime | None


@dataclass(frozen=True, slots=True)
class JobView:
    """A job. A stream of its events continues after event number `last_event`."""

    job: Job
    last_event: int
    facts: JobFacts


@dataclass(frozen=True, slots=True)
class RequestView(JobView):
    """A job with the events of its continuations. Each event holds the request of a continuation."""

    continued: list[Event]


@dataclass(frozen=True, slots=True)
class HistoryView(JobView):
    """A job with its iterations, their ratings, and the events of its continuations."""

    iterations: list[Iteration]
    matrix: CriteriaMatrix
    ratings: list[Rating]
    continued: list[Event]


@dataclass(frozen=True, slots=True)
class CallsView(JobView):
    """A job with its first calls. `has_more`: the job has further calls."""

    calls: list[PlacedCall]
    has_more: bool

    @property
    def called_s(self) -> float:
        """The total time during which at least one of these calls was in flight."""
        return covered(call.interval for call in self.calls)


@dataclass(frozen=True, slots=True)
class TraceView(CallsView):
    """A job with its first calls, its iterations, its continuations, and its pauses before them."""

    iterations: list[Iteration]
    continued: list[Event]
    pauses: list[tuple[datetime, datetime]]


@dataclass(frozen=True, slots=True)
class CallView(JobView):
    """A job with one call, and all its calls without their texts. Very long texts are cut."""

    call: Call
    calls: list[PlacedCall]


@dataclass(frozen=True, slots=True)
class EventsView(JobView):
    """A job with its events after a number, and its first calls. `has_more`: the job has further events."""

    events: list[Event]
    has_more: bool
    calls: list[PlacedCall]
    deliveries: list[WebhookDelivery]


def _read_job(connection: Connection, job_id: str) -> tuple[JobRecord, tuple[Job, int, JobFacts]]:
    """The record of a job, and the fields that all views have. Raises NotFound if there is no such job."""
    record = queries.record_of(connection, job_id)
    return record, (job_resource(record), record.event_seq, _facts_of(connection, record))


def view_job(services: Services, job_id: str) -> JobView:
    """View a job. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        return JobView(*_read_job(connection, job_id)[1])


def view_request(services: Services, job_id: str) -> RequestView:
    """View a job with the requests of its continuations. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record, common = _read_job(connection, job_id)
        continued = _continued(connection, record)
    return RequestView(*common, continued)


def view_history(services: Services, job_id: str) -> HistoryView:
    """View a job with its iterations and their ratings. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record, common = _read_job(connection, job_id)
        written = queries.iterations_of(connection, record)
        matrix = iterations.criteria_matrix(history.iterations_of(connection, record))
        rated = [rating_resource(each) for each in ratings.of_job(connection, job_id)]
        continued = _continued(connection, record)
    return HistoryView(*common, written, matrix, rated, continued)


def view_calls(services: Services, job_id: str) -> CallsView:
    """View a job with its calls, without the texts of the calls. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        _, common = _read_job(connection, job_id)
        rows = calls.summaries_of_job(connection, job_id, CALLS_MAX + 1)
    return CallsView(*common, [placed_call(row) for row in rows[:CALLS_MAX]], len(rows) > CALLS_MAX)


def view_trace(services: Services, job_id: str) -> TraceView:
    """View a job with its calls and all that its trace shows. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record, common = _read_job(connection, job_id)
        rows = calls.summaries_of_job(connection, job_id, CALLS_MAX + 1)
        written = queries.iterations_of(connection, record)
        continued = _continued(connection, record)
        pauses = _pauses(connection, record) if record.continuations else []
    called = [placed_call(row) for row in rows[:CALLS_MAX]]
    return TraceView(*common, called, len(rows) > CALLS_MAX, written, continued, pauses)


def view_call(services: Services, job_id: str, call_id: str) -> CallView:
    """View a job with one call. Raises NotFound if the job or the call does not exist."""
    with services.database.read() as connection:
        _, common = _read_job(connection, job_id)
        row = existing(calls.get(connection, job_id, call_id), "call", call_id)
        rows = calls.summaries_of_job(connection, job_id, CALLS_MAX)
    return CallView(*common, call_resource(row), [placed_call(each) for each in rows])


def view_events(services: Services, job_id: str, after: int = 0) -> EventsView:
    """View a job with its events after a number, and all its deliveries. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record, common = _read_job(connection, job_id)
        found = events.after(connection, job_id, after, EVENTS_MAX + 1)
        rows = calls.summaries_of_job(connection, job_id, CALLS_MAX)
        sent = webhooks.list_of(connection, job_id) if record.request.get("webhook") else []
    shown = [event_resource(each) for each in found[:EVENTS_MAX]]
    called = [placed_call(row) for row in rows]
    return EventsView(*common, shown, len(found) > EVENTS_MAX, called, [delivery_resource(each) for each in sent])


def _continued(connection: Connection, job: JobRecord) -> list[Event]:
    found = events.of_types(connection, job.id, ("job.continued",)) if job.continuations else []
    return [event_resource(each) for each in found]


def _facts_of(connection: Connection, job: JobRecord) -> JobFacts:
    # Every page of a job needs the facts, so each query is made only for jobs that can have the fact
    return JobFacts(
        held_back=tuple(_held_back(connection, job)) if _has_score(job) else (),
        idle_ms=_idle_ms(connection, job) if job.continuations else 0,
        has_open_call=job.status == JobStatus.CANCELED and calls.has_open(connection, job.id),
        step_since=_step_since(connection, job),
    )


def _step_since(connection: Connection, job: JobRecord) -> datetime | None:
    if job.finished_at is not None and job.stop_reason != StopReason.ANSWERED:
        return None
    begins = ("job.queued", "job.continued", "iteration.started", "iteration.generated", "iteration.evaluated")
    return max((at for _, at in events.times(connection, job.id, begins)), default=job.created_at)


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


def _idle_ms(connection: Connection, job: JobRecord) -> int:
    rested = sum((end - start for start, end in _pauses(connection, job)), timedelta())
    return round(rested.total_seconds() * 1000)


def _pauses(connection: Connection, job: JobRecord) -> list[tuple[datetime, datetime]]:
    """Return the times between each end of the job and the next continuation."""
    found: list[tuple[datetime, datetime]] = []
    ended = None
    # The row of a job holds only its last end, so the earlier ends are read from the events
    for kind, at in events.times(connection, job.id, ("done", "job.continued")):
        if kind == "done":
            ended = at
        elif ended is not None:
            found.append((ended, at))
            ended = None
    return found
