"""Routes for ratings, which are people's verdicts on evaluations, and for the calibration of evaluators."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from pydantic import BaseModel, Field

from api.dependencies import ServicesOf
from api.http.bodies import StrictRoute
from api.http.parameters import ITERATION_MAX, Listed, Time
from api.http.responses import render
from redraft.domain.bodies.fields import Fraction
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.operations.evaluation import ratings
from redraft.operations.evaluation.ratings import CalibrationGroup, Rating, RatingFilter

router = APIRouter(prefix="/v1", tags=["ratings"], route_class=StrictRoute)

WITHOUT_KEYS = "local"


class RatingList(Listed[Rating]):
    """Ratings, oldest first. The last rating of each rater counts, for an evaluation or a criterion."""


class CalibrationReport(Listed[CalibrationGroup]):
    """One group for each evaluator, profile, version and criterion. Groups with the most ratings come first."""

    left_out: int = Field(description="The number of groups that are not in `data`. A narrower query returns them.")


class CalibrationQuery(BaseModel):
    """The filter for ratings, and the precision that a proposed threshold must reach."""

    evaluator_model: str | None = Field(None, max_length=220, description="As provider:name.")
    profile: str | None = Field(None, max_length=80)
    profile_version: str | None = Field(None, max_length=16)
    criterion: str | None = Field(None, max_length=64, description="The id of a criterion; by default all criteria.")
    precision: Fraction = Field(
        0.9,
        description="The minimum precision: of the answers at or above the proposed threshold, people must have "
        "passed this share.",
    )
    created_after: Time | None = Field(None, description="Ratings at this time or later.")
    created_before: Time | None = Field(None, description="Ratings before this time.")


async def get_rater(request: Request) -> str:
    # All people who share an API key count as one rater
    return request.scope["state"].get("key_id") or WITHOUT_KEYS


@router.post("/jobs/{job_id}/iterations/{number}/ratings", status_code=201, response_model=Rating)
def rate_evaluation(
    services: ServicesOf,
    job_id: str,
    number: Annotated[int, Path(ge=1, le=ITERATION_MAX)],
    body: Annotated[RateEvaluation, Body()],
    rater: Annotated[str, Depends(get_rater)],
) -> Response:
    """Rate an evaluation. A later rating of the same evaluation by the same rater replaces the earlier rating."""
    return render(ratings.rate(services, job_id, number, body, rater), 201)


@router.get("/jobs/{job_id}/ratings", response_model=RatingList)
def list_ratings(services: ServicesOf, job_id: str) -> Response:
    """List the ratings of a job's evaluations."""
    return render(RatingList(data=ratings.list_ratings(services, job_id)))


@router.get("/calibration", response_model=CalibrationReport)
def get_calibration(services: ServicesOf, query: Annotated[CalibrationQuery, Query()]) -> Response:
    """Measure how far evaluators agree with people, and propose score thresholds."""
    criteria = RatingFilter(**query.model_dump(exclude={"precision"}))
    groups, left_out = ratings.calibration(services, criteria, precision=query.precision)
    return render(CalibrationReport(data=groups, left_out=left_out))
