"""What a job has done: its iterations and its model calls."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel

from api.dependencies import ServicesOf
from api.description import answers
from api.http.bodies import StrictRoute
from api.http.responses import render
from redraft.operations.jobs import diffs, queries
from redraft.operations.jobs.diffs import AnswerDiff
from redraft.operations.jobs.iterations import CriteriaMatrix, Iteration
from redraft.operations.jobs.resources import Call

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["history"], route_class=StrictRoute)

Full = Annotated[bool, Query(description="Whole texts; without it those over 256 KB are cut.")]


class IterationList(BaseModel):
    """Iterations in order; one that had several candidates has an entry for each."""

    data: list[Iteration]


class CallList(BaseModel):
    """The ledger, oldest first; retries and failures are calls too."""

    data: list[Call]


@router.get("/iterations", response_model=IterationList, responses=answers(404))
def list_iterations(services: ServicesOf, job_id: str) -> Response:
    """All iterations with their evaluations."""
    return render(IterationList(data=queries.list_iterations(services, job_id)))


@router.get("/iterations/{number}", response_model=IterationList, responses=answers(404, 422))
def get_iteration(services: ServicesOf, job_id: str, number: Annotated[int, Path(ge=1, le=1_000_000)]) -> Response:
    """One iteration: a list of its candidates, of one entry unless the job asked for several."""
    return render(IterationList(data=queries.list_iterations(services, job_id, number)))


@router.get("/criteria", response_model=CriteriaMatrix, responses=answers(404))
def get_criteria(services: ServicesOf, job_id: str) -> Response:
    """Iteration by criterion: which attempt met what, and what was met before and lost again."""
    return render(queries.criteria_matrix(services, job_id))


@router.get("/diff", response_model=AnswerDiff, responses=answers(404, 422))
def get_diff(
    services: ServicesOf,
    job_id: str,
    old: Annotated[int, Query(alias="from", ge=1, le=1_000_000, description="An iteration's number.")],
    new: Annotated[int, Query(alias="to", ge=1, le=1_000_000, description="Another one's.")],
) -> Response:
    """What changed between the answers of two iterations, word by word."""
    return render(diffs.diff(services, job_id, old, new))


@router.get("/calls", response_model=CallList, responses=answers(404, 422))
def list_calls(services: ServicesOf, job_id: str, full: Full = False) -> Response:  # noqa: FBT002
    """Every request to a model provider, with all it cost."""
    return render(CallList(data=queries.list_calls(services, job_id, full=full)))


@router.get("/calls/{call_id}", response_model=Call, responses=answers(404, 422))
def get_call(services: ServicesOf, job_id: str, call_id: str, full: Full = False) -> Response:  # noqa: FBT002
    """One request to a model provider."""
    return render(queries.get_call(services, job_id, call_id, full=full))
