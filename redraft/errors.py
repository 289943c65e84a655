"""The errors of Redraft, as a tree.

RedraftError
├── NotFound        a resource does not exist
├── Conflict        the state does not allow the request now
├── Invalid         the input is wrong; `errors` has the wrong fields
├── Forbidden       not signed in, or not allowed
├── Unavailable     database, broker or worker cannot be reached now
└── ProviderError   a model call failed

Each entry point has one table that translates the errors: `api/http/problems.py`, `worker/step_exceptions.py`,
`redraft/cli/exit_codes.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")

ProviderErrorCode = Literal[
    "provider_auth",
    "provider_rate_limited",
    "provider_quota",
    "provider_timeout",
    "provider_unavailable",
    "provider_bad_request",
    "unknown_model",
    "context_too_long",
    "refused",
    "content_filtered",
    "empty_output",
    "output_truncated",
    "schema_mismatch",
    "evaluator_invalid",
    "draft_invalid",
    "canceled",
]

RETRYABLE_CODES: frozenset[str] = frozenset({"provider_rate_limited", "provider_timeout", "provider_unavailable"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """A validation error of one field: a JSON pointer, a message for people, and a code for programs."""

    pointer: str
    detail: str
    code: str


class RedraftError(Exception):
    """The base class. Programs read `code`, and people read the message."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code


class NotFound(RedraftError):  # noqa: N818 - the five kinds read as states, not as errors
    code = "not_found"

    def __init__(self, noun: str, name: str) -> None:
        super().__init__(f"There is no {noun} {name!r}.")
        self.noun = noun
        self.name = name


def existing(value: T | None, noun: str, name: str) -> T:
    """Return the value. Raises NotFound if the value is None."""
    if value is None:
        raise NotFound(noun, name)
    return value


class Conflict(RedraftError):  # noqa: N818
    code = "conflict"


class Invalid(RedraftError):  # noqa: N818
    code = "invalid_request"

    def __init__(self, message: str, errors: tuple[FieldError, ...] = (), *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.errors = errors

    @classmethod
    def at(cls, pointer: str, detail: str, code: str) -> "Invalid":
        return cls(detail, (FieldError(pointer, detail, code),), code=code)


class Forbidden(RedraftError):  # noqa: N818
    code = "forbidden"


class Unavailable(RedraftError):  # noqa: N818
    code = "unavailable"


class ProviderError(RedraftError):
    """A model call failed.

    Attributes:
        code: one of the codes in docs/errors.md. A failure whose code is in `RETRYABLE_CODES` is transient.
        http_status: None if the provider has not answered.
        response: the body of the response, as far as it could be read.
        headers: some headers of the response (request id, rate limits).
        is_adapted: whether the provider refused a part of the request that the next call omits. If so, call again.
    """

    def __init__(
        self,
        code: ProviderErrorCode,
        message: str,
        *,
        http_status: int | None = None,
        retry_after_s: float | None = None,
        response: Any = None,
        headers: Mapping[str, str] | None = None,
        is_adapted: bool = False,
    ) -> None:
        super().__init__(message, code=code)
        self.http_status = http_status
        self.retry_after_s = retry_after_s
        self.response = response
        self.headers = dict(headers or {})
        self.is_adapted = is_adapted

    @property
    def retryable(self) -> bool:
        return self.code in RETRYABLE_CODES

    def reword(self, message: str) -> None:
        """Replace the message, for callers that know more about the request than the code that raised the error."""
        self.message = message
        self.args = (message,)
