"""The page `/settings/keys`, which lists, creates and revokes API keys. It shows the token of a new key once."""

import json
from collections.abc import Mapping

from fastapi import Request, Response

from api.dependencies import ContextOf, ServicesOf
from api.pages.parts.forms import Form, FormOf, new_token
from api.pages.parts.rendering import page, pages_router, see_other
from redraft.domain.admin.scopes import DEFAULT_SCOPES, Scope
from redraft.errors import Conflict, existing
from redraft.operations.admin import keys
from redraft.operations.admin.keys import NAME_CHARS_MAX
from redraft.operations.services import Services

router = pages_router("/settings/keys")

_DAY_S = 86_400.0
_LIFETIMES = {
    "": "never",
    "1": "in a day",
    "7": "in 7 days",
    "30": "in 30 days",
    "90": "in 90 days",
    "365": "in a year",
}
_MEANINGS = {
    Scope.READ: "read all data",
    Scope.WRITE: "submit, change and delete",
    Scope.METRICS: "read /metrics only",
    Scope.ADMIN: "keys and configuration",
}
_EMPTY = Form({"scope": sorted(DEFAULT_SCOPES), "days": ["90"]})


@router.get("")
def show_keys(request: Request, context: ContextOf) -> Response:
    return _keys_page(request, context.services)


@router.post("")
def create_key(request: Request, services: ServicesOf, form: FormOf) -> Response:
    if errors := _errors(form):
        return _keys_page(request, services, form, errors=errors, status=422)
    try:
        return _keys_page(request, services, created=_create(services, form), status=201)
    except Conflict as error:
        return _keys_page(request, services, trouble=error.message, status=409)


@router.get("/revoke")
def ask_to_revoke(request: Request, services: ServicesOf, key_id: str) -> Response:
    key = existing(next((each for each in keys.list_keys(services) if each["id"] == key_id), None), "key", key_id)
    return page(request, "settings/revoke_key.html", key=key, own_id=request.scope["state"].get("key_id"))


@router.post("/revoke")
def revoke_key(services: ServicesOf, form: FormOf) -> Response:
    keys.revoke_key(services, form.text("key_id"))
    return see_other("/settings/keys", notice="key_revoked")


def _errors(form: Form) -> Mapping[str, str]:
    scopes = set(form.texts("scope"))
    rules = {
        "name": (0 < len(form.text("name")) <= NAME_CHARS_MAX, f"Enter a purpose of 1 to {NAME_CHARS_MAX} characters."),
        "days": (form.text("days") in _LIFETIMES, "Choose one of the lifetimes."),
        "scope": (scopes and scopes <= set(Scope), "Choose at least one of the scopes."),
    }
    return {name: words for name, (holds, words) in rules.items() if not holds}


def _create(services: Services, form: Form) -> Mapping[str, object]:
    name, scopes, days = form.text("name"), sorted(set(form.texts("scope"))), form.text("days")
    # Two clicks on the button create one key. If the form is edited and sent again, it creates another key
    once = json.dumps([form.text("token") or new_token(), name, scopes, days])
    lifetime_s = float(days) * _DAY_S if days else None
    key, token = keys.create_key(services, name, map(Scope, scopes), lifetime_s=lifetime_s, once=once)
    return {**key, "token": token}


def _keys_page(
    request: Request,
    services: Services,
    form: Form = _EMPTY,
    *,
    errors: Mapping[str, str] | None = None,
    created: Mapping[str, object] | None = None,
    trouble: str | None = None,
    status: int = 200,
) -> Response:
    return page(
        request,
        "settings/keys.html",
        status,
        keys=keys.list_keys(services)[::-1],
        own_id=request.scope["state"].get("key_id"),
        is_auth_required=services.settings.is_auth_required,
        form=form,
        errors=errors or {},
        created=created,
        trouble=trouble,
        form_token=new_token(),
        lifetimes=_LIFETIMES,
        meanings=_MEANINGS,
    )
