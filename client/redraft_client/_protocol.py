"""The rules of the client for requests, retries and responses, without any I/O.

An operation is a generator (`Steps`). It yields requests and pauses, receives replies, and returns its result.
`_driver.py` carries out these steps with a blocking HTTP client, and `_async_driver.py` with an asynchronous one.
"""

import json
import random
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias, TypeVar, cast
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from redraft_client.errors import ApiError, RedraftError, ServerNotReached, UnexpectedResponse
from redraft_client.models import Problem

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)
Params: TypeAlias = Mapping[str, Any]

_IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_REFUSED = 429
# A later attempt may succeed. The server may have executed the request, so only repeatable requests are sent again
_TRANSIENT = frozenset({408, 502, 503, 504})
_BODY_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class Request:
    """A request, relative to the server's URL.

    Attributes:
        is_repeatable: whether a request that arrives twice has the same effect as one request.
        wait_s: how long the server may hold the response back.
    """

    method: str
    path: str
    params: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes | None = field(default=None, repr=False)
    is_repeatable: bool = False
    wait_s: float = 0

    @property
    def idempotency_key(self) -> str | None:
        return self.headers.get("Idempotency-Key")


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response. The names in `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Failure:
    """Says that no response arrived. `is_sent` is false only if the request has certainly not reached the server."""

    message: str
    is_sent: bool


@dataclass(frozen=True, slots=True)
class Sleep:
    """Continue after this time."""

    seconds: float


Reply: TypeAlias = Response | Failure | None
Steps: TypeAlias = Generator[Request | Sleep, Reply, T]


@dataclass(frozen=True, slots=True)
class Retries:
    """Decides when to send a request again.

    Attributes:
        attempts: the maximum number of attempts.
        first_pause_s: the pause after the first attempt. It doubles with each attempt, but is at least Retry-After.
        pause_max_s: the maximum pause. If the server asks for a longer pause, the error is raised at once.
    """

    attempts: int = 5
    first_pause_s: float = 0.5
    pause_max_s: float = 60.0

    def pause_s(self, request: Request, reply: Response | Failure, attempt: int) -> float | None:
        """Return the pause before the next attempt, or None if the request must not be repeated."""
        if attempt >= self.attempts or not _may_repeat(request, reply):
            return None
        asked_s = None if isinstance(reply, Failure) else retry_after_s(reply.headers)
        # With jitter, so that clients that failed at the same moment do not all retry at the same moment
        growing_s = min(self.first_pause_s * 2 ** (attempt - 1), 8.0)
        pause_s = max(growing_s * random.uniform(0.75, 1.25), asked_s or 0)  # noqa: S311
        return pause_s if pause_s <= self.pause_max_s else None

    def for_waiting(self) -> "Retries":
        """Return retries for the wait for a job or a run: more attempts, so that the server can restart meanwhile."""
        return self if self.attempts == 1 else replace(self, attempts=self.attempts * 3)


def _may_repeat(request: Request, reply: Response | Failure) -> bool:
    if isinstance(reply, Failure):
        return request.is_repeatable or not reply.is_sent
    return reply.status == _REFUSED or (reply.status in _TRANSIENT and request.is_repeatable)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait from the header Retry-After, a number or an HTTP date; None if it is not valid."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    until = _moment(text)
    # The server's clock may differ from the local clock, so the date is compared with the server's own date
    now = _moment(headers.get("date", "")) or datetime.now(UTC)
    return None if until is None else max(0.0, (until - now).total_seconds())


def _moment(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def exchange(request: Request, retries: Retries, until: float = float("inf")) -> Steps[Response]:
    """Send a request until a response is successful, and return this response. Raises ApiError or ServerNotReached.

    No attempt begins after `until`, a time of the monotonic clock.
    """
    attempt = 1
    while True:
        reply = yield request
        assert reply is not None  # noqa: S101 - only a pause has no reply
        if isinstance(reply, Response) and _is_good(reply):
            return reply
        pause_s = retries.pause_s(request, reply, attempt)
        if pause_s is None or time.monotonic() + pause_s > until:
            raise error_of(request, reply)
        yield Sleep(pause_s)
        attempt += 1


def _is_good(response: Response) -> bool:
    return 200 <= response.status < 300 or response.status == 304


def error_of(request: Request, reply: Response | Failure) -> RedraftError:
    """Return the exception for a reply that is not successful."""
    if isinstance(reply, Failure):
        return ServerNotReached(reply.message, request.idempotency_key)
    wait_s = retry_after_s(reply.headers)
    try:
        problem = Problem.model_validate_json(reply.content)
    except ValidationError:
        code, message = _foreign(reply)
        request_id = reply.headers.get("x-request-id")
        retryable = reply.status in _TRANSIENT or reply.status == _REFUSED
        return ApiError(reply.status, code, message, request_id=request_id, retryable=retryable, retry_after_s=wait_s)
    return ApiError(
        reply.status,
        problem.code,
        problem.detail,
        errors=tuple(problem.errors),
        request_id=problem.request_id,
        retryable=problem.retryable,
        retry_after_s=wait_s,
    )


def _foreign(response: Response) -> tuple[str, str]:
    """Return the code and the message of an error that does not come from Redraft."""
    if 300 <= response.status < 400:
        target = response.headers.get("location", "another address")
        return "redirected", f"The server redirects to {target}. Use the final URL as the server's URL."
    text = " ".join(response.content.decode("utf-8", "replace").split())[:_BODY_CHARS_MAX]
    return f"http_{response.status}", f"A server that is not Redraft's API answered: {text or 'nothing'}."


def read(model: type[ModelT], response: Response) -> ModelT:
    """Parse a response. Raises UnexpectedResponse if the response does not match the API's description."""
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = "/".join(map(str, first["loc"])) or "the body"
        words = (
            f"The response is not a {model.__name__} ({place}: {first['msg']}). Is the URL that of a Redraft server?"
        )
        raise UnexpectedResponse(f"{words} If it is newer than this client, update redraft-client.") from None


def get(path: str, params: Params | None = None, **headers: str) -> Request:
    return Request("GET", path, query(params or {}), {"Accept": "application/json", **headers}, is_repeatable=True)


def post(
    path: str,
    body: Any = None,
    params: Params | None = None,
    *,
    idempotency_key: str | None = None,
    is_repeatable: bool = False,
) -> Request:
    """Build a POST request. With an idempotency key, the server executes it once, even if it arrives several times."""
    headers = {"Accept": "application/json"}
    if idempotency_key:
        headers["Idempotency-Key"] = idempotency_key
    content = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if content is not None:
        headers["Content-Type"] = "application/json"
    return Request(
        "POST", path, query(params or {}), headers, content, is_repeatable=is_repeatable or bool(idempotency_key)
    )


def new_key() -> str:
    return f"py-{uuid4()}"


def query(params: Params) -> tuple[tuple[str, str], ...]:
    """Return query parameters as pairs. A parameter that is None is left out. A list repeats its parameter."""
    flat = {**params}
    metadata: Mapping[str, str] = flat.pop("metadata", None) or {}
    pairs = [(f"metadata.{key}", text) for key, text in metadata.items()]
    for name, value in flat.items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        pairs += [(name, _text(each)) for each in values if each is not None]
    return tuple(pairs)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
