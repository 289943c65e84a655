"""Observations: the ranked sources that accepted answers cite, as lines of JSON and as a report."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from api.dependencies import ServicesOf
from api.http.bodies import StrictRoute
from api.http.parameters import Time
from api.http.responses import render
from redraft.domain.grounding.observations import MeanScores, RankShare
from redraft.operations.evaluation import observations
from redraft.operations.evaluation.observations import Observation, ObservationFilter

router = APIRouter(prefix="/v1/observations", tags=["observations"], route_class=StrictRoute)

# Generated clients do not know the first media type: they ask for the second
_MEDIA_TYPES = ("application/x-ndjson", "text/plain")


class RankList(BaseModel):
    """How often each rank is cited. Rank 1 is the source with the highest relevance score."""

    observations: int = Field(description="The number of accepted answers that were counted.")
    left_out: int = Field(description="The number of answers without citations that can be read: structured answers.")
    observations_needed: int = Field(description="Fewer observations allow no conclusion.")
    mean_relevance_score: MeanScores
    ranks: list[RankShare]


class ObservationQuery(BaseModel):
    """The filter of observations."""

    job_id: str | None = Field(None, max_length=40)
    created_after: Time | None = None
    created_before: Time | None = None

    def as_filter(self) -> ObservationFilter:
        return ObservationFilter(self.job_id, self.created_after, self.created_before)


class ExportQuery(ObservationQuery):
    after: str | None = Field(None, max_length=40, description="The id of the client's last observation.")
    limit: int | None = Field(None, ge=1, le=1_000_000, description="By default all.")


@router.get(
    "",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One observation per line, oldest first: " + ", ".join(Observation.model_fields) + ".",
            "content": {name: {"schema": {"type": "string"}} for name in _MEDIA_TYPES},
        }
    },
)
def export_observations(request: Request, services: ServicesOf, query: Annotated[ExportQuery, Query()]) -> Response:
    """Export which sources accepted answers cite, for sources with a `relevance_score`."""
    wants_text = "text/plain" in request.headers.get("accept", "")
    pages = observations.export(services, query.as_filter(), after=query.after, limit=query.limit)
    return StreamingResponse(
        ("".join(each.as_line() for each in page) for page in pages), media_type=_MEDIA_TYPES[wants_text]
    )


@router.get("/ranks", response_model=RankList)
def get_ranks(services: ServicesOf, query: Annotated[ObservationQuery, Query()]) -> Response:
    """Count how often accepted answers cite the sources of each rank."""
    found = observations.rank_report(services, query.as_filter())
    return render(RankList.model_validate(found, from_attributes=True))
