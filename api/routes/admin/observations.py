"""Routes for observations: the ranked sources that accepted answers cite, as JSON lines and as a report."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.responses import StreamingResponse

from api.dependencies import ServicesOf
from api.http.bodies import StrictRoute
from api.http.parameters import Time
from redraft.domain.grounding.observations import RankReport
from redraft.operations.evaluation import observations
from redraft.operations.evaluation.observations import Observation, ObservationFilter

router = APIRouter(prefix="/v1/observations", tags=["observations"], route_class=StrictRoute)

# Generated clients do not support the first media type, so they request the second
_MEDIA_TYPES = ("application/x-ndjson", "text/plain")


class ObservationQuery(BaseModel):
    """The filter for observations."""

    job_id: str | None = Field(None, max_length=40)
    created_after: Time | None = None
    created_before: Time | None = None

    def as_filter(self) -> ObservationFilter:
        return ObservationFilter(self.job_id, self.created_after, self.created_before)


class ExportQuery(ObservationQuery):
    after: str | None = Field(None, max_length=40, description="The id of the last observation that the client has.")
    limit: int | None = Field(
        None, ge=1, le=1_000_000, description="The maximum number of observations; by default no limit."
    )


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
    """Export the observations: which of its ranked sources each accepted answer cites."""
    wants_text = "text/plain" in request.headers.get("accept", "")
    pages = observations.export(services, query.as_filter(), after=query.after, limit=query.limit)
    return StreamingResponse(
        ("".join(each.as_line() for each in page) for page in pages), media_type=_MEDIA_TYPES[wants_text]
    )


@router.get("/ranks", response_model=RankReport)
def get_ranks(services: ServicesOf, query: Annotated[ObservationQuery, Query()]) -> Response:
    """Count how often accepted answers cite the sources of each rank."""
    found = observations.rank_report(services, query.as_filter())
    return Response(to_json(found), media_type="application/json")
