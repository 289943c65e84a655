"""Renders templates as pages, with a content security policy that allows only scripts of this site."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from api.http.root_path import rooted
from api.http.security_headers import PAGE_POLICY
from api.pages.parts import filters, job_words
from api.pages.parts.rendered_answers import RENDERED_CHARS_MAX, evidence_of, render_answer
from redraft.datasets.rows import is_hash_id
from redraft.domain.admin.scopes import Scope
from redraft.domain.bulk.phrases import format_change

FOLDER = Path(__file__).parent.parent
STATIC = FOLDER / "static"
HEADERS = {"Content-Security-Policy": PAGE_POLICY, "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
THEME = "redraft_theme"
THEMES = ("light", "dark")
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\s]{0,1999}")
# The messages of pages after a form was sent. `?notice=` has only a name, because a text could come from an attacker
NOTICES: dict[str, str] = {
    "all_resent": "All failed deliveries are sent again now, with all retries.",
    "canceled": "Canceled. The answers so far are kept.",
    "continued": "The job is continued.",
    "dataset_added": "The rows are stored.",
    "dataset_known": "The same rows are already stored as this dataset.",
    "deleted": "Deleted.",
    "key_revoked": "The key is revoked.",
    "no_next": "That was the last job of this page of the list.",
    "no_previous": "That was the first job of this page of the list.",
    "none_marked": "No job is selected. Select jobs in the first column.",
    "rated": "Your rating is stored.",
    "resent": "The delivery is sent again now, with all retries.",
    "run_resumed": "The run is resumed.",
    "run_started": "The run is stored, and its first items are started.",
    "template_deleted": "The template is deleted. Past jobs keep the versions that they used.",
    "template_saved": "The version is stored. New jobs with this template use it.",
    "signed_out": "You are signed out.",
}


def pages_router(prefix: str = "") -> APIRouter:
    """Create a router for pages, which are not in the OpenAPI document."""
    return APIRouter(prefix=prefix, include_in_schema=False, default_response_class=HTMLResponse)


def page(
    request: Request, template: str, status: int = 200, headers: Mapping[str, str] | None = None, **context: Any
) -> HTMLResponse:
    """Render a page. The template also gets the request, the rights of the caller, the theme and the notice."""
    state: dict[str, Any] = request.scope["state"]
    content = (
        environment()
        .get_template(template)
        .render(
            request=request,
            may_write=Scope.WRITE in state.get("scopes", ()),
            may_admin=Scope.ADMIN in state.get("scopes", ()),
            signed_in=state.get("key_name"),
            key_scopes=[scope for scope in Scope if scope in state.get("scopes", ())],
            theme=theme if (theme := request.cookies.get(THEME)) in THEMES else None,
            notice=NOTICES.get(request.query_params.get("notice", "")),
            **context,
        )
    )
    return HTMLResponse(rooted(content), status, {**HEADERS, **(headers or {})})


def see_other(path: str, **query: str | Sequence[str]) -> RedirectResponse:
    # With 303, a reload of the page does not send the form again
    return RedirectResponse(f"{path}?{querystring(query)}" if query else path, 303)


def querystring(query: Mapping[str, str | Sequence[str]]) -> str:
    return urlencode(query, doseq=True)


def own_path(wanted: str | None) -> str:
    """Return the path if it belongs to this site, else "/", so that no redirection leaves the site."""
    return wanted if wanted and _OWN_PATH.fullmatch(wanted) else "/"


def address(request: Request, **changes: str | float | Sequence[str] | None) -> str:
    """Return the URL of this page with changed query parameters. The value None removes a parameter."""
    new = tuple(
        (name, value if isinstance(value, str | int | float | None) else tuple(value))
        for name, value in changes.items()
    )
    return _address(request.url.path, request.url.query, new)


# Rows of a list share most of their links, and a live list is rendered again and again
@lru_cache(maxsize=1024)
def _address(path: str, query: str, changes: tuple[tuple[str, str | float | tuple[str, ...] | None], ...]) -> str:
    names = {name for name, _ in changes} | {"notice"}
    kept = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in names]
    new = [(name, value) for name, value in changes if value is not None]
    written = urlencode([*kept, *new], doseq=True)
    return path + (f"?{written}" if written else "")


@lru_cache
def asset(name: str) -> Markup:
    """Return HTML attributes for a static file. Its URL contains the hash of its content, so that it can be cached."""
    content = (STATIC / name).read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    integrity = "sha384-" + b64encode(hashlib.sha384(content).digest()).decode()
    attribute = "href" if name.endswith(".css") else "src"
    return Markup('{}="/static/{}?v={}" integrity="{}"').format(attribute, name, digest, integrity)


def confirm_page(
    request: Request, title: str, words: str, verb: str, steps: Sequence[tuple[str, str]], kind: str = "danger"
) -> HTMLResponse:
    """Ask before an action, which a POST to the same address executes.

    `steps` are the breadcrumbs; the last step is the page to return to. `kind` is the class of the button.
    """
    asked = {"title": title, "words": words, "verb": verb, "steps": steps, "back": steps[-1][0], "kind": kind}
    return page(request, "confirm.html", asked=asked)


@lru_cache(maxsize=1)
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=filters.shown,
    )
    names = ("ago", "duration", "usd", "score", "threshold", "percent", "count", "clip", "since", "breakable")
    job_names = ("agreements", "ending", "repeats_criteria", "criteria_words", "beside_criteria")
    known: dict[str, Any] = made.filters
    known |= {name: getattr(filters, name) for name in (*names, "offset", "elapsed")}
    known |= {"querystring": querystring, "change": format_change}
    known |= {name: getattr(job_words, name) for name in job_names}
    known_everywhere: dict[str, Any] = made.globals
    known_everywhere |= {"asset": asset, "address": address, "version": version("redraft")}
    known_everywhere |= {"render_answer": render_answer, "evidence_of": evidence_of, "is_hash_id": is_hash_id}
    known_everywhere["rendered_chars_max"] = RENDERED_CHARS_MAX
    return made
