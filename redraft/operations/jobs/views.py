"""The views of a job on its pages; each is one short read transaction with a fixed number of queries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from redraft.domain.jobs.intervals import Interval, covered
from redraft.errors import NotFound
from redraft.operations.jobs import iterations, queries
from redraft.operations.jobs.iterations import CriteriaMatrix, Iteration
from redraft.operations.jobs.job_facts import JobFacts, facts_of
from redraft.operations.jobs.resources import (
    Call,
    Event,
    Job,
    Rating,
    WebhookDelivery,
    call_resource,
    call_status,
    delivery_resource,
    event_resource,
    rating_resource,
)
from redraft.operations.jobs.resources import job_resource as job_of
from redraft.operations.resource_base import cost_usd
from redraft.operations.services import Services
from redraft.storage.admin import ratings
from redraft.storage.jobs import calls, events, history, webhooks

CALLS_MAX = 500
EVENTS_MAX = 500


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
class CallLine:
    """A call without its request and its response."""

    id: str
    type: str
    iteration: int
    candidate: int
    model: str
    attempt: int
    status: str
    cached: bool
    http_status: int | None
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: str | None
    latency_ms: int | None
    error: Mapping[str, Any] | None
    started_at: datetime
    finished_at: datetime | None

    @property
    def interval(self) -> Interval:
        """Start and end in seconds since the epoch, by the stored latency, so that chart and number agree."""
        start = self.started_at.timestamp()
        if self.latency_ms is not None:
            return start, start + self.latency_ms / 1000
        end = self.finished_at or datetime.now(UTC)
        return start, max(start, end.timestamp())


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


def view_job(services: Services, job_id: str) -> JobView:
    """The job alone. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record = queries.record_of(connection, job_id)
        facts = facts_of(connection, record)
    return JobView(job_of(record), record.event_seq, facts)


def view_request(services: Services, job_id: str) -> RequestView:
    """The job, with the requests of its continuations. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record = queries.record_of(connection, job_id)
        facts = facts_of(connection, record)
        continued = events.of_types(connection, job_id, ("job.continued",)) if record.continuations else []
    return RequestView(job_of(record), record.event_seq, facts, [event_resource(each) for each in continued])


def view_history(services: Services, job_id: str) -> HistoryView:
    """The job, with its iterations and the ratings of their evaluations. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record = queries.record_of(connection, job_id)
        written = queries.iterations_of(connection, record)
        matrix = iterations.criteria_matrix(history.of(connection, record))
        rated = [rating_resource(each) for each in ratings.of_job(connection, job_id)]
        facts = facts_of(connection, record)
    return HistoryView(job_of(record), record.event_seq, facts, written, matrix, rated)


def view_calls(services: Services, job_id: str) -> CallsView:
    """The job, with its calls but without their texts. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record = queries.record_of(connection, job_id)
        rows = calls.lines_of_job(connection, job_id, CALLS_MAX + 1)
        facts = facts_of(connection, record)
    lines = [_line(row) for row in rows[:CALLS_MAX]]
    return CallsView(job_of(record), record.event_seq, facts, lines, len(rows) > CALLS_MAX)


def _line(row: Mapping[str, Any]) -> CallLine:
    rest = {name: value for name, value in row.items() if name not in {"status", "cost_nano_usd"}}
    return CallLine(**rest, status=call_status(row["status"]), cost_usd=cost_usd(row["cost_nano_usd"]))


def view_call(services: Services, job_id: str, call_id: str) -> CallView:
    """The job, with one call. Raises NotFound if there is no such job, or no such call of it."""
    with services.database.read() as connection:
        record = queries.record_of(connection, job_id)
        row = calls.get(connection, job_id, call_id)
        facts = facts_of(connection, record)
    if row is None:
        raise NotFound("call", call_id)
    return CallView(job_of(record), record.event_seq, facts, call_resource(row))


def view_events(services: Services, job_id: str, after: int = 0) -> EventsView:
    """The job, with its events after a number, and their deliveries to its webhook.

    Raises NotFound if there is no such job.
    """
    with services.database.read() as connection:
        record = queries.record_of(connection, job_id)
        found = events.after(connection, job_id, after, EVENTS_MAX + 1)
        sent = webhooks.list_of(connection, job_id) if record.request.get("webhook") else []
        facts = facts_of(connection, record)
    return EventsView(
        job_of(record),
        record.event_seq,
        facts,
        [event_resource(each) for each in found[:EVENTS_MAX]],
        len(found) > EVENTS_MAX,
        [delivery_resource(each) for each in sent],
    )
