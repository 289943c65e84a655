"""Errors as pages, for people who came by a browser."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.pages.rendering import page

_FOR_PROGRAMS = ("/v1/", "/livez", "/readyz", "/metrics", "/openapi.json", "/static/")


def is_page_wanted(request: Request) -> bool:
    """Whether a browser asked for something that is, or would be, a page."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(_FOR_PROGRAMS)


def error_page(request: Request, problem: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    """What is wrong and what to do; who is not signed in is asked to, and comes back after it."""
    if problem["status"] == 401 and request.url.path != "/sign-in":
        return RedirectResponse(f"/sign-in?next={quote(_next(request), safe='')}", 303, headers)
    return page(request, "error.html", problem["status"], headers, problem=problem)


def _next(request: Request) -> str:
    """Where to go after signing in: a form that was sent cannot be sent again."""
    if request.method not in {"GET", "HEAD"}:
        return "/"
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")
