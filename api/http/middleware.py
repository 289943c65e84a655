"""Wraps every request: adds request id, access log and security headers, and answers unexpected errors."""

import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http import problems
from api.http.problems import HttpProblem
from api.http.security_headers import ALWAYS, NOT_STATIC, UNLESS_SET

log = structlog.get_logger()

# Characters that are safe in a log line and in a header
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
# Load balancers request these paths every few seconds, which would fill the log
_QUIET_PATHS = frozenset({"/livez", "/readyz"})
_CACHED_PREFIX = "/static/"


class Envelope:
    """The outermost middleware. It logs no query, header or body, because these can contain secrets."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        offered = Headers(scope=scope).get("x-request-id")
        request_id = offered if offered and _REQUEST_ID.fullmatch(offered) else f"req_{uuid.uuid4().hex}"
        scope.setdefault("state", {})["request_id"] = request_id
        reply = _Reply(send, scope["state"], is_static=scope["path"].startswith(_CACHED_PREFIX))
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            started_at = time.perf_counter()
            try:
                await self._answer(_as_get(scope), receive, reply)
            finally:
                _log_access(scope, reply.status, time.perf_counter() - started_at)

    async def _answer(self, scope: Scope, receive: Receive, reply: "_Reply") -> None:
        request = Request(scope, receive)
        if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
            refusal = HttpProblem(400, "The URL contains a NUL character.", code="nul_character")
            await problems.render(request, refusal)(scope, receive, reply.send)
            return
        try:
            await self._app(scope, receive, reply.send)
        except Exception as error:
            if reply.status is not None:
                # The headers are already sent, so no other response is possible. The server closes the connection
                raise
            log.exception("request_failed", method=scope["method"], path=scope["path"])
            await problems.render(request, error)(scope, receive, reply.send)


def _as_get(scope: Scope) -> Scope:
    """Convert a HEAD request to a GET request. The server sends no body for HEAD."""
    if scope["method"] != "HEAD":
        return scope
    # Accept asks for JSON, because an event stream would not end
    headers = [(name, value) for name, value in scope["headers"] if name != b"accept"]
    return {**scope, "method": "GET", "headers": [*headers, (b"accept", b"application/json")]}


class _Reply:
    """Adds the headers of every response, and records the status for the log."""

    def __init__(self, send: Send, state: Mapping[str, Any], *, is_static: bool) -> None:
        self._send = send
        self._state = state
        self._is_static = is_static
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._state["request_id"]
            if "preference" in self._state and self.status < 400:
                headers["Preference-Applied"] = self._state["preference"]
            headers.update(ALWAYS)
            for name, value in (UNLESS_SET if self._is_static else UNLESS_SET | NOT_STATIC).items():
                headers.setdefault(name, value)
        await self._send(message)


def _log_access(scope: Scope, status: int | None, seconds: float) -> None:
    write = log.debug if scope["path"] in _QUIET_PATHS else log.info
    route = scope.get("route")
    write(
        "request",
        method=scope["method"],
        path=scope["path"],
        route=getattr(route, "path", None),
        status=status,
        key_id=scope["state"].get("key_id"),
        ms=round(seconds * 1000, 1),
    )
