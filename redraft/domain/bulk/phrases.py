"""Describe figures in words, with interval and count. No text calls an insignificant difference "equal"."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import floor
from typing import Literal

from redraft.domain.statistics.estimates import Estimate, Mean

# Below this number of rows, a bootstrap interval is too narrow to show a difference.
ROWS_NEEDED = 20
SIGNIFICANT = 0.05

Unit = Literal["score", "points"]
Direction = Literal["higher", "lower"]

_NAMES_MAX = 5


def direction_shown(difference: Mean | None) -> Direction | None:
    """Return the direction of a difference if it is significant: enough rows, and an interval without 0."""
    if difference is None or difference.low is None or difference.high is None or difference.clusters < ROWS_NEEDED:
        return None
    if difference.low > 0:
        return "higher"
    return "lower" if difference.high < 0 else None


def describe_difference(
    what: str, difference: Mean | None, *, than: str, unit: Unit = "score", p: float | None = None
) -> str:
    """Describe a paired difference in sentences.

    Args:
        what: the figure that differs, such as "mean score".
        difference: new minus old, over rows.
        than: the other side, such as "the baseline".
        unit: `points` writes shares as percentage points.
        p: the p-value of an exact test, which decides instead of the interval. If the p-value and the interval
            disagree, the text says so.
    """
    if difference is None:
        return f"The {what} cannot be compared with {than}: no row has it on both sides."
    value = _signed(difference.value, unit)
    rows = count(difference.clusters, "row")
    if difference.low is None or difference.high is None:
        return f"The {what} against {than} is {value}, of {rows}: from so few no interval can be computed."
    span = f"95 % interval {_signed(difference.low, unit)} to {_signed(difference.high, unit)}, {rows}"
    facts = span if p is None else f"{span}, {format_p(p)}"
    shown = direction_shown(difference)
    if p is not None:
        shown = "higher" if difference.value > 0 else "lower" if difference.value < 0 else None
        shown = shown if p < SIGNIFICANT else None
    excludes_0 = difference.low > 0 or difference.high < 0
    if shown:
        doubt = "" if excludes_0 else " The exact test shows it; the interval, which holds 0, does not."
        return f"The {what} is {shown} than {than} by {value.lstrip('+-')} ({facts}).{doubt}"
    if excludes_0:
        doubt = f"from fewer than {ROWS_NEEDED} rows it is too narrow to rely on."
        doubt = doubt if p is None else "the exact test, which decides, says that chance alone may cause this."
        return (
            f"The {what} may or may not differ from {than}: {value} ({facts}). The interval leaves out 0, but {doubt}"
        )
    if difference.low == difference.high and difference.clusters >= ROWS_NEEDED:
        return (
            f"No difference in the {what} shown against {than}: there is none in any of {rows}. "
            "Without variation nothing can be said about other rows."
        )
    is_small = difference.clusters < ROWS_NEEDED
    few = f"With fewer than {ROWS_NEEDED} rows, only a large difference can be detected."
    limit = few if is_small else "Any within that interval is possible."
    return f"No difference in the {what} shown against {than}: {value} ({facts}). {limit}"


def format_share(share: Estimate | None) -> str:
    if share is None:
        return "no share (no items)"
    return f"{percent(share.value)} (95 % interval {percent(share.low)} to {percent(share.high)})"


def format_names(names: Sequence[str]) -> str:
    """List the first names, and the number of the remaining ones."""
    shown = ", ".join(names[:_NAMES_MAX])
    return shown if len(names) <= _NAMES_MAX else f"{shown} and {len(names) - _NAMES_MAX} more"


def format_p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def format_score(score: float) -> str:
    """Format a score with two decimals, rounded down, so that 0.799 does not read as 0.80."""
    return f"{floor(score * 100 + 1e-9) / 100:.2f}"


def format_threshold(threshold: float) -> str:
    """Format a threshold like a score, but with all its decimals: an answer with 0.803 misses 0.805."""
    text = f"{threshold:.2f}"
    return text if float(text) == threshold else str(threshold)


def format_change(difference: float) -> str:
    """Format a difference of scores. It has three decimals, because small differences of means matter."""
    # Adding 0.0 turns -0.0 into 0.0
    return f"{round(difference, 3) + 0.0:+.3f}"


def percent(share: float) -> str:
    """Format a share with one decimal, rounded down like a score, so that 79.96 % does not read as 80.0 %."""
    return f"{floor(share * 1000 + 1e-9) / 10:.1f} %"


def dollars(cost: Decimal) -> str:
    """Format a cost: two decimals from one cent upwards ($0.80), two significant digits below one cent ($0.0042)."""
    if cost == 0 or abs(cost) >= Decimal("0.01"):
        return f"${cost:.2f}"
    return f"${cost:.{1 - cost.adjusted()}f}"


def grouped_lines(errors: Iterable[tuple[int, str]]) -> list[tuple[str, str]]:
    """Pair each error text once with the lines that have it, in words such as `lines 2 to 9, 12`.

    The lines of a file must be in order.
    """
    spans: dict[str, list[list[int]]] = {}
    for line, text in errors:
        found = spans.setdefault(text, [])
        if found and line <= found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return [(_lines(found), text) for text, found in spans.items()]


def _lines(spans: Sequence[Sequence[int]]) -> str:
    words = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans)
    return f"line {words}" if words.isdigit() else f"lines {words}"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _signed(value: float, unit: Unit) -> str:
    return format_points(value) if unit == "points" else format_change(value)


def format_points(difference: float) -> str:
    """Format a difference of shares. It has a decimal more than a share, because both shares are rounded down."""
    return f"{round(difference * 100, 2) + 0.0:+.2f} points"
