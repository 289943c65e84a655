"""The base of all resources, and the types and functions that several of them share."""

from contextvars import ContextVar
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from redraft.domain.jobs.job_errors import TITLES

_NANO = Decimal(10) ** 9
_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
_SUMS = ("calls", "input_tokens", "cached_input_tokens", "output_tokens")


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]


ROOT_PATH: ContextVar[str] = ContextVar("root_path", default="")
"""The path under which a proxy shows the API (REDRAFT_ROOT_PATH); empty outside of a request."""


def _from_outside(urls: dict[str, str]) -> dict[str, str]:
    root = ROOT_PATH.get()
    return {name: f"{root}{path}" for name, path in urls.items()}


Urls = Annotated[dict[str, str], PlainSerializer(_from_outside, when_used="json")]


class Resource(BaseModel):
    model_config = ConfigDict(frozen=True)


def json_line(resource: Resource, *, exclude: set[str] | None = None) -> str:
    """A resource as one line of JSON."""
    # Some readers end lines where Unicode does
    return resource.model_dump_json(exclude=exclude).translate(_LINE_ENDS) + "\n"


class RowError(Resource):
    """What is wrong with a row."""

    pointer: str
    detail: str
    code: str


class StepError(Resource):
    """Why a job, an evaluation or a call failed; docs/errors.md explains each code."""

    type: str
    title: str
    code: str = Field(examples=sorted(TITLES)[:3])
    detail: str
    retryable: bool
    provider: str | None
    model: str | None
    iteration: int | None
    attempts: int | None
    output_limit: int | None = Field(default=None, description="The output limit, in tokens, that cut an answer off.")


class UsageTotals(Resource):
    calls: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_usd: str | None
    latency_ms: int | None = Field(default=None, description="From the request to the end; null until then.")

    @classmethod
    def of(cls, row: Any, latency_ms: int | None) -> Self:
        """The usage of a row with columns for its sums."""
        cost = None if row.unpriced_calls else cost_usd(row.cost_nano_usd)
        return cls(**{name: getattr(row, name) for name in _SUMS}, cost_usd=cost, latency_ms=latency_ms)


def latency_ms(since: datetime, until: datetime | None) -> int | None:
    return None if until is None else round((until - since).total_seconds() * 1000)


def cost_usd(nano: int | None) -> str | None:
    """A decimal string without exponent or trailing zeros; None, an unknown cost, stays None."""
    return None if nano is None else f"{(Decimal(nano) / _NANO).normalize():f}"
