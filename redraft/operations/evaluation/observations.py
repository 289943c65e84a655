"""Observations: which of the ranked sources an accepted answer cites, kept with its end, exported and counted."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from redraft.domain.grounding.observations import ObservedSource, RankReport, observe_sources, report_ranks
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.loop import best_of
from redraft.domain.jobs.requests import AnyRequest
from redraft.domain.jobs.states import JobKind, StopReason
from redraft.errors import Invalid
from redraft.operations.jobs.request_views import readable_request
from redraft.operations.services import Services
from redraft.operations.shapes import Moment, Resource
from redraft.storage.admin import observations
from redraft.storage.admin.observations import ObservationFilter, ObservationRecord
from redraft.storage.jobs import events, history
from redraft.storage.jobs.history import IterationRecord
from redraft.storage.jobs.jobs import JobRecord

_PAGE = 50
_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
_OBSERVED = frozenset({JobKind.GENERATE_ANSWER.value, JobKind.EVALUATE_ANSWER.value})


class Observation(Resource):
    """One accepted answer, and what it made of its ranked sources."""

    id: str
    job_id: str
    iteration: int
    candidate: int
    created_at: Moment
    query: str
    sources: list[ObservedSource]
    final_score: float | None
    grounding_score: float | None
    generator_model: str | None
    evaluator_model: str | None
    profile: str

    def as_line(self) -> str:
        """One line of JSON, also for readers that end lines where Unicode does."""
        return self.model_dump_json().translate(_LINE_ENDS) + "\n"


def observe(connection: Connection, job: JobRecord, values: Mapping[str, Any] | None) -> None:
    """Keep an observation if this is how a job ends accepted; called wherever a job may end so.

    Args:
        connection: the unit of work that ends the job, after its last evaluations are stored.
        job: as it was before.
        values: the job's last columns.
    """
    if values is None or values.get("stop_reason") != StopReason.ACCEPTED or not _has_ranked_sources(job):
        return
    records = history.of(connection, job)
    number = values["result"]["best_iteration"]
    best = best_of(record.as_attempt() for record in records if record.number == number)
    place = best and (best.iteration, best.candidate)
    returned = next((record for record in records if (record.number, record.candidate) == place), None)
    request = readable_request(job)
    if returned is not None and request is not None and not _has_other_sources(connection, job, returned.number):
        observations.add(connection, _row(job, request, returned))


def _has_ranked_sources(job: JobRecord) -> bool:
    sources = job.request.get("sources") or ()
    return job.kind in _OBSERVED and any(source.get("relevance_score") is not None for source in sources)


def _has_other_sources(connection: Connection, job: JobRecord, number: int) -> bool:
    """Whether a continuation has brought other sources than those this iteration was written from."""
    if number >= job.first_iteration:
        return False
    has_changed = False
    for each in events.of_types(connection, job.id, ("iteration.started", "job.continued")):
        if each.type == "job.continued":
            has_changed = has_changed or each.data.get("sources") is not None
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


def export(
    services: Services, criteria: ObservationFilter, *, after: str | None = None, limit: int | None = None
) -> Iterator[list[Observation]]:
    """All that fit, oldest first, a page at a time; between pages no connection is held.

    Args:
        services: where they are.
        criteria: which of them.
        after: the id of the last one that the caller has.
        limit: how many at most; None: all.

    Raises:
        Invalid: there is no observation `after`.
    """
    # Read also without `after`: a database that is away is told before anything is answered
    with services.database.read() as connection:
        place = None if after is None else observations.place_of(connection, after)
        if after is not None and place is None:
            raise Invalid.at("query/after", f"There is no observation {after}.", "unknown_observation")
    return _pages(services, criteria, place, limit)


def _pages(
    services: Services, criteria: ObservationFilter, place: tuple[datetime, str] | None, left: int | None
) -> Iterator[list[Observation]]:
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        with services.database.read() as connection:
            found = observations.list_page(connection, criteria, after=place, limit=size)
        if found:
            yield [_shown(record) for record in found]
        if len(found) < size:
            return
        place = (found[-1].created_at, found[-1].id)
        left = None if left is None else left - size


def _shown(record: ObservationRecord) -> Observation:
    names = [field.name for field in fields(record) if field.name != "score"]
    return Observation(final_score=record.score, **{name: getattr(record, name) for name in names})


def rank_report(services: Services, criteria: ObservationFilter) -> RankReport:
    """Which ranks get cited; a hundred observations at a time are in memory, however many there are."""
    with services.database.read() as connection:
        found = observations.stream_sources(connection, criteria)
        return report_ranks([ObservedSource(**each) for each in sources] for sources in found)
