"""Ratings: people's verdicts on evaluations, and how far evaluators agree with them."""

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
    """Ratings, oldest first. The last rating of one rater on one verdict or criterion counts."""


class CalibrationReport(Listed[CalibrationGroup]):
    """One group per evaluator, profile, version and criterion. Groups with the most ratings come first."""

    left_out: int = Field(description="The number of groups that are not shown. Narrow the query to get them.")


class CalibrationQuery(BaseModel):
    """The filter of ratings, and the precision that a threshold must reach."""

    evaluator_model: str | None = Field(None, max_length=220, description="As provider:name.")
    profile: str | None = Field(None, max_length=80)
    profile_version: str | None = Field(None, max_length=16)
    criterion: str | None = Field(None, max_length=64, description="The id of a criterion; by default all.")
    precision: Fraction = Field(0.9, description="The share of accepted answers that people must pass.")
    created_after: Time | None = Field(None, description="The time of the rating.")
    created_before: Time | None = None


async def get_rater(request: Request) -> str:
    # All people with one API key are one rater
    return request.scope["state"].get("key_id") or WITHOUT_KEYS


@router.post("/jobs/{job_id}/iterations/{number}/ratings", status_code=201, response_model=Rating)
def rate_evaluation(
    services: ServicesOf,
    job_id: str,
    number: Annotated[int, Path(ge=1, le=ITERATION_MAX)],
    body: Annotated[RateEvaluation, Body()],
    rater: Annotated[str, Depends(get_rater)],
) -> Response:
    """Rate an evaluation. A later rating of the same evaluation replaces an earlier one."""
    return render(ratings.rate(services, job_id, number, body, rater), 201)


@router.get("/jobs/{job_id}/ratings", response_model=RatingList)
def list_ratings(services: ServicesOf, job_id: str) -> Response:
    """List the ratings of a job."""
    return render(RatingList(data=ratings.list_ratings(services, job_id)))


@router.get("/calibration", response_model=CalibrationReport)
def get_calibration(services: ServicesOf, query: Annotated[CalibrationQuery, Query()]) -> Response:
    """Measure how far evaluators agree with people, and from which score their verdicts are reliable."""
    criteria = RatingFilter(**query.model_dump(exclude={"precision"}))
    groups, left_out = ratings.calibration(services, criteria, precision=query.precision)
    return render(CalibrationReport(data=groups, left_out=left_out))
