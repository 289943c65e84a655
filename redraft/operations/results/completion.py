"""Stores what follows from the end of a job, in the unit of work that ends the job."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection

from redraft.domain.grounding.observations import observe_sources
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import AnyRequest
from redraft.domain.jobs.states import JobKind, StopReason
from redraft.operations.request_views import readable_request
from redraft.operations.results.job_results import best_candidate
from redraft.operations.services import Services
from redraft.storage.admin import observations
from redraft.storage.bulk import run_items
from redraft.storage.engine.columns import database_time
from redraft.storage.engine.statements import Change, run
from redraft.storage.jobs import calls, events, history, transitions
from redraft.storage.jobs.history import IterationRecord
from redraft.storage.jobs.jobs import JobRecord

_OBSERVED = frozenset({JobKind.GENERATE_ANSWER.value, JobKind.EVALUATE_ANSWER.value})


def complete(connection: Connection, job: JobRecord, values: Mapping[str, Any] | None) -> None:
    """If the column values end the job, store its observation, and the status of its item in a run.

    An answered job is complete when its answer is evaluated. The caller has stored the last evaluations. `job` is the
    record of the job before the end.
    """
    if values is None or not is_end(values):
        return
    observe(connection, job, values)
    for change in item_changes(job, values):
        run(connection, change.statement, change.values)


def item_changes(job: JobRecord, values: Mapping[str, Any]) -> list[Change]:
    """Return the change of the run's item for a combined statement; empty if the column values do not end its job."""
    return [run_items.end_change(job.id, values["status"])] if job.run_id is not None and is_end(values) else []


def announce(services: Services, job: JobRecord, *, has_ended: bool) -> None:
    """Notify the clients that wait for a job. If it has ended, export its trace. The caller has committed.

    If an item of a run has ended, the scheduler of this process starts the next item.
    """
    services.queue.wake(job.id)
    if has_ended and job.run_id is not None:
        services.database.changed_tables["runs"].set()
    if has_ended and services.traces is not None:
        services.traces.export(job.id, job.continuations)


def is_end(values: Mapping[str, Any]) -> bool:
    """Whether these column values end a job. An answered job ends with the verdict on its answer."""
    return values.get("stop_reason") not in {None, StopReason.ANSWERED}


def is_observed(job: JobRecord, values: Mapping[str, Any]) -> bool:
    """Whether the column values end the job with an accepted answer, and its sources have ranks."""
    return values.get("stop_reason") == StopReason.ACCEPTED and _has_ranked_sources(job)


def observe(connection: Connection, job: JobRecord, values: Mapping[str, Any]) -> None:
    """Store the observation of a job that `is_observed`."""
    if not is_observed(job, values):
        return
    returned = best_candidate(history.iterations_of(connection, job), values["result"]["best_iteration"])
    request = readable_request(job)
    # If a continuation has changed the sources, the request lacks the sources that the answer cites
    if returned is not None and request is not None and not _has_other_sources(connection, job, returned.number):
        observations.add(connection, _row(job, request, returned))


def _has_ranked_sources(job: JobRecord) -> bool:
    sources = job.request.get("sources") or ()
    return job.kind in _OBSERVED and any(source.get("relevance_score") is not None for source in sources)


def _has_other_sources(connection: Connection, job: JobRecord, number: int) -> bool:
    """Whether a continuation has changed the sources since this iteration was written."""
    if number >= job.first_iteration:
        return False
    has_changed = False
    for each in events.of_types(connection, job.id, ("iteration.started", "job.continued")):
        if each.type == "job.continued":
            has_changed = has_changed or each.data.get("sources") is not None
        # The iteration began with the sources of this time, so only later changes count
        elif each.data["iteration"] == number:
            has_changed = False
    return has_changed


def _row(job: JobRecord, request: AnyRequest, record: IterationRecord) -> dict[str, Any]:
    verdict = record.evaluation
    is_asked_to_cite = request.grounds is not None and request.grounds.include_citations
    found = record.grounding
    used = found["sources_used"] if found is not None and is_asked_to_cite else None
    return {
        "id": new_id("observation"),
        "job_id": job.id,
        "iteration": record.number,
        "candidate": record.candidate,
        "query": request.instruct,
        "sources": [asdict(source) for source in observe_sources(request.sources, used)],
        "score": verdict and verdict.score,
        "grounding_score": found and found["grounding_score"],
        "generator_model": record.generator_model,
        "evaluator_model": verdict and verdict.evaluator_model,
        "profile": verdict.profile if verdict else request.profile,
    }


def close_orphaned_calls(connection: Connection, job: JobRecord, *, is_holder_gone: bool = False) -> None:
    """Close the calls of lost workers in the unit of work that ends their job. A live worker closes its own calls.

    `job` is the record before the end. `is_holder_gone`: the worker is lost, although its lease has not expired.
    """
    expires_at = job.lease_expires_at
    is_held = not is_holder_gone and expires_at is not None and expires_at > database_time(connection, ago_s=0)
    # The holder of a lease that has not expired closes the calls of its own token
    lost = calls.close_lost(connection, job.id, job.lease_token if is_held else job.lease_token + 1)
    transitions.add_usage(connection, job.id, lost)
