"""Request bodies: strict JSON of a bounded size, or a problem that says where it breaks."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Cookie, Header, Path
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import HttpProblem
from redraft.errors import FieldError, Invalid, Unavailable

_JSON_TYPE = re.compile(r"application/(json|[\w.+-]+\+json)", re.IGNORECASE)
_LINGER_S = 2.0
_BYTES_PER_S = 1_000
_EXACT_MAX = 2**53


class StrictRoute(APIRoute):
    """A route that takes no unknown query parameter, no body but JSON, and no JSON with two meanings."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = frozenset(
            field.alias
            for field in get_flat_params(self.dependant)
            if not isinstance(field.field_info, Path | Header | Cookie)
        )
        takes_body = self.body_field is not None
        check = self.body_field.validate if self.body_field is not None else None

        async def handle_strictly(request: Request) -> Response:
            refuse_unknown_parameters(request, known)
            if takes_body:
                refuse_other_media(request)
            return await handle(JsonRequest(request.scope, request.receive, check))

        return handle_strictly


class JsonRequest(Request):
    """A request whose body is strict JSON."""

    def __init__(self, scope: Scope, receive: Receive, check: Callable[[Any], object] | None = None) -> None:
        super().__init__(scope, receive)
        self._check = check

    async def json(self) -> Any:
        """The body. Its patterns and schemas are tried here, in a thread: FastAPI validates in the event loop.

        Outcomes are remembered (`redraft.sandbox.processes`), so the event loop does not wait for them.
        """
        value = parse_json(await self.body())
        if self._check is not None and _has_rubric(value):
            try:
                await run_in_threadpool(self._check, value)
            except Unavailable as error:
                raise HttpProblem(503, error.message, code=error.code, headers={"Retry-After": "5"}) from None
        return value


def _has_rubric(value: Any) -> bool:
    return isinstance(value, dict) and "rubric" in value


def refuse_unknown_parameters(request: Request, known: frozenset[str]) -> None:
    """Refuse unknown query parameters: ignoring `?validate_onyl=true` would start a job.

    A known name that ends with `.KEY` stands for all names with its beginning.
    """
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
        words = f"Send the body as application/json, not as {media_type[:100] or 'nothing in particular'}."
        raise HttpProblem(415, words, headers={"Accept": "application/json"})


def media_type_of(request: Request) -> str:
    """The media type without its parameters; empty without a Content-Type."""
    return request.headers.get("content-type", "").partition(";")[0].strip()


def refuse_packed(request: Request) -> None:
    """Refuse compressed bodies: a small decompression bomb would pass the limit on bodies."""
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        words = f"Send the body as it is, not as {coding[:50] or 'nothing in particular'}."
        raise HttpProblem(415, words, code="unsupported_content_encoding", headers={"Accept-Encoding": "identity"})


def parse_json(body: bytes) -> Any:
    """The value of a JSON text in UTF-8.

    Raises:
        HttpProblem: 400, with line and column where the parser knows them.
    """
    try:
        return json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_unique_names,
            parse_constant=_refuse_constant,
            parse_float=_number,
        )
    except UnicodeDecodeError as error:
        raise _no_json(f"byte {error.start} is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise _no_json(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _no_json("it is nested too deeply") from None
    except ValueError:
        raise _no_json("a number has too many digits") from None


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _no_json(f"the name {name[:100]!r} appears twice in one object", code="duplicate_name")
        found[name] = value
    return found


def _number(text: str) -> float:
    """Read 1.0 as the integer 1, as JSON Schema does."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) <= _EXACT_MAX else number


def _refuse_constant(name: str) -> Any:
    raise _no_json(f"{name} is no JSON value")


def _no_json(reason: str, code: str = "invalid_json") -> HttpProblem:
    detail = f"The body is not valid JSON: {reason}."
    return HttpProblem(400, detail, code=code, errors=[FieldError("", detail, code)])


@dataclass(frozen=True, slots=True)
class Bound:
    """The most bytes that a body may have, the setting that says so, and how long a body is waited for.

    A second more for each thousand bytes that came.
    """

    max_bytes: int
    setting: str
    patience_s: float = 20.0


class BodyLimit:
    """Cuts off a body that is too large, announced or not, or too slow, and lets the client read the answer.

    A socket that is closed with unread data resets the connection, and the client would lose the problem
    document: what still comes in is thrown away for a moment.
    """

    def __init__(self, app: ASGIApp, usual: Bound, others: Mapping[tuple[str, str], Bound]) -> None:
        """Bound all bodies.

        Args:
            app: what is behind.
            usual: of a body.
            others: of the bodies of other (method, path)s.
        """
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
        self._is_over = False

    async def receive(self) -> Message:
        if self._announced > self._bound.max_bytes:
            self._refuse_large()
        # The message after the body is the disconnect of the client
        message = await (self._receive() if self._is_whole else self._receive_soon())
        self._is_whole = not message.get("more_body", False)
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._bound.max_bytes:
            self._refuse_large()
        return message

    async def _receive_soon(self) -> Message:
        """Receive with a timeout: only the time of waiting counts, not the time between reads."""
        began_at = time.monotonic()
        try:
            async with asyncio.timeout(self._bound.patience_s + self._bytes / _BYTES_PER_S - self._waited_s):
                return await self._receive()
        except TimeoutError:
            detail = f"Only {self._bytes:,} bytes of the body came in time; send it without pauses."
            raise self._refusal(408, detail, "body_too_slow") from None
        finally:
            self._waited_s += time.monotonic() - began_at

    def _refuse_large(self) -> None:
        detail = f"A body may have {self._bound.max_bytes:,} bytes at most; {self._bound.setting} sets the limit."
        raise self._refusal(413, detail, "body_too_large")

    def _refusal(self, status: int, detail: str, code: str) -> HttpProblem:
        self._is_over = True
        return HttpProblem(status, detail, errors=[FieldError("", detail, code)], headers={"Connection": "close"})

    async def send(self, message: Message) -> None:
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not (self._is_over and is_last):
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        await self._drain()
        await self._send({"type": "http.response.body", "body": b""})

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(_LINGER_S):
                while (await self._receive()).get("more_body", False):
                    pass
        except TimeoutError:
            pass
