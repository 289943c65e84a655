"""What every shape that users see is made of."""

from contextvars import ContextVar
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from redraft.domain.jobs.job_errors import TITLES

_NANO = Decimal(10) ** 9


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]


ROOT_PATH: ContextVar[str] = ContextVar("root_path", default="")
"""What stands before every path of the API where the request came from: REDRAFT_ROOT_PATH, nothing elsewhere."""


def _from_outside(urls: dict[str, str]) -> dict[str, str]:
    root = ROOT_PATH.get()
    return {name: f"{root}{path}" for name, path in urls.items()}


Urls = Annotated[dict[str, str], PlainSerializer(_from_outside, when_used="json")]


class Resource(BaseModel):
    model_config = ConfigDict(frozen=True)


class RowFlaw(Resource):
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
    output_limit: int | None = Field(default=None, description="Of an answer that was cut off: at how many tokens.")


class UsageTotals(Resource):
    calls: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_usd: str | None
    latency_ms: int | None = Field(default=None, description="From the request to the end; null until then.")


def latency_ms(since: datetime, until: datetime | None) -> int | None:
    return None if until is None else round((until - since).total_seconds() * 1000)


def cost_usd(nano: int | None) -> str | None:
    """A decimal string without exponent or idle zeros; None stays None: unknown is not 0."""
    return None if nano is None else f"{(Decimal(nano) / _NANO).normalize():f}"
