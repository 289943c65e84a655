"""`/settings/keys`: who may use this installation. A new key is shown once, on the page that answers its making."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request, Response

from api.dependencies import ContextOf, ServicesOf
from api.pages.parts.forms import Form, FormOf
from api.pages.parts.rendering import page, pages_router, see_other
from redraft.domain.admin.scopes import DEFAULT_SCOPES, Scope
from redraft.errors import Conflict
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
    Scope.READ: "look at everything",
    Scope.WRITE: "submit, change and delete",
    Scope.METRICS: "/metrics alone",
    Scope.ADMIN: "keys and configuration",
}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A key as it was asked for, with what is wrong by the field's name; `token`: the form's, for one key."""

    name: str
    scopes: frozenset[str]
    days: str
    errors: Mapping[str, str]
    token: str = ""

    @property
    def once(self) -> str:
        """Per form and what it says: an edited one, sent from the same page again, is another key."""
        said = [self.token or secrets.token_urlsafe(16), self.name, sorted(self.scopes), self.days]
        return json.dumps(said)


_FRESH = _Wanted("", frozenset(DEFAULT_SCOPES), "90", {})


@router.get("")
def show_keys(request: Request, context: ContextOf) -> Response:
    """All keys, and the form for a new one."""
    return _keys_page(request, context.services)


@router.post("")
def create_key(request: Request, services: ServicesOf, form: FormOf) -> Response:
    """Make a key, and show it: here, now and never again."""
    wanted = _read(form)
    if wanted.errors:
        return _keys_page(request, services, wanted, status=422)
    try:
        return _keys_page(request, services, created=_make(services, wanted), status=201)
    except Conflict as error:
        return _keys_page(request, services, trouble=error.message, status=409)


@router.post("/revoke")
def revoke_key(services: ServicesOf, form: FormOf) -> Response:
    """A key opens nothing from now on."""
    keys.revoke_key(services, form.text("key_id"))
    return see_other("/settings/keys", notice="key_revoked")


def _make(services: Services, wanted: _Wanted) -> Mapping[str, object]:
    scopes = [Scope(scope) for scope in wanted.scopes]
    lifetime_s = float(wanted.days) * _DAY_S if wanted.days else None
    key, token = keys.create_key(services, wanted.name, scopes, lifetime_s=lifetime_s, once=wanted.once)
    return {**key, "token": token}


def _read(form: Form) -> _Wanted:
    name, days = form.text("name"), form.text("days")
    scopes = frozenset(form.texts("scope"))
    errors: dict[str, str] = {}
    if not 0 < len(name) <= NAME_CHARS_MAX:
        errors["name"] = f"Say what the key is for, in 1 to {NAME_CHARS_MAX} characters."
    if not scopes or scopes - set(Scope):
        errors["scope"] = "Choose at least one of the scopes."
    if days not in _LIFETIMES:
        errors["days"] = "Choose one of the times."
    return _Wanted(name, scopes, days, errors, form.text("token"))


def _keys_page(
    request: Request,
    services: Services,
    wanted: _Wanted = _FRESH,
    *,
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
        wanted=wanted,
        created=created,
        trouble=trouble,
        form_token=secrets.token_urlsafe(16),
        lifetimes=_LIFETIMES,
        meanings=_MEANINGS,
    )
