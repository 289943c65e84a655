"""Formats figures as short texts for table cells; an unknown figure is a dash."""

from datetime import UTC, datetime
from decimal import Decimal

from redraft.domain.bulk.phrases import dollars, percent
from redraft.domain.statistics.estimates import Correlation, Estimate, Mean

DASH = "\N{EN DASH}"
"""Stands for an unknown figure."""


def score(value: float | None) -> str:
    return DASH if value is None else f"{round(value, 3) + 0.0:.3f}"


def change(value: float | None) -> str:
    return DASH if value is None else f"{round(value, 3) + 0.0:+.3f}"


def points(value: float | None) -> str:
    """A difference of shares."""
    return DASH if value is None else f"{round(value * 100, 1) + 0.0:+.1f} points"


def share(estimate: Estimate | None) -> str:
    return DASH if estimate is None else percent(estimate.value)


def share_span(estimate: Estimate | None) -> str:
    return DASH if estimate is None else f"{percent(estimate.low)} to {percent(estimate.high)}"


def span(mean: Mean | Correlation | None) -> str:
    if mean is None or mean.low is None or mean.high is None:
        return DASH
    return f"{score(mean.low)} to {score(mean.high)}"


def change_span(mean: Mean | None) -> str:
    if mean is None or mean.low is None or mean.high is None:
        return DASH
    return f"{change(mean.low)} to {change(mean.high)}"


def points_span(mean: Mean | None) -> str:
    if mean is None or mean.low is None or mean.high is None:
        return DASH
    return f"{points(mean.low).removesuffix(' points')} to {points(mean.high)}"


def money(cost: Decimal | None) -> str:
    return "unknown" if cost is None else dollars(cost)


def price(cost: Decimal | None) -> str:
    """What one thing cost: three digits that count below a dollar, so that near prices can be told apart."""
    if cost is None or cost == 0 or cost >= 1:
        return money(cost)
    return f"${cost:.{2 - cost.adjusted()}f}"


def number(value: float | None) -> str:
    """A count, or a mean of counts, with its thousands told apart."""
    return DASH if value is None else f"{value:,.0f}"


def seconds(value: float) -> str:
    if value < 59.95:
        return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{value / 3600:,.1f} h"


def moment(at: datetime | None) -> str:
    return DASH if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else DASH
