"""The pages `/ratings/tunings`: examples and thresholds for evaluators, which a person adopts and reverts."""

from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json

from api.dependencies import ServicesOf
from api.pages.admin.ratings import TABS
from api.pages.parts.forms import FormOf
from api.pages.parts.rendering import page, pages_router, see_other
from redraft.errors import Conflict, Invalid
from redraft.operations.evaluation import tunings
from redraft.operations.services import Services

router = pages_router("/ratings/tunings")


@router.get("")
def show_tunings(request: Request, services: ServicesOf) -> Response:
    return _list_page(request, services)


@router.post("/{tuning_id}/adopt")
def adopt(services: ServicesOf, tuning_id: str) -> Response:
    tunings.adopt(services, tuning_id)
    return see_other("/ratings/tunings")


@router.post("/{tuning_id}/revert")
def revert(request: Request, services: ServicesOf, tuning_id: str) -> Response:
    try:
        tunings.revert(services, tuning_id)
    except Conflict as conflict:
        return _list_page(request, services, 409, error=conflict.message)
    return see_other("/ratings/tunings")


@router.post("/{tuning_id}/edit")
def edit(request: Request, services: ServicesOf, form: FormOf, tuning_id: str) -> Response:
    text = next(iter(form.texts("examples")), "")
    try:
        tunings.edit(services, tuning_id, text)
    except Invalid as error:
        return _list_page(request, services, 422, error=error.message, edited={tuning_id: text})
    return see_other("/ratings/tunings")


def _list_page(request: Request, services: Services, status: int = 200, **shown: Any) -> Response:
    found = tunings.list_tunings(services)
    texts = {each.id: to_json(each.examples, indent=2).decode() for each in found}
    context: dict[str, Any] = {"error": "", "edited": {}, **shown}
    return page(request, "ratings/tunings.html", status, tunings=found, texts=texts, tabs=TABS, **context)
