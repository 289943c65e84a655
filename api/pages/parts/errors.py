"""Errors as pages, for people who came by a browser."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.pages.parts.rendering import page
from redraft.domain.admin.scopes import Scope
from redraft.operations.resource_base import ROOT_PATH

_AREAS = {
    "/jobs": ("/jobs", "To the jobs"),
    "/runs": ("/runs", "To the runs"),
    "/datasets": ("/datasets", "To the datasets"),
    "/ratings": ("/ratings", "To the ratings"),
    "/settings": ("/settings", "To the settings"),
}
_FOR_PROGRAMS = ("/v1/", "/livez", "/readyz", "/metrics", "/openapi.json", "/static/")


def render_error_page(request: Request, problem: Mapping[str, Any], headers: Mapping[str, str]) -> Response | None:
    """A page that shows the problem, or a redirection to the sign-in page; None for a client that takes JSON."""
    if not ("text/html" in request.headers.get("accept", "") and not request.url.path.startswith(_FOR_PROGRAMS)):
        return None
    if problem["status"] == 401 and request.url.path != "/sign-in":
        return _to_sign_in(request, headers)
    area = _AREAS.get("/" + request.url.path.split("/")[1])
    words = _words_for_people(request, problem)
    return page(request, "error.html", problem["status"], headers, problem=problem, words=words, area=area)


def _words_for_people(request: Request, problem: Mapping[str, Any]) -> str:
    """A scope alone is enough for a program; who looks at pages also needs `read`."""
    missing = request.scope["state"].get("missing_scope")
    if missing is None:
        return problem["detail"]
    scopes = " ".join(f"--scope {scope}" for scope in dict.fromkeys((Scope.READ, missing)))
    return (
        f"This needs an API key with the scope '{missing}'; "
        f"`redraft keys create NAME {scopes}` makes one that also opens the pages."
    )


def _to_sign_in(request: Request, headers: Mapping[str, str]) -> Response:
    goal = f"/sign-in?next={quote(_next(request), safe='')}"
    if "hx-request" in request.headers:
        # Redirect the whole page: htmx would insert the sign-in form into the part that it refreshes.
        return Response(None, 200, {**headers, "HX-Redirect": goal})
    return RedirectResponse(goal, 303, headers)


def _next(request: Request) -> str:
    """Where to go after signing in: a form that was sent cannot be sent again."""
    if shown := request.headers.get("hx-current-url"):
        address = urlsplit(shown)
        return address.path.removeprefix(ROOT_PATH.get()) + (f"?{address.query}" if address.query else "")
    if request.method not in {"GET", "HEAD"}:
        return "/"
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")
