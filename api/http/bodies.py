"""Reads request bodies: as strict JSON, with limits of size and time."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, cast

from fastapi import Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Cookie, Header, Path
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import HttpProblem
from redraft.domain.bodies import strict_json
from redraft.domain.bodies.strict_json import JsonError
from redraft.errors import FieldError, Invalid, Unavailable

_JSON_TYPE = re.compile(r"application/(json|[\w.+-]+\+json)", re.IGNORECASE)
# An unread body is read and dropped for this time, so that the client gets the response before the connection closes
_LINGER_S = 2.0
# The minimum rate of a client in bytes per second: each portion of this size extends the time limit by a second
_BYTES_PER_S = 1_000
_EXACT_MAX = 2**53


class StrictRoute(APIRoute):
    """A route that refuses unknown query parameters, bodies other than JSON, and ambiguous JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = frozenset(
            field.alias
            for field in get_flat_params(self.dependant)
            if not isinstance(field.field_info, Path | Header | Cookie)
        )
        check = self.body_field.validate if self.body_field is not None else None

        async def handle_strictly(request: Request) -> Response:
            refuse_unknown_parameters(request, known)
            if check is not None:
                refuse_other_media(request)
            return await handle(JsonRequest(request.scope, request.receive, check))

        return handle_strictly


class JsonRequest(Request):
    """A request whose body is strict JSON."""

    def __init__(self, scope: Scope, receive: Receive, check: Callable[[Any], object] | None = None) -> None:
        super().__init__(scope, receive)
        self._check = check

    async def json(self) -> Any:
        value = parse_json(await self.body())
        # FastAPI validates in the event loop, where the patterns and schemas of a rubric would take too long. So a
        # thread validates them first. The sandbox (`redraft.sandbox.processes`) caches the results for FastAPI.
        if self._check is not None and isinstance(cast("object", value), dict) and "rubric" in value:
            try:
                await run_in_threadpool(self._check, value)
            except Unavailable as error:
                raise HttpProblem(503, error.message, code=error.code, headers={"Retry-After": "5"}) from None
        return value


def refuse_unknown_parameters(request: Request, known: frozenset[str]) -> None:
    """Raise Invalid if a query parameter is unknown. A known `NAME.KEY` allows every name that begins with `NAME.`."""
    # If the misspelt `?validate_onyl=true` were ignored, the request would start a job
    beginnings = tuple(name.removesuffix("KEY") for name in known if name.endswith(".KEY"))
    unknown = [name for name in request.query_params if name not in known and not name.startswith(beginnings)]
    if unknown:
        errors = tuple(FieldError(f"query/{name[:200]}", "Unknown parameter", "unknown_parameter") for name in unknown)
        raise Invalid(f"Unknown query parameter {unknown[0][:200]!r}.", errors[:20], code="unknown_parameter")


def refuse_other_media(request: Request) -> None:
    refuse_packed(request)
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    media_type = media_type_of(request)
    if has_body and not _JSON_TYPE.fullmatch(media_type):
        words = f"Send the body as application/json, not as {media_type[:100] or 'an unknown type'}."
        raise HttpProblem(415, words, headers={"Accept": "application/json"})


def media_type_of(request: Request) -> str:
    """Return the media type without its parameters, or an empty text without a Content-Type."""
    return request.headers.get("content-type", "").partition(";")[0].strip()


def refuse_packed(request: Request) -> None:
    # The size limit counts compressed bytes, so a small decompression bomb would not exceed it
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        words = f"Send the body without compression, not as {coding[:50] or 'an unknown encoding'}."
        raise HttpProblem(415, words, code="unsupported_content_encoding", headers={"Accept-Encoding": "identity"})


def parse_json(body: bytes) -> Any:
    """Parse JSON in UTF-8. Raises HttpProblem (400), if possible with line and column."""
    try:
        return strict_json.parse(body.decode("utf-8-sig"), _read_float)
    except UnicodeDecodeError as error:
        raise _no_json(f"is not valid JSON: byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _no_json(f"is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except JsonError as error:
        raise _no_json(str(error), error.code) from None


def parse_object(text: str, name: str, words: str = "") -> dict[str, Any]:
    """Parse the text of a field as a JSON object.

    Raises Invalid if the text is not a JSON object. The message names the field, or `words` instead of its name.
    """
    try:
        value = parse_json(text.encode("utf-8", "replace"))
    except HttpProblem as problem:
        raise Invalid.at(f"/{name}", problem.detail.replace("The body", words or name), "invalid_json") from None
    if not isinstance(value, dict):
        raise Invalid.at(
            f"/{name}", f'{words or name} must be a JSON object, such as {{"candidates": 2}}.', "dict_type"
        )
    return cast("dict[str, Any]", value)


def _read_float(text: str) -> float:
    number = strict_json.finite(text)
    # In JSON Schema, 1.0 is an integer. Above the limit, a float does not represent every integer
    return int(number) if number.is_integer() and abs(number) <= _EXACT_MAX else number


def _no_json(reason: str, code: str = "invalid_json") -> HttpProblem:
    detail = f"The body {reason}."
    return HttpProblem(400, detail, code=code, errors=[FieldError("", detail, code)])


@dataclass(frozen=True, slots=True)
class Bound:
    """The maximum size of a body, the setting that defines the size, and the base of the time limit in seconds."""

    max_bytes: int
    setting: str
    patience_s: float = 20.0


class BodyLimit:
    """Refuses a body that is too large or too slow.

    `others` has the bounds of routes that differ, by method and path.
    """

    def __init__(self, app: ASGIApp, usual: Bound, others: Mapping[tuple[str, str], Bound]) -> None:
        self._app = app
        self._usual = usual
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bound = self._others.get((scope["method"], scope["path"]), self._usual)
        meter = _Meter(receive, send, Headers(scope=scope), bound)
        await self._app(scope, meter.receive, meter.send)


class _Meter:
    def __init__(self, receive: Receive, send: Send, headers: Headers, bound: Bound) -> None:
        self._receive = receive
        self._send = send
        announced = headers.get("content-length", "0")
        self._announced = int(announced) if announced.isdecimal() else 0
        self._bound = bound
        self._bytes = 0
        self._waited_s = 0.0
        self._is_whole = False
        self._is_refused = False

    async def receive(self) -> Message:
        if self._announced > self._bound.max_bytes:
            self._refuse_large()
        # The message after the body reports that the client disconnects, which can happen at any time
        message = await (self._receive() if self._is_whole else self._receive_soon())
        self._is_whole = not message.get("more_body", False)
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._bound.max_bytes:
            self._refuse_large()
        return message

    async def _receive_soon(self) -> Message:
        # Only the waiting time counts, because the server causes the time between two reads
        began_at = time.monotonic()
        try:
            async with asyncio.timeout(self._bound.patience_s + self._bytes / _BYTES_PER_S - self._waited_s):
                return await self._receive()
        except TimeoutError:
            detail = f"Only {self._bytes:,} bytes of the body arrived in time. Send the body without pauses."
            raise self._refusal(408, detail, "body_too_slow") from None
        finally:
            self._waited_s += time.monotonic() - began_at

    def _refuse_large(self) -> None:
        detail = f"The maximum size of a body is {self._bound.max_bytes:,} bytes ({self._bound.setting})."
        raise self._refusal(413, detail, "body_too_large")

    def _refusal(self, status: int, detail: str, code: str) -> HttpProblem:
        self._is_refused = True
        return HttpProblem(status, detail, errors=[FieldError("", detail, code)], headers={"Connection": "close"})

    async def send(self, message: Message) -> None:
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not (self._is_refused and is_last):
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        # If a socket with unread data is closed, the connection is reset and the client loses the response
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while (await self._receive()).get("more_body", False):
                    pass
        await self._send({"type": "http.response.body", "body": b""})
