"""Reads jobs, iterations, calls and events in short read transactions."""

from dataclasses import replace

from sqlalchemy import Connection

from redraft.domain.jobs.states import TERMINAL, StopReason
from redraft.errors import NotFound, existing
from redraft.operations.cursors import next_cursor, read_cursor
from redraft.operations.jobs import iterations, resources
from redraft.operations.jobs.iterations import CriteriaMatrix, Iteration
from redraft.operations.jobs.resources import Call, Event, Job
from redraft.operations.services import Services
from redraft.storage.jobs import calls, events, history, jobs
from redraft.storage.jobs.job_filters import JobFilter
from redraft.storage.jobs.jobs import JobRecord

_TERMINAL = frozenset(status.value for status in TERMINAL)


def get_job(services: Services, job_id: str, *, with_iterations: bool = False) -> Job:
    """The resource of a job. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        record = record_of(connection, job_id)
        written = iterations_of(connection, record) if with_iterations else None
    return resources.job_resource(record, written)


def get_version(services: Services, job_id: str) -> tuple[int, bool]:
    """The version of a job, and whether the job has ended. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        version, status, _ = state_of(connection, job_id)
    return version, status in _TERMINAL


def state_of(connection: Connection, job_id: str) -> tuple[int, str, str | None]:
    """The version, status and stop reason of a job, by a cheap query. Raises NotFound if there is no such job."""
    return existing(jobs.state_of(connection, job_id), "job", job_id)


def list_jobs(services: Services, criteria: JobFilter, cursor: str | None = None) -> tuple[list[Job], str | None]:
    """One page of jobs, and the cursor of the next page; None on the last page. Raises Invalid for a bad cursor."""
    criteria = replace(criteria, after=read_cursor(cursor))
    with services.database.read() as connection:
        records = jobs.list_page(connection, criteria)
    page = records[: criteria.limit]
    return [resources.job_resource(record) for record in page], next_cursor(records, criteria.limit)


def list_iterations(services: Services, job_id: str, number: int | None = None) -> list[Iteration]:
    """All candidates of a job, or of one iteration. Raises NotFound if the job or the iteration does not exist."""
    with services.database.read() as connection:
        found = iterations_of(connection, record_of(connection, job_id), number)
    if number is not None and not found:
        raise NotFound("iteration", f"{job_id}/{number}")
    return found


def iterations_of(connection: Connection, job: JobRecord, number: int | None = None) -> list[Iteration]:
    """The resources of all candidates of a job, or of one iteration. Three queries suffice for any number of them."""
    records = history.iterations_of(connection, job, number)
    # A rescoring job shows only its own evaluations
    ids = [] if job.rescored_job_id else [record.id for record in records]
    further = history.evaluations_outside_loop(connection, ids)
    usage = calls.usage_by_attempt(connection, job.id)
    return [
        iterations.iteration_resource(
            record,
            usage.get((record.number, record.candidate), {}),
            [each for iteration_id, each in further if iteration_id == record.id],
        )
        for record in records
    ]


def criteria_matrix(services: Services, job_id: str) -> CriteriaMatrix:
    """The table that shows which iteration met which criterion. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        records = history.iterations_of(connection, record_of(connection, job_id))
    return iterations.criteria_matrix(records)


def record_of(connection: Connection, job_id: str) -> JobRecord:
    """The record of a job. Raises NotFound if there is no such job."""
    return existing(jobs.get(connection, job_id), "job", job_id)


def list_calls(services: Services, job_id: str, *, full: bool = False) -> list[Call]:
    """The calls of a job in the ledger. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        state_of(connection, job_id)
        rows = calls.of_job(connection, job_id)
    return [resources.call_resource(row, full=full) for row in rows]


def get_call(services: Services, job_id: str, call_id: str, *, full: bool = False) -> Call:
    """One call in the ledger. Raises NotFound if the job has no such call."""
    with services.database.read() as connection:
        row = calls.get(connection, job_id, call_id)
    return resources.call_resource(existing(row, "call", call_id), full=full)


def list_events(services: Services, job_id: str, after: int, limit: int = 1000) -> tuple[list[Event], bool]:
    """The events with a number above `after`, and whether the job has ended and gets no further events.

    Raises NotFound if there is no such job.
    """
    with services.database.read() as connection:
        _, status, stop_reason = state_of(connection, job_id)
        records = events.after(connection, job_id, after, limit)
        is_over = status in _TERMINAL and stop_reason != StopReason.ANSWERED and len(records) < limit
        # A late worker may have recorded calls after the end. The last event must show the same usage as the job
        job = record_of(connection, job_id) if is_over and records else None
    return [resources.event_resource(each, job if each is records[-1] else None) for each in records], is_over
