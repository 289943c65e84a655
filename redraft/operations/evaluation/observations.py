"""Exports and counts observations: the ranked sources that accepted answers cite."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime

from redraft.domain.grounding.observations import ObservedSource, RankReport, report_ranks
from redraft.errors import Invalid
from redraft.operations.resource_base import Moment, Resource, json_line
from redraft.operations.services import Services
from redraft.storage.admin import observations
from redraft.storage.admin.observations import ObservationFilter, ObservationRecord

_PAGE = 50


class Observation(Resource):
    """One accepted answer, with its ranked sources and citations."""

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
        """One line of JSON."""
        return json_line(self)


def export(
    services: Services, criteria: ObservationFilter, *, after: str | None = None, limit: int | None = None
) -> Iterator[list[Observation]]:
    """All matching observations, oldest first, in pages. No connection is held between two pages.

    Args:
        services: the services.
        criteria: the filter.
        after: the id of the last observation that the caller has.
        limit: the maximum number; None for all.

    Raises:
        Invalid: there is no observation `after`.
    """
    # Connects also without `after`: an error must come before the response has begun
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
    """The report on cited ranks; it reads a hundred observations at a time."""
    with services.database.read() as connection:
        found = observations.stream_sources(connection, criteria)
        return report_ranks([ObservedSource(**each) for each in sources] for sources in found)
