"""Routes for models, evaluation profiles, the usage of models, and the ids of named resources."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from api.dependencies import ServicesOf
from api.http.bodies import StrictRoute
from api.http.parameters import Listed, Time
from api.http.responses import render
from api.openapi import problems_of
from redraft.domain.jobs.states import JobKind
from redraft.operations.admin import usage
from redraft.operations.admin.usage import DAYS_MAX, DAYS_USUAL, UsageReport
from redraft.operations.jobs import references

router = APIRouter(prefix="/v1", tags=["catalog"], route_class=StrictRoute)


class Model(BaseModel):
    id: str = Field(examples=["openai:gpt-6-luna"])
    provider: str
    configured: bool = Field(description="Whether the model can be called: its API key is set, or no key is needed.")
    default: bool
    note: str


class ModelList(Listed[Model]):
    """The default model, one model of each vendor, and the models of the endpoints.

    An endpoint for which the settings name no model is listed as `NAME:*`. Jobs can also name other models of these
    providers.
    """


class Templates(BaseModel):
    """The prompt templates. Values in braces are inserted as text, never as templates."""

    system: str
    user: str
    rubric_system: str | None = Field(
        default=None, description="System prompt for a rubric; null if the profile supports no rubric."
    )
    rubric_user: str | None = None


class Profile(BaseModel):
    """An evaluation profile: prompts, reply schema, and the mapping of reply fields to evaluation fields."""

    name: str
    version: str = Field(description="A hash of the files of the profile, in 12 hexadecimal digits.")
    title: str
    description: str
    built_in: bool
    needs: list[str] = Field(description="The fields that a request must have.")
    sees: list[str] = Field(description="The request fields that the evaluator gets in addition to the answer.")
    source_chars: int | None = Field(description="The maximum number of characters of each source; null: no limit.")
    media: bool = Field(description="Whether the evaluator gets images and PDFs.")
    files: dict[str, str] = Field(description="The SHA-256 of each file.")
    templates: Templates
    reply_schema: dict[str, Any] = Field(
        description="The schema of the evaluator's reply to a request without a rubric."
    )
    mapping: dict[str, str | list[str] | bool] = Field(
        description="For each field of an evaluation, the reply field that provides its value."
    )


class ProfileList(Listed[Profile]): ...


@router.get("/models", response_model=ModelList)
def list_models(services: ServicesOf) -> Response:
    """List the default model, and models of each provider and endpoint."""
    models = services.providers.models()
    return render(ModelList(data=[Model.model_validate(each, from_attributes=True) for each in models]))


@router.get("/profiles", response_model=ProfileList)
async def list_profiles(services: ServicesOf) -> Response:
    """List the built-in profiles, then the profiles in REDRAFT_PROFILES_DIR."""
    found = ({**asdict(each), "built_in": each.is_built_in} for each in services.profiles.all())
    return render(ProfileList(data=[Profile.model_validate(each) for each in found]))


class UsageQuery(BaseModel):
    """The filter for model calls."""

    created_after: Time | None = Field(
        None,
        description=f"Calls that ended at this time or later; by default {DAYS_USUAL} days before `created_before`.",
    )
    created_before: Time | None = Field(
        None,
        description=f"Calls that ended before this time, which is at most {DAYS_MAX} days after `created_after`; by "
        "default now.",
    )
    model: str | None = Field(None, max_length=220, description="As provider:name.")
    kind: JobKind | None = Field(None, description="Calls of jobs of this kind.")


@router.get("/usage", response_model=UsageReport)
def get_usage(services: ServicesOf, query: Annotated[UsageQuery, Query()]) -> Response:
    """Sum up calls, tokens and cost by day and model."""
    return render(usage.report(services, **query.model_dump()))


class FoundId(BaseModel):
    id: str


_FIND = {"job": references.find_job_id, "run": references.find_run_id, "dataset": references.find_dataset_id}


@router.get("/ids/{noun}", response_model=FoundId, responses=problems_of(409))
def find_id(
    services: ServicesOf,
    noun: Literal["job", "run", "dataset"],
    reference: Annotated[
        str,
        Query(
            max_length=500,
            description="An id or its unique beginning, a unique name (of a job: the metadata `name`), or `latest`.",
        ),
    ],
) -> Response:
    """Find the id of a job, a run or a dataset."""
    return render(FoundId(id=_FIND[noun](services, reference)))
