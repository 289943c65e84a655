"""What every shape that users see is made of."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer

_NANO = Decimal(10) ** 9


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]


class Resource(BaseModel):
    model_config = ConfigDict(frozen=True)


def cost_usd(nano: int | None) -> str | None:
    """A decimal string without exponent or idle zeros; None stays None: unknown is not 0."""
    return None if nano is None else f"{(Decimal(nano) / _NANO).normalize():f}"
