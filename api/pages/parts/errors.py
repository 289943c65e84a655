"""Renders problem documents as pages for browsers."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.pages.parts.rendering import page
from redraft.domain.admin.scopes import Scope
from redraft.operations.resource_base import ROOT_PATH

_AREAS = ("jobs", "runs", "datasets", "ratings", "settings")
_FOR_PROGRAMS = ("/v1/", "/livez", "/readyz", "/metrics", "/openapi.json", "/static/")


def render_error_page(request: Request, problem: Mapping[str, Any], headers: Mapping[str, str]) -> Response | None:
    """Return a page with the problem, or a redirection to the sign-in page. Return None for other clients."""
    if not ("text/html" in request.headers.get("accept", "") and not request.url.path.startswith(_FOR_PROGRAMS)):
        return None
    if problem["status"] == 401 and request.url.path != "/sign-in":
        return _to_sign_in(request, headers)
    first = request.url.path.split("/")[1]
    words = problem["detail"]
    if missing := request.scope["state"].get("missing_scope"):
        # The message for programs names only the missing scope, but pages also need `read`
        scopes = " ".join(f"--scope {scope}" for scope in dict.fromkeys((Scope.READ, missing)))
        words = f"This needs an API key with the scope '{missing}'; `redraft keys create NAME {scopes}` creates one."
    area = first if first in _AREAS else None
    return page(request, "error.html", problem["status"], headers, problem=problem, words=words, area=area)


def _to_sign_in(request: Request, headers: Mapping[str, str]) -> Response:
    url = f"/sign-in?next={quote(_next(request), safe='')}"
    if "hx-request" in request.headers:
        # htmx would insert the sign-in form into the part that it refreshes, so this header redirects the whole page
        return Response(None, 200, {**headers, "HX-Redirect": url})
    return RedirectResponse(url, 303, headers)


def _next(request: Request) -> str:
    if shown := request.headers.get("hx-current-url"):
        address = urlsplit(shown)
        return address.path.removeprefix(ROOT_PATH.get()) + (f"?{address.query}" if address.query else "")
    # After a form, people return to the page with this form, where the browser has kept what they typed
    if request.method not in {"GET", "HEAD"}:
        page_with_form = urlsplit(request.headers.get("referer", ""))
        is_own = page_with_form.netloc == request.headers.get("host")
        path = page_with_form.path.removeprefix(ROOT_PATH.get()) if is_own else ""
        return path + (f"?{page_with_form.query}" if path and page_with_form.query else "") or "/"
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")
