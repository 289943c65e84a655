"""The base class of API resources, and the types and functions that several resources share."""

from contextvars import ContextVar
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from redraft.domain.jobs.job_errors import TITLES

NANO = Decimal(10) ** 9
"""Costs are stored as integers, in billionths of a USD, so that sums are exact in both databases."""

_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(rfc3339, return_type=str, when_used="json")]

ROOT_PATH: ContextVar[str] = ContextVar("root_path", default="")
"""The path under which a proxy shows the API (REDRAFT_ROOT_PATH); empty outside of a request."""


def _below_root(urls: dict[str, str]) -> dict[str, str]:
    return {name: f"{ROOT_PATH.get()}{path}" for name, path in urls.items()}


Urls = Annotated[dict[str, str], PlainSerializer(_below_root, when_used="json")]


class Resource(BaseModel):
    model_config = ConfigDict(frozen=True)

    @classmethod
    def from_row(cls, row: Any, **computed: Any) -> Self:
        """Build a resource from the `computed` fields. The other fields are columns of `row` with the same names."""
        names = [name for name in cls.model_fields if name not in computed and hasattr(row, name)]
        return cls(**computed, **{name: getattr(row, name) for name in names})


def json_line(resource: Resource, *, exclude: set[str] | None = None) -> str:
    # Some readers split lines at Unicode line separators, which JSON does not escape
    return resource.model_dump_json(exclude=exclude).translate(_LINE_ENDS) + "\n"


class RowError(Resource):
    """A validation error in a row."""

    pointer: str
    detail: str
    code: str


class StepError(Resource):
    """The error of a job, an evaluation or a call; docs/errors.md explains each code."""

    type: str
    title: str
    code: str = Field(examples=sorted(TITLES)[:3])
    detail: str
    retryable: bool
    provider: str | None
    model: str | None
    iteration: int | None
    attempts: int | None
    output_limit: int | None = Field(
        default=None, description="The output limit, in tokens, at which the answer was cut off."
    )


class CallTotals(Resource):
    """The usage of several calls."""

    calls: int
    input_tokens: int
    cached_input_tokens: int = Field(description="Input tokens from the provider's cache; a part of the input tokens.")
    cache_write_tokens: int = Field(
        description="Input tokens that the provider wrote to its cache; a part of the input tokens."
    )
    output_tokens: int
    reasoning_tokens: int = Field(description="A part of the output tokens.")
    cost_usd: str | None = Field(description="null: the price of some call is unknown.")


class UsageTotals(CallTotals):
    latency_ms: int | None = Field(
        default=None, description="The time from the request to the end; null before the end."
    )

    @classmethod
    def of(cls, row: Any, latency_ms: int | None) -> Self:
        """The usage in a row that has a column for each sum."""
        return cls.from_row(row, cost_usd=cost_usd(row.cost_nano_usd, row.unpriced_calls), latency_ms=latency_ms)


def latency_ms(since: datetime, until: datetime | None) -> int | None:
    return None if until is None else round((until - since).total_seconds() * 1000)


def cost_usd(nano: int | None, unpriced_calls: int = 0) -> str | None:
    """The cost as a decimal string without exponent or trailing zeros; None if the cost is unknown."""
    return None if nano is None or unpriced_calls else f"{(Decimal(nano) / NANO).normalize():f}"
