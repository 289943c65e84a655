"""What calls to models took and cost."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from api.dependencies import ServicesOf
from api.description import answers
from api.http.bodies import StrictRoute
from api.http.parameters import Time
from api.http.responses import render
from redraft.domain.jobs.states import JobKind
from redraft.operations.admin import usage
from redraft.operations.admin.usage import DAYS_MAX, DAYS_USUAL, UsageReport

router = APIRouter(prefix="/v1/usage", tags=["catalog"], route_class=StrictRoute)


class UsageQuery(BaseModel):
    """Which calls are added up."""

    created_after: Time | None = Field(
        None, description=f"Calls that ended from then on; {DAYS_USUAL} days before the end without it."
    )
    created_before: Time | None = Field(None, description=f"Calls that ended before; at most {DAYS_MAX} days later.")
    model: str | None = Field(None, max_length=220, description="As provider:name.")
    kind: JobKind | None = Field(None, description="Calls of jobs of this kind.")


@router.get("", response_model=UsageReport, responses=answers(422))
def get_usage(services: ServicesOf, query: Annotated[UsageQuery, Query()]) -> Response:
    """Calls, tokens and cost, by day and model."""
    return render(usage.report(services, **query.model_dump()))
