"""Reports the usage and cost of all model calls, by day and model."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from redraft.errors import Invalid
from redraft.operations.resource_base import CallTotals, Moment, Resource, cost_usd
from redraft.operations.services import Services
from redraft.storage.admin import usage
from redraft.storage.admin.usage import UsageFilter

DAYS_USUAL = 30
DAYS_MAX = 366
LINES_MAX = 1000


class UsageSums(CallTotals):
    """The usage of several calls, including failed calls."""

    failed_calls: int
    cached_calls: int
    unpriced_calls: int = Field(description="Calls with an unknown cost.")


class UsageLine(UsageSums):
    """The calls to one model that ended on one day, in UTC."""

    day: str = Field(json_schema_extra={"format": "date"})
    model: str


class UsageReport(Resource):
    """All calls in a span of time, without calls of deleted jobs."""

    object: Literal["usage"] = "usage"
    created_after: Moment
    created_before: Moment
    total: UsageSums
    data: list[UsageLine] = Field(description="Newest day first.")
    has_more: bool = Field(description=f"There are more than {LINES_MAX} lines: narrow the span, or name a model.")


def report(
    services: Services,
    *,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    model: str | None = None,
    kind: str | None = None,
) -> UsageReport:
    """Report the usage of the calls that ended within a span. The default span is the last 30 days.

    Raises Invalid if the span is longer than a year (`span_too_long`), or ends before it begins (`empty_span`).
    """
    until = created_before or datetime.now(UTC)
    since = created_after or until - timedelta(days=DAYS_USUAL)
    if since > until:
        raise Invalid.at("/created_before", "created_before is earlier than created_after.", "empty_span")
    if until - since > timedelta(days=DAYS_MAX):
        words = f"The span is longer than {DAYS_MAX} days: name created_after and created_before."
        raise Invalid.at("/created_after", words, "span_too_long")
    criteria = UsageFilter(since, until, model, kind)
    with services.database.read() as connection:
        total = usage.total(connection, criteria)
        lines = usage.by_day_and_model(connection, criteria, LINES_MAX + 1)
    return UsageReport(
        created_after=since,
        created_before=until,
        total=UsageSums.model_validate(_priced(total)),
        data=[UsageLine.model_validate(_priced(line)) for line in lines[:LINES_MAX]],
        has_more=len(lines) > LINES_MAX,
    )


def _priced(sums: Mapping[str, Any]) -> dict[str, Any]:
    return {**sums, "cost_usd": cost_usd(sums["cost_nano_usd"], sums["unpriced_calls"])}
