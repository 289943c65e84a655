"""The pages `/settings/templates`, which show, compare, preview, save and delete generator templates."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request, Response

from api.dependencies import ServicesOf
from api.pages.parts.forms import Form, FormOf
from api.pages.parts.rendering import page, pages_router, see_other
from redraft.domain.calls.conversation import Prompt
from redraft.errors import Conflict, Invalid, NotFound
from redraft.operations.admin import generator_templates
from redraft.operations.jobs import references
from redraft.operations.services import Services
from redraft.operations.template_lookup import find_template, list_templates
from redraft.prompts.template_files import STANDARD, SYSTEM, USER, built_in_templates, make_template

router = pages_router("/settings/templates")
# The texts with which a new template begins
_STARTER = built_in_templates()[STANDARD].texts


@dataclass
class _Edit:
    """The form for a new version, its errors, and the preview of its prompt."""

    name: str = ""
    system: str = _STARTER[SYSTEM]
    user: str = _STARTER[USER]
    job: str = ""
    errors: tuple[str, ...] = ()
    prompt: Prompt | None = None

    @classmethod
    def sent(cls, form: Form) -> "_Edit":
        system, user = (next(iter(form.texts(name)), "") for name in ("system", "user"))
        return cls(form.text("name"), system, user, form.text("job"))

    @property
    def files(self) -> dict[str, str]:
        return {SYSTEM: self.system, USER: self.user}


@router.get("")
def show_templates(request: Request, services: ServicesOf) -> Response:
    return _list_page(request, services, _Edit())


@router.post("")
def change_template(request: Request, services: ServicesOf, form: FormOf) -> Response:
    """Save the texts as the current version of a template, or show the prompt of a past job with these texts."""
    edit = _Edit.sent(form)
    if form.text("do") == "save" and _try(edit, lambda: _save(services, edit)):
        return see_other(f"/settings/templates/{edit.name}", notice="template_saved")
    if form.text("do") != "save":
        _try(edit, lambda: _preview(services, edit))
    return _list_page(request, services, edit)


@router.get("/{name}")
def show_template(request: Request, services: ServicesOf, name: str) -> Response:
    version, before = (request.query_params.get(each, "") for each in ("version", "from"))
    found = generator_templates.view_template(services, f"{name}@{version}" if version else name, before=before)
    texts = found.template.texts
    edit = _Edit(name, texts[SYSTEM], texts[USER], job=found.jobs[0]["job_id"] if found.jobs else "")
    return page(request, "settings/template.html", found=found, before=before, edit=edit)


@router.get("/{name}/delete")
def ask_to_delete(request: Request, services: ServicesOf, name: str) -> Response:
    return _delete_page(request, find_template(services, name).name)


@router.post("/{name}/delete")
def delete(request: Request, services: ServicesOf, name: str) -> Response:
    try:
        generator_templates.delete_template(services, name)
    except Conflict as conflict:
        return _delete_page(request, name, conflict.message)
    return see_other("/settings/templates", notice="template_deleted")


def _delete_page(request: Request, name: str, trouble: str = "") -> Response:
    return page(request, "settings/template_delete.html", 409 if trouble else 200, name=name, trouble=trouble)


def _try(edit: _Edit, act: Callable[[], None]) -> bool:
    """Do something with the texts of the form. Return whether it succeeded; otherwise the form gets the errors."""
    try:
        act()
    except Invalid as error:
        edit.errors = tuple(each.detail for each in error.errors) or (error.message,)
    except (Conflict, NotFound) as error:
        edit.errors = (error.message,)
    return not edit.errors


def _save(services: Services, edit: _Edit) -> None:
    generator_templates.save_template(services, edit.name, edit.files)


def _preview(services: Services, edit: _Edit) -> None:
    template = make_template(edit.name, edit.files)
    edit.prompt = generator_templates.preview(services, template, references.find_job_id(services, edit.job), {})


def _list_page(request: Request, services: Services, edit: _Edit) -> Response:
    status = 422 if edit.errors else 200
    folder = services.settings.templates_dir
    return page(
        request, "settings/templates.html", status, templates=list_templates(services), folder=folder, edit=edit
    )
