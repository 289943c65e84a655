"""Renders templates as pages, under a policy that allows no scripts but our own files."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from api.http.root_path import rooted
from api.pages.parts import filters, job_words
from api.pages.parts.markdown import render_markdown
from redraft.domain.admin.scopes import Scope

FOLDER = Path(__file__).parent.parent
STATIC = FOLDER / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\s]{0,1999}")
# The message of a page after a form was sent, by `?notice=`: a text in the URL could come from an attacker
NOTICES: dict[str, str] = {
    "canceled": "Canceled. Its answers so far are kept.",
    "continued": "The job goes on.",
    "dataset_added": "The rows are stored.",
    "dataset_known": "The same rows were stored already: this is their dataset.",
    "deleted": "Deleted.",
    "key_revoked": "The key is revoked.",
    "none_marked": "No job is selected: select jobs in the first column.",
    "rated": "Your rating is stored.",
    "resent": "It is sent again now, with all its retries.",
    "run_resumed": "The run goes on.",
    "run_started": "The run is stored, and its first items are started.",
    "signed_out": "You are signed out.",
}


def pages_router(prefix: str = "") -> APIRouter:
    """Create a router whose pages are not in the API's description."""
    return APIRouter(prefix=prefix, include_in_schema=False, default_response_class=HTMLResponse)


def page(
    request: Request, template: str, status: int = 200, headers: Mapping[str, str] | None = None, **context: Any
) -> HTMLResponse:
    """Render a page. Its template also has `request`, `may_write`, `may_admin`, `is_signed_in` and `notice`."""
    state: dict[str, Any] = request.scope["state"]
    content = (
        environment()
        .get_template(template)
        .render(
            request=request,
            may_write=Scope.WRITE in state.get("scopes", ()),
            may_admin=Scope.ADMIN in state.get("scopes", ()),
            is_signed_in="key_id" in state,
            notice=NOTICES.get(request.query_params.get("notice", "")),
            **context,
        )
    )
    return HTMLResponse(rooted(content), status, {**HEADERS, **(headers or {})})


def see_other(path: str, **query: str) -> RedirectResponse:
    # 303: a reload of the page then does not send the form again
    return RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303)


def own_path(wanted: str | None) -> str:
    """Return the path if it is one of this site, else "/": no redirection leaves the site."""
    return wanted if wanted and _OWN_PATH.fullmatch(wanted) else "/"


def address(request: Request, **changes: str | float | Sequence[str] | None) -> str:
    """Return the URL of this page with some parameters changed; None removes one."""
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in {*changes, "notice"}]
    new = {name: value for name, value in changes.items() if value is not None}
    query = urlencode([*kept, *new.items()], doseq=True)
    return request.url.path + (f"?{query}" if query else "")


@lru_cache
def asset(name: str) -> Markup:
    """Return the URL of a static file as attributes, with the hash of its content: a new file has a new URL."""
    content = (STATIC / name).read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    integrity = "sha384-" + b64encode(hashlib.sha384(content).digest()).decode()
    attribute = "href" if name.endswith(".css") else "src"
    return Markup('{}="/static/{}?v={}" integrity="{}"').format(attribute, name, digest, integrity)


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
    names = ("ago", "duration", "usd", "score", "count", "clip", "since", "breakable")
    job_names = ("ending", "repeats_criteria", "criteria_words", "beside_criteria")
    known: dict[str, Any] = made.filters
    known |= {name: getattr(filters, name) for name in names}
    known |= {name: getattr(job_words, name) for name in job_names} | {"markdown": render_markdown}
    known_everywhere: dict[str, Any] = made.globals
    known_everywhere |= {"asset": asset, "address": address, "version": version("redraft")}
    return made
