"""What jobs can use: models and profiles."""

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from api.bodies import StrictRoute
from api.dependencies import ServicesOf
from api.rendering import render
from redraft.prompts.render import reply_schema

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


class Profile(BaseModel):
    """A way to evaluate."""

    name: str
    reply_schema: dict[str, Any] = Field(description="What the evaluator is made to reply with.")


class ProfileList(BaseModel):
    data: list[Profile]


@router.get("/models", response_model=ModelList)
def list_models(services: ServicesOf) -> Response:
    """The models that are known by name."""
    models = services.providers.models()
    return render(ModelList(data=[Model.model_validate(each, from_attributes=True) for each in models]))


@router.get("/profiles", response_model=ProfileList)
async def list_profiles() -> Response:
    """The profiles that `profile` may name."""
    return render(ProfileList(data=[Profile(name="criteria", reply_schema=reply_schema("criteria"))]))
