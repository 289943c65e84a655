"""Formats figures as short texts for table cells. An unknown figure is a dash."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

from redraft.domain.bulk.comparison_metrics import Metric, Unit
from redraft.domain.bulk.phrases import count, dollars, format_change, format_points, format_score, percent
from redraft.domain.statistics.estimates import Correlation, Estimate, Mean

DASH = "\N{EN DASH}"

_Interval = Mean | Correlation | None


def score(value: float | None) -> str:
    return DASH if value is None else format_score(value)


def change(value: float | None) -> str:
    return DASH if value is None else format_change(value)


def points(value: float | None) -> str:
    return DASH if value is None else format_points(value)


def share(estimate: Estimate | None) -> str:
    return DASH if estimate is None else percent(estimate.value)


def share_span(estimate: Estimate | None) -> str:
    return DASH if estimate is None else f"{percent(estimate.low)} to {percent(estimate.high)}"


def span(mean: _Interval, written: Callable[[float], str] = score) -> str:
    """Format the interval of a mean or a correlation with `written`."""
    if mean is None or mean.low is None or mean.high is None:
        return DASH
    return f"{written(mean.low).removesuffix(' points')} to {written(mean.high)}"


def row(name: str, mean: _Interval, written: Callable[[float | None], str] = score) -> tuple[str, str, str]:
    """Format a table row of a name, a value and its interval."""
    return name, written(mean.value if mean else None), span(mean, written)


def metric(found: Metric) -> tuple[str, str]:
    """Format both values of a metric, and their difference with its interval and the number of rows behind it."""
    value, difference = _UNITS[found.unit]
    words = paired_interval(found.difference, span(found.difference, difference), _PAIRED[found.unit])
    return f"{value(found.baseline)} → {value(found.new)}", f"{difference(found.difference.value)}, {words}"


def paired_interval(difference: Mean, interval: str, what: str = "verdict") -> str:
    """Describe the interval of a paired difference. Rows that lack the figure in one of the runs do not count."""
    words = "no interval: too few rows" if interval == DASH else f"95 % interval {interval}"
    return f"{words}; only the {count(difference.clusters, 'row')} with a {what} in both runs"


def _signed(written: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: ("-" if value < 0 else "+") + written(abs(value))


def _price(value: float) -> str:
    return price(Decimal(repr(value)))


def money(cost: Decimal | None) -> str:
    return "unknown" if cost is None else dollars(cost)


def price(cost: Decimal | None) -> str:
    """Format the cost of one item or answer."""
    # Prices below a dollar have three significant digits, so that similar prices can be distinguished
    if cost is None or cost == 0 or cost >= 1:
        return money(cost)
    return f"${cost:.{2 - cost.adjusted()}f}"


def number(value: float | None) -> str:
    """Format a count, or a mean of counts, with separators of thousands."""
    return DASH if value is None else f"{value:,.0f}"


def seconds(value: float) -> str:
    # The limits are a little below 60 and 10, because otherwise 59.96 would be rounded to 60.0 s
    if value < 59.95:
        return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"
    whole = round(value)
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{value / 3600:,.1f} h"


def moment(at: datetime | None) -> str:
    return DASH if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or DASH


_PAIRED: Mapping[Unit, str] = {"share": "verdict", "score": "verdict", "usd": "known cost", "seconds": "known time"}
# How a value and a difference of each unit are written
_UNITS: Mapping[Unit, tuple[Callable[[float], str], Callable[[float], str]]] = {
    "share": (percent, points),
    "score": (score, change),
    "usd": (_price, _signed(_price)),
    "seconds": (seconds, _signed(seconds)),
}
