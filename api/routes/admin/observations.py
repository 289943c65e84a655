"""Observations: what accepted answers cite of ranked sources, as lines of JSON and as a report."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from api.dependencies import ServicesOf
from api.description import answers
from api.http.bodies import StrictRoute
from api.http.parameters import Time
from api.http.responses import render
from redraft.domain.grounding.observations import MeanScores, RankShare
from redraft.operations.evaluation import observations
from redraft.operations.evaluation.observations import Observation, ObservationFilter

router = APIRouter(prefix="/v1/observations", tags=["observations"], route_class=StrictRoute)

# The second one for those who ask for text: generators of clients do not know the first.
_MEDIA_TYPES = ("application/x-ndjson", "text/plain")

_LINES = "One observation per line, oldest first; no line when there is none. A line holds: "


class RankList(BaseModel):
    """Which ranks get cited; rank 1 is the source with the highest relevance score."""

    observations: int = Field(description="Accepted answers that this rests on.")
    left_out: int = Field(description="Further ones whose citations are not read, as those of structured answers.")
    observations_needed: int = Field(description="With fewer it is too little to conclude from.")
    mean_relevance_score: MeanScores
    ranks: list[RankShare]


class ObservationQuery(BaseModel):
    """Which observations are looked at."""

    job_id: str | None = Field(None, max_length=40)
    created_after: Time | None = None
    created_before: Time | None = None

    def as_filter(self) -> ObservationFilter:
        return ObservationFilter(self.job_id, self.created_after, self.created_before)


class ExportQuery(ObservationQuery):
    after: str | None = Field(None, max_length=40, description="The id of the last observation that you have.")
    limit: int | None = Field(None, ge=1, le=1_000_000, description="Without it: all.")


@router.get(
    "",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": _LINES + ", ".join(Observation.model_fields) + ".",
            "content": {name: {"schema": {"type": "string"}} for name in _MEDIA_TYPES},
        },
        **answers(422),
    },
)
def export_observations(request: Request, services: ServicesOf, query: Annotated[ExportQuery, Query()]) -> Response:
    """What accepted answers cite of the sources that came with a `relevance_score`."""
    wants_text = "text/plain" in request.headers.get("accept", "")
    pages = observations.export(services, query.as_filter(), after=query.after, limit=query.limit)
    return StreamingResponse(
        ("".join(each.as_line() for each in page) for page in pages), media_type=_MEDIA_TYPES[wants_text]
    )


@router.get("/ranks", response_model=RankList, responses=answers(422))
def get_ranks(services: ServicesOf, query: Annotated[ObservationQuery, Query()]) -> Response:
    """How often sources of each rank were cited in accepted answers."""
    found = observations.rank_report(services, query.as_filter())
    return render(RankList.model_validate(found, from_attributes=True))
