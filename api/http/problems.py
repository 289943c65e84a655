"""Errors as RFC 9457 problem documents: the one table from kinds of error to HTTP.

A problem says what is wrong and where, and never shows what was sent, a traceback or a driver's words.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from api.http.error_locations import errors_of
from redraft.errors import (
    Conflict,
    FieldError,
    Forbidden,
    Invalid,
    NotFound,
    ProviderError,
    RedraftError,
    Unavailable,
)
from redraft.operations.resource_base import ROOT_PATH

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
FIELD_ERRORS_MAX = 100

TITLES: dict[int, tuple[str, str]] = {
    400: ("bad_request", "The request cannot be read"),
    401: ("unauthenticated", "A valid API key is needed"),
    403: ("forbidden", "This is not allowed"),
    404: ("not_found", "There is no such thing"),
    405: ("method_not_allowed", "This method is not possible here"),
    409: ("conflict", "The state does not allow this now"),
    408: ("body_too_slow", "The request body did not arrive in time"),
    413: ("body_too_large", "The request body is too large"),
    415: ("unsupported_media_type", "The body is of a kind that is not taken here"),
    422: ("invalid_request", "The request is not valid"),
    429: ("too_many_requests", "Too many requests"),
    500: ("internal_error", "Something went wrong here"),
    502: ("provider_error", "A model provider failed"),
    503: ("unavailable", "The service cannot do this now"),
}
_STATUS: dict[type[RedraftError], int] = {
    Invalid: 422,
    NotFound: 404,
    Conflict: 409,
    Forbidden: 403,
    Unavailable: 503,
    ProviderError: 502,
}
_UNAUTHENTICATED = frozenset({"unauthenticated", "invalid_key"})

ErrorPage = Callable[[Request, Mapping[str, Any], Mapping[str, str]], Response | None]


class ProblemFieldError(BaseModel):
    """One wrong place."""

    pointer: str = Field(
        description="JSON Pointer into the body; `query/NAME`, `header/NAME` or `path/NAME` for the rest."
    )
    detail: str
    code: str


class Problem(BaseModel):
    """RFC 9457: what every answer of 400 and above holds."""

    type: str = Field(examples=["urn:redraft:error:invalid_request"])
    title: str
    status: int
    code: str = Field(description="For programs; stable.")
    detail: str = Field(description="For people.")
    instance: str = Field(description="The path that was asked for.")
    request_id: str = Field(description="The same as in X-Request-Id and in the log.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    errors: list[ProblemFieldError]


class HttpProblem(HTTPException):
    """A refusal that only HTTP knows: a body that cannot be read, a Host that is not ours."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers=headers)
        self.code = code or TITLES[status][0]
        self.errors = tuple(errors)


def render(request: Request, error: Exception, **extensions: Any) -> Response:
    """The problem document of any error, with the headers that belong to it."""
    if isinstance(error, RedraftError):
        return _render_redraft_error(request, error, extensions)
    if isinstance(error, RequestValidationError):
        errors = errors_of(error, FIELD_ERRORS_MAX)
        return _respond(request, 422, _summary(errors), errors=errors)
    if isinstance(error, HTTPException):
        return _render_http_error(request, error)
    request_id = request_id_of(request)
    return _respond(request, 500, f"Look for {request_id} in the server's log.")


def _render_redraft_error(request: Request, error: RedraftError, extensions: Mapping[str, Any]) -> Response:
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    headers: dict[str, str] = {}
    if error.code in _UNAUTHENTICATED:
        status, headers["WWW-Authenticate"] = 401, 'Bearer realm="redraft"'
    if isinstance(error, ProviderError) and error.retryable:
        status = 503
    if status == 503:
        headers["Retry-After"] = str(_wait_s(error))
    errors = [_located(request, field_error) for field_error in error.errors] if isinstance(error, Invalid) else []
    return _respond(
        request, status, error.message, code=error.code, errors=errors, headers=headers, extensions=extensions
    )


def _wait_s(error: RedraftError) -> int:
    """Prefer the wait that a rate-limited provider asks for."""
    asked_s = error.retry_after_s if isinstance(error, ProviderError) else None
    return RETRY_AFTER_S if asked_s is None else max(1, math.ceil(asked_s))


def _located(request: Request, error: FieldError) -> FieldError:
    """Prefix locations with `query` for requests without a body: operations do not know where values came from."""
    if request.method == "GET" and error.pointer.startswith("/"):
        return FieldError(f"query{error.pointer}", error.detail, error.code)
    return error


def _render_http_error(request: Request, error: HTTPException) -> Response:
    is_ours = isinstance(error, HttpProblem)
    return _respond(
        request,
        error.status_code,
        error.detail if is_ours else _plain_detail(request, error),
        code=error.code if is_ours else None,
        errors=error.errors if is_ours else (),
        headers={"Allow": _allowed_methods(request)} if error.status_code == 405 else error.headers,
    )


def _allowed_methods(request: Request) -> str:
    """All methods of a path; the router names those of the first of its routes only."""
    found: set[str] = set()
    for route in iter_route_contexts(request.app.routes):
        if route.methods and re.fullmatch(route.path_regex, request.url.path):
            found |= route.methods | ({"HEAD"} if "GET" in route.methods else set())
    # Static files have no route
    return ", ".join(sorted(found or {"GET", "HEAD"}))


def _plain_detail(request: Request, error: HTTPException) -> str:
    if error.status_code == 404:
        return f"Nothing is at {request.url.path}."
    if error.status_code == 405:
        return f"{request.method} is not possible at {request.url.path}."
    return f"{error.detail}."


def _summary(errors: Sequence[FieldError]) -> str:
    first = f"{errors[0].pointer or 'body'}: {errors[0].detail}" if errors else "The request is not valid."
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{first}{more}"


def _respond(
    request: Request,
    status: int,
    detail: str,
    *,
    code: str | None = None,
    errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
    extensions: Mapping[str, Any] | None = None,
) -> Response:
    usual_code, title = TITLES.get(status, ("error", "The request failed"))
    problem = {
        "type": f"urn:redraft:error:{code or usual_code}",
        "title": title,
        "status": status,
        "code": code or usual_code,
        "detail": detail,
        "instance": ROOT_PATH.get() + request.url.path,
        "request_id": request_id_of(request),
        "retryable": status in {429, 503} or code == "draft_invalid",
        "errors": [{"pointer": f.pointer, "detail": f.detail, "code": f.code} for f in errors],
        **(extensions or {}),
    }
    headers = {"Cache-Control": "no-store", **(headers or {})}
    if error_page := request.app.state.render_error_page(request, problem, headers):
        return error_page
    # JSON pointers repeat names from the request, which may hold half a surrogate pair.
    content = json.dumps(problem, ensure_ascii=False).encode("utf-8", "replace")
    return Response(content, status, headers, MEDIA_TYPE)


def request_id_of(request: Request) -> str:
    return request.scope["state"]["request_id"]


async def handle_error(request: Request, error: Exception) -> Response:
    """Render any error. Async, because a sync handler would wait for a thread."""
    return render(request, error)


def install(app: FastAPI, render_error_page: ErrorPage) -> None:
    """Handle every kind of error of an app.

    Args:
        app: the app.
        render_error_page: renders a problem for a browser; None for a client that takes JSON. The pages hand it in:
            they import this module.
    """
    app.state.render_error_page = render_error_page
    for kind in (RedraftError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle_error)
