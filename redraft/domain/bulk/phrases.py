"""Word figures with their interval and count. A difference that is not significant is never called equal."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from redraft.domain.statistics.estimates import Estimate, Mean

ROWS_NEEDED = 20
"""Below this many rows a bootstrap interval is too narrow to show a difference by itself."""

SIGNIFICANT = 0.05
"""A p-value below this shows a difference."""

Unit = Literal["score", "points"]
Direction = Literal["higher", "lower"]

_NAMES_MAX = 5
_WITHIN = "Any within that interval is possible."


def direction_shown(difference: Mean | None) -> Direction | None:
    """Which way a difference goes, if its interval shows one: enough rows, and 0 outside of it."""
    if difference is None or difference.low is None or difference.high is None or difference.clusters < ROWS_NEEDED:
        return None
    if difference.low > 0:
        return "higher"
    return "lower" if difference.high < 0 else None


def say_difference(
    what: str, difference: Mean | None, *, than: str, unit: Unit = "score", p: float | None = None
) -> str:
    """A paired difference as a sentence.

    Args:
        what: what differs, such as "mean score".
        difference: the new less the old, over rows; both in 0 to 1.
        than: what it is compared with, such as "the baseline".
        unit: `points` says shares as percentage points.
        p: of an exact test; where there is one, it and not the interval says whether a difference is shown. Where
            both disagree, the words tell what each says.
    """
    if difference is None:
        return f"The {what} cannot be compared with {than}: no row has it on both sides."
    value = _signed(difference.value, unit)
    rows = count(difference.clusters, "row")
    if difference.low is None or difference.high is None:
        return f"The {what} against {than} is {value}, of {rows}: from so few no interval can be told."
    span = f"95 % interval {_signed(difference.low, unit)} to {_signed(difference.high, unit)}, {rows}"
    facts = span if p is None else f"{span}, {say_p(p)}"
    shown = direction_shown(difference) if p is None else _direction(difference) if p < SIGNIFICANT else None
    leaves_out_0 = difference.low > 0 or difference.high < 0
    if shown:
        doubt = "" if leaves_out_0 else " The exact test shows it; the interval, which holds 0, does not."
        return f"The {what} is {shown} than {than} by {value.lstrip('+-')} ({facts}).{doubt}"
    if leaves_out_0:
        return f"Whether the {what} differs from {than} is open: {value} ({facts}). {_say_doubt(p)}"
    if difference.low == difference.high and difference.clusters >= ROWS_NEEDED:
        return (
            f"No difference in the {what} shown against {than}: there is none in any of {rows}. "
            "Without variation there is no telling how other rows would do."
        )
    limit = "So few rows show only large ones." if difference.clusters < ROWS_NEEDED else _WITHIN
    return f"No difference in the {what} shown against {than}: {value} ({facts}). {limit}"


def _say_doubt(p: float | None) -> str:
    """Why an interval that leaves out 0 is not taken for a difference."""
    if p is None:
        return f"The interval leaves out 0, but from fewer than {ROWS_NEEDED} rows it is too narrow to rely on."
    return "The interval leaves out 0, but the exact test, which decides, says that chance alone may bring this."


def _direction(difference: Mean) -> Direction | None:
    if difference.value == 0:
        return None
    return "higher" if difference.value > 0 else "lower"


def say_share(share: Estimate | None) -> str:
    if share is None:
        return "none to tell from"
    return f"{percent(share.value)} (95 % interval {percent(share.low)} to {percent(share.high)})"


def say_names(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_NAMES_MAX])
    return shown if len(names) <= _NAMES_MAX else f"{shown} and {len(names) - _NAMES_MAX} more"


def say_p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def say_score(score: float) -> str:
    """With two digits, cut and not rounded: 0.799 does not read as 0.8."""
    return f"{int(score * 100 + 1e-9) / 100:.2f}"


def percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def dollars(cost: Decimal) -> str:
    """Two places from a cent on, else the two digits that count: $0.80, $0.0042."""
    if cost == 0 or abs(cost) >= Decimal("0.01"):
        return f"${cost:.2f}"
    return f"${cost:.{1 - cost.adjusted()}f}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _signed(value: float, unit: Unit) -> str:
    if unit == "points":
        return f"{round(value * 100, 1) + 0.0:+.1f} points"
    return f"{round(value, 3) + 0.0:+.3f}"
