"""Template filters: how pages show values."""

from datetime import UTC, datetime
from decimal import Decimal

from markupsafe import Markup, escape

from redraft.domain.bulk.phrases import format_score
from redraft.domain.text.control_characters import reveal

_CENT, _COST_SHOWN_MIN = Decimal("0.01"), Decimal("0.0001")
UNKNOWN = "\N{EN DASH}"
_STEPS = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (float("inf"), 86_400, "d"))


def shown(value: object) -> object:
    """Finalize a value of a template: control characters become visible; the template escapes it."""
    return value if isinstance(value, Markup) else reveal(str(value))


def ago(moment: datetime | None) -> Markup | str:
    """Return a time as its distance from now, which the page keeps up to date."""
    if moment is None:
        return UNKNOWN
    moment = moment.astimezone(UTC)
    exact = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    words = since(max(0.0, (datetime.now(UTC) - moment).total_seconds()))
    return Markup('<time datetime="{}" title="{}">{} ago</time>').format(exact, exact, words)


def since(seconds: float) -> str:
    """Return a span in one unit: `12 s`, `3 min`, `5 h`, `2 d`."""
    _, unit, name = next(step for step in _STEPS if seconds < step[0])
    return f"{int(seconds // unit)} {name}"


def duration(ms: float | None) -> str:
    """Return a measured time: `120 ms`, `4.2 s`, `3 min 5 s`."""
    if ms is None:
        return UNKNOWN
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def usd(cost: str | None) -> str:
    """Return a cost in USD: cents, or below a cent two significant digits; a dash for an unknown cost, never 0."""
    if cost is None:
        return UNKNOWN
    amount = Decimal(cost)
    if 0 < amount < _COST_SHOWN_MIN:
        return f"<${_COST_SHOWN_MIN}"
    digits = 1 - amount.adjusted() if 0 < amount < _CENT else 2
    return f"${amount:,.{digits}f}"


def breakable(name: str) -> Markup:
    """Return a name that breaks into lines only after its underscores."""
    return escape(reveal(name)).replace("_", Markup("_<wbr>"))


def score(value: float | None) -> str:
    return UNKNOWN if value is None else format_score(value)


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def clip(text: str | None, chars: int) -> str:
    """Return the beginning of a text on one line."""
    # Four times as much: a text of megabytes is not folded as a whole, and white space leaves enough of it
    folded = " ".join((text or "")[: chars * 4].split())
    return folded if len(folded) <= chars else folded[: chars - 1] + "…"
