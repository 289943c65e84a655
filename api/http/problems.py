"""Renders errors as problem documents (RFC 9457). One table maps classes of errors to HTTP statuses.

A problem document names the error and its place. It never contains the input, a traceback or the message of a driver.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from redraft.domain.bodies.validation_errors import message_of, pointer_of
from redraft.errors import Conflict, FieldError, Forbidden, Invalid, NotFound, ProviderError, RedraftError, Unavailable
from redraft.operations.resource_base import ROOT_PATH

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
# A large body can have very many errors; the limit keeps the response small
FIELD_ERRORS_MAX = 100
_POINTER_CHARS_MAX = 500

TITLES: dict[int, tuple[str, str]] = {
    400: ("bad_request", "The request cannot be read"),
    401: ("unauthenticated", "A valid API key is needed"),
    403: ("forbidden", "The request is not allowed"),
    404: ("not_found", "Not found"),
    405: ("method_not_allowed", "The method is not allowed"),
    409: ("conflict", "The current state does not allow this"),
    408: ("body_too_slow", "The request body did not arrive in time"),
    413: ("body_too_large", "The request body is too large"),
    415: ("unsupported_media_type", "The media type of the body is not supported"),
    422: ("invalid_request", "The request is not valid"),
    429: ("too_many_requests", "Too many requests"),
    500: ("internal_error", "Internal error"),
    502: ("provider_error", "A model provider failed"),
    503: ("unavailable", "The service is unavailable"),
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
    """One validation error."""

    pointer: str = Field(
        description="JSON Pointer into the body; for other places `query/NAME`, `header/NAME` or `path/NAME`."
    )
    detail: str
    code: str


class Problem(BaseModel):
    """The body of every response with a status of 400 or above (RFC 9457)."""

    type: str = Field(examples=["urn:redraft:error:invalid_request"])
    title: str
    status: int
    code: str = Field(description="A stable code for programs.")
    detail: str = Field(description="A message for people.")
    instance: str = Field(description="The path of the request.")
    request_id: str = Field(description="The id of the request, as in X-Request-Id and in the log.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    errors: list[ProblemFieldError]


class HttpProblem(HTTPException):
    """An error of HTTP itself, such as a body that cannot be read."""

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
    """Render the problem document of an error, with the headers that belong to it."""
    if isinstance(error, RedraftError):
        return _render_redraft_error(request, error, extensions)
    if isinstance(error, RequestValidationError):
        errors = list(dict.fromkeys(_field_error(each, error.body) for each in error.errors()))[:FIELD_ERRORS_MAX]
        return _respond(request, 422, _summary(errors), errors=errors)
    if isinstance(error, HTTPException):
        return _render_http_error(request, error)
    return _respond(
        request, 500, f"The log of the server has the error under request id {request.scope['state']['request_id']}."
    )


def _field_error(error: Mapping[str, Any], body: Any) -> FieldError:
    part, *path = cast("Sequence[str | int]", error["loc"])
    if part == "body":
        below = {**error, "loc": path}
        pointer, words = pointer_of(below, body), message_of(below, body)
    else:
        pointer, words = "/".join(map(str, (part, *path))), message_of(error)
    return FieldError(pointer[:_POINTER_CHARS_MAX], words, str(error["type"]))


def _render_redraft_error(request: Request, error: RedraftError, extensions: Mapping[str, Any]) -> Response:
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    headers: dict[str, str] = {}
    # RFC 9110 requires that a 401 response names the authentication scheme
    if error.code in _UNAUTHENTICATED:
        status, headers["WWW-Authenticate"] = 401, 'Bearer realm="redraft"'
    if isinstance(error, ProviderError) and error.retryable:
        status = 503
    if status == 503:
        # The provider may have sent `retry-after`
        asked_s = error.retry_after_s if isinstance(error, ProviderError) else None
        headers["Retry-After"] = str(RETRY_AFTER_S if asked_s is None else max(1, math.ceil(asked_s)))
    errors = [_located(request, field_error) for field_error in error.errors] if isinstance(error, Invalid) else []
    return _respond(
        request, status, error.message, code=error.code, errors=errors, headers=headers, extensions=extensions
    )


def _located(request: Request, field_error: FieldError) -> FieldError:
    # Operations report JSON pointers, because they do not know that a value comes from the query
    if request.method == "GET" and field_error.pointer.startswith("/"):
        return FieldError(f"query{field_error.pointer}", field_error.detail, field_error.code)
    return field_error


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
    # Starlette returns only the methods of the first route with this path
    found: set[str] = set()
    for route in iter_route_contexts(request.app.routes):
        if route.methods and re.fullmatch(route.path_regex, request.url.path):
            found |= route.methods | ({"HEAD"} if "GET" in route.methods else set())
    # Static files have no route
    return ", ".join(sorted(found or {"GET", "HEAD"}))


def _plain_detail(request: Request, error: HTTPException) -> str:
    if error.status_code == 404:
        return f"There is nothing at {request.url.path}."
    if error.status_code == 405:
        return f"The method {request.method} is not allowed for {request.url.path}."
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
        "request_id": request.scope["state"]["request_id"],
        "retryable": status in {429, 503} or code == "draft_invalid",
        "errors": [{"pointer": f.pointer, "detail": f.detail, "code": f.code} for f in errors],
        **(extensions or {}),
    }
    headers = {"Cache-Control": "no-store", **(headers or {})}
    if error_page := request.app.state.render_error_page(request, problem, headers):
        return error_page
    # Pointers contain names from the request, which can contain half a surrogate pair
    content = json.dumps(problem, ensure_ascii=False).encode("utf-8", "replace")
    return Response(content, status, headers, MEDIA_TYPE)


# The handler is async, because Starlette calls other handlers in threads, which can all be in use
async def _handle_error(request: Request, error: Exception) -> Response:
    return render(request, error)


def install(app: FastAPI, render_error_page: ErrorPage) -> None:
    """Install the error handlers of an app. `render_error_page` returns None for clients that do not accept HTML."""
    app.state.render_error_page = render_error_page
    for kind in (RedraftError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _handle_error)
