"""Ratings: a person's verdict on an evaluation, and what many of them tell of an evaluator."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from pydantic import BaseModel, Field

from api.dependencies import ServicesOf
from api.description import answers
from api.http.bodies import StrictRoute
from api.http.parameters import Time
from api.http.responses import render
from redraft.domain.bodies.fields import Fraction
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.operations.evaluation import ratings
from redraft.operations.evaluation.ratings import CalibrationGroup, Rating, RatingFilter

router = APIRouter(prefix="/v1", tags=["ratings"], route_class=StrictRoute)

WITHOUT_KEYS = "local"


class RatingList(BaseModel):
    """Oldest first; of one rater on one thing the last one counts."""

    data: list[Rating]


class CalibrationReport(BaseModel):
    """One entry per evaluator, profile, version and criterion, those with the most ratings first."""

    data: list[CalibrationGroup]
    left_out: int = Field(description="Groups with fewer ratings than all that are shown; narrow the query for them.")


class CalibrationQuery(BaseModel):
    """Which ratings are looked at, and what a threshold is to reach."""

    evaluator_model: str | None = Field(None, max_length=220, description="As provider:name.")
    profile: str | None = Field(None, max_length=80)
    profile_version: str | None = Field(None, max_length=16)
    criterion: str | None = Field(None, max_length=64, description="A criterion's id; without it: all of them.")
    precision: Fraction = Field(0.9, description="The share that people shall pass of what the threshold accepts.")
    created_after: Time | None = Field(None, description="Of the ratings.")
    created_before: Time | None = None

    def as_filter(self) -> RatingFilter:
        return RatingFilter(**self.model_dump(exclude={"precision"}))


async def get_rater(request: Request) -> str:
    """The API key's id: who has it is one rater."""
    return request.scope["state"].get("key_id") or WITHOUT_KEYS


@router.post(
    "/jobs/{job_id}/iterations/{number}/ratings",
    status_code=201,
    response_model=Rating,
    responses=answers(404, 413, 415, 422),
)
def rate_evaluation(
    services: ServicesOf,
    job_id: str,
    number: Annotated[int, Path(ge=1, le=1_000_000)],
    body: Annotated[RateEvaluation, Body()],
    rater: Annotated[str, Depends(get_rater)],
) -> Response:
    """Say whether an evaluation is right. Say it again to change your mind: the last word counts."""
    return render(ratings.rate(services, job_id, number, body, rater), 201)


@router.get("/jobs/{job_id}/ratings", response_model=RatingList, responses=answers(404))
def list_ratings(services: ServicesOf, job_id: str) -> Response:
    """All ratings of a job."""
    return render(RatingList(data=ratings.list_ratings(services, job_id)))


@router.get("/calibration", response_model=CalibrationReport, responses=answers(422))
def get_calibration(services: ServicesOf, query: Annotated[CalibrationQuery, Query()]) -> Response:
    """How far evaluators agree with people, and from which score on their verdicts can be trusted."""
    groups, left_out = ratings.calibration(services, query.as_filter(), precision=query.precision)
    return render(CalibrationReport(data=groups, left_out=left_out))
