"""Exports and counts observations. An observation records which ranked sources an accepted answer cites."""

from collections.abc import Iterator
from datetime import datetime
from math import inf

from redraft.domain.grounding.observations import ObservedSource, RankReport, report_ranks
from redraft.errors import Invalid
from redraft.operations.resource_base import Moment, Resource, json_line
from redraft.operations.services import Services
from redraft.storage.admin import observations
from redraft.storage.admin.observations import ObservationFilter

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
        return json_line(self)


def export(
    services: Services, criteria: ObservationFilter, *, after: str | None = None, limit: int | None = None
) -> Iterator[list[Observation]]:
    """Yield pages of up to `limit` matching observations, oldest first, beginning after the observation `after`.

    No connection is held between two pages. Raises Invalid if there is no observation `after`.
    """
    # A generator would raise only after the response has begun, so this function reads the database before it returns
    with services.database.read() as connection:
        place = None if after is None else observations.position_of(connection, after)
        if after is not None and place is None:
            raise Invalid.at("query/after", f"There is no observation {after}.", "unknown_observation")
    return _pages(services, criteria, place, inf if limit is None else limit)


def _pages(
    services: Services, criteria: ObservationFilter, place: tuple[datetime, str] | None, left: float
) -> Iterator[list[Observation]]:
    while left > 0:
        size = int(min(_PAGE, left))
        with services.database.read() as connection:
            found = observations.list_page(connection, criteria, after=place, limit=size)
        if found:
            yield [Observation.from_row(record, final_score=record.score) for record in found]
        if len(found) < size:
            return
        place = (found[-1].created_at, found[-1].id)
        left -= size


def rank_report(services: Services, criteria: ObservationFilter) -> RankReport:
    """Report on the ranks of cited sources in all matching observations."""
    with services.database.read(is_streamed=True) as connection:
        found = observations.stream_sources(connection, criteria)
        return report_ranks([ObservedSource(**each) for each in sources] for sources in found)
