"""What jobs can use: models and profiles."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from api.dependencies import ServicesOf
from api.http.bodies import StrictRoute
from api.http.responses import render
from redraft.prompts import profiles

router = APIRouter(prefix="/v1", tags=["catalog"], route_class=StrictRoute)


class Model(BaseModel):
    """A model that a job may name."""

    id: str = Field(examples=["openai:gpt-6-luna"])
    provider: str
    configured: bool = Field(description="Whether calls can be made: a key is set, or none is needed.")
    default: bool
    note: str


class ModelList(BaseModel):
    """One model per provider and the default one; other names of a provider can be used as well."""

    data: list[Model]


class Templates(BaseModel):
    """The prompts, as written: what stands in braces is filled in, and never taken for a template itself."""

    system: str
    user: str
    rubric_system: str | None = Field(
        default=None, description="For criteria that are evaluated one by one; null: never."
    )
    rubric_user: str | None = None


class Profile(BaseModel):
    """A way to evaluate, with all that makes it: what is said to the evaluator, and how its reply is read."""

    name: str
    version: str = Field(
        description="Of the files' contents, in 12 hex digits: another version may evaluate differently."
    )
    title: str
    description: str
    built_in: bool
    needs: list[str] = Field(description="The fields of a request without which it cannot evaluate.")
    sees: list[str] = Field(description="The fields of a request that the evaluator is shown beside the answer.")
    source_chars: int | None = Field(description="How much of each source is shown; null: all of it.")
    media: bool = Field(description="Whether images are left in what it sees.")
    files: dict[str, str] = Field(description="The SHA-256 of each file.")
    templates: Templates
    reply_schema: dict[str, Any] = Field(description="What the evaluator is made to reply with; no rubric given.")
    mapping: dict[str, str | list[str] | bool] = Field(description="Which field of the reply says what.")


class ProfileList(BaseModel):
    data: list[Profile]


@router.get("/models", response_model=ModelList)
def list_models(services: ServicesOf) -> Response:
    """The models that are known by name."""
    models = services.providers.models()
    return render(ModelList(data=[Model.model_validate(each, from_attributes=True) for each in models]))


@router.get("/profiles", response_model=ProfileList)
async def list_profiles(services: ServicesOf) -> Response:
    """The profiles that `profile` may name: the built-in ones, then those of REDRAFT_PROFILES_DIR."""
    return render(ProfileList(data=[_profile(each) for each in services.profiles.all()]))


def _profile(profile: profiles.Profile) -> Profile:
    return Profile.model_validate({**asdict(profile), "built_in": profile.is_built_in})
