"""Routes for generator templates: read, save and preview them."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Response
from pydantic import BaseModel, Field

from api.dependencies import ServicesOf
from api.http.bodies import StrictRoute
from api.http.parameters import Listed
from api.http.responses import render
from api.openapi import problems_of
from redraft.domain.bodies.fields import StrictModel, Text
from redraft.domain.jobs.variables import Variables
from redraft.operations.admin import generator_templates
from redraft.operations.resource_base import Moment
from redraft.operations.template_lookup import find_template, list_templates
from redraft.prompts.template_files import SYSTEM, USER, GeneratorTemplate, make_template

router = APIRouter(prefix="/v1/generator-templates", tags=["templates"], route_class=StrictRoute)


class TemplateTexts(StrictModel):
    """The texts of a template."""

    system: Text = Field(description="The system prompt, with {{ system_instructions }} and {{ grounding_rules }}.")
    user: Text = Field(
        description="The task, with {{ instruct }}, {{ resp_format }}, {{ sources }}, {{ criteria }} and {{ schema }}."
    )

    def files(self) -> dict[str, str]:
        return {SYSTEM: self.system, USER: self.user}


class Template(BaseModel):
    """A version of a generator template."""

    name: str
    version: str = Field(description="A hash of the texts, in 12 hexadecimal digits.")
    reference: str = Field(description="NAME@VERSION, as in the field `generator_template` of a request.")
    origin: str = Field(description="`built-in`; `file`: from REDRAFT_TEMPLATES_DIR; `saved`: by an administrator.")
    system: str
    user: str
    variables: list[str] = Field(description="The names of `vars` that the texts use.")


class TemplateList(Listed[Template]):
    """The current version of each template, by name."""


class TemplateVersion(BaseModel):
    version: str
    saved_at: Moment


class TemplateUse(BaseModel):
    job_id: str
    last_used_at: Moment


class TemplateDetails(Template):
    versions: list[TemplateVersion] = Field(description="The stored versions, latest first.")
    used_by: list[TemplateUse] = Field(description="The latest jobs with an answer by this version, latest first.")


class PreviewTemplate(StrictModel):
    """The job for which the first prompt is built, and texts in place of those of the stored version."""

    job_id: str
    vars: Variables = Field(default={}, description="Values in addition to the job's own.")
    texts: TemplateTexts | None = Field(default=None, description="null: the stored version.")


class PromptMessage(BaseModel):
    role: str
    content: str


class TemplatePreview(BaseModel):
    """The first prompt of the generator. Nothing is sent."""

    system: str
    messages: list[PromptMessage]


@router.get("", response_model=TemplateList)
def list_generator_templates(services: ServicesOf) -> Response:
    """List the templates in REDRAFT_TEMPLATES_DIR and the saved templates."""
    return render(TemplateList(data=[Template.model_validate(_fields(each)) for each in list_templates(services)]))


@router.get("/{name}", response_model=TemplateDetails)
def get_generator_template(
    services: ServicesOf,
    name: str,
    version: Annotated[str | None, Query(max_length=16, description="By default the current version.")] = None,
) -> Response:
    """Return a template with its versions and the latest jobs that used it."""
    found = generator_templates.view_template(services, f"{name}@{version}" if version else name)
    details = {"versions": found.versions, "used_by": found.jobs}
    return render(TemplateDetails.model_validate({**_fields(found.template), **details}))


@router.put("/{name}", response_model=Template)
def save_generator_template(services: ServicesOf, name: str, body: Annotated[TemplateTexts, Body()]) -> Response:
    """Save a version of a template, which becomes the current one. Earlier versions are kept. Needs scope `admin`."""
    saved = generator_templates.save_template(services, name, body.files())
    return render(Template.model_validate(_fields(saved)))


@router.delete("/{name}", status_code=204, responses=problems_of(409))
def delete_generator_template(services: ServicesOf, name: str) -> Response:
    """Delete a saved template that no unfinished job uses. Past jobs keep their versions. Needs scope `admin`."""
    generator_templates.delete_template(services, name)
    return Response(status_code=204)


@router.post("/{name}/preview", response_model=TemplatePreview)
def preview_generator_template(services: ServicesOf, name: str, body: Annotated[PreviewTemplate, Body()]) -> Response:
    """Build the first prompt of a past job with a template. Nothing is stored or sent. Needs scope `admin`."""
    template = make_template(name, body.texts.files()) if body.texts else find_template(services, name)
    prompt = generator_templates.preview(services, template, body.job_id, body.vars)
    messages = [PromptMessage(role=each.role, content=each.content) for each in prompt.messages]
    return render(TemplatePreview(system=prompt.system, messages=messages))


def _fields(template: GeneratorTemplate) -> Mapping[str, Any]:
    return {
        "name": template.name,
        "version": template.version,
        "reference": template.reference,
        "origin": template.origin,
        "system": template.texts[SYSTEM],
        "user": template.texts[USER],
        "variables": sorted(template.variables),
    }
