"""Pages: templates rendered with what every page needs, under a policy that lets nothing run but our own files."""

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
# What a page says after a form was sent, by the word in `?notice=`.
NOTICES: dict[str, str] = {
    "canceled": "Canceled. What it has written so far is kept.",
    "continued": "The job goes on.",
    "dataset_added": "The rows are stored.",
    "dataset_known": "The same rows were there already: this is their dataset.",
    "deleted": "Deleted.",
    "key_revoked": "The key is revoked: it opens nothing any more.",
    "none_marked": "No job is marked: mark some in the first column.",
    "rated": "Thank you: your rating is kept.",
    "resent": "It is sent again now, and by the whole schedule if need be.",
    "run_resumed": "The run goes on.",
    "run_started": "The run is stored, and its first items are started.",
    "signed_out": "You are signed out.",
}


def pages_router(prefix: str = "") -> APIRouter:
    """A router for pages: they are for people, and not in the API's description."""
    return APIRouter(prefix=prefix, include_in_schema=False, default_response_class=HTMLResponse)


def page(
    request: Request,
    template: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: Any,
) -> HTMLResponse:
    """A rendered page. Beside its own context a template knows `request`, `may_write`, `is_signed_in`, `notice`."""
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
    """To the page that shows what a form has done."""
    return RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303)


def own_path(wanted: str | None) -> str:
    """A path of this site (2,000 characters at most), else "/": no redirection leaves the site."""
    return wanted if wanted and _OWN_PATH.fullmatch(wanted) else "/"


def address(request: Request, **changes: str | float | Sequence[str] | None) -> str:
    """This page's address with some parameters of its query changed; None takes one away."""
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in {*changes, "notice"}]
    new = {name: value for name, value in changes.items() if value is not None}
    query = urlencode([*kept, *new.items()], doseq=True)
    return request.url.path + (f"?{query}" if query else "")


@lru_cache
def asset(name: str) -> Markup:
    """The address of a static file as attributes, with the hash of what is in it: a new file is a new address."""
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
    written = (filters.ago, filters.duration, filters.usd, filters.score, filters.count, filters.clip, filters.since)
    written += (
        filters.breakable,
        job_words.ending,
        job_words.is_told_by_criteria,
        job_words.criteria_words,
        job_words.beside_criteria,
    )
    known: dict[str, Any] = made.filters
    known.update({each.__name__: each for each in written}, markdown=render_markdown)
    known_everywhere: dict[str, Any] = made.globals
    known_everywhere.update(asset=asset, address=address, version=version("redraft"))
    return made
