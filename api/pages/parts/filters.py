"""Template filters, which format values for pages."""

from datetime import UTC, datetime
from decimal import Decimal

from markupsafe import Markup, escape

from redraft.domain.bulk.phrases import format_score, format_threshold
from redraft.domain.bulk.phrases import percent as format_share
from redraft.domain.text.control_characters import reveal

_CENT, _COST_SHOWN_MIN = Decimal("0.01"), Decimal("0.0001")
UNKNOWN = "\N{EN DASH}"
_STEPS = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (float("inf"), 86_400, "d"))


def shown(value: object) -> object:
    """Make the control characters of a template value visible. The template escapes the value afterwards."""
    return value if isinstance(value, Markup) else reveal(str(value))


def ago(moment: datetime | None) -> Markup | str:
    """Return the time since a moment as HTML, which a script of the page keeps up to date."""
    if moment is None:
        return UNKNOWN
    moment = moment.astimezone(UTC)
    exact = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    words = since(max(0.0, (datetime.now(UTC) - moment).total_seconds()))
    return Markup('<time datetime="{}" title="{}">{} ago</time>').format(exact, exact, words)


def elapsed(since: datetime) -> Markup:
    """Return the duration of something that still runs as HTML, which a script of the page keeps up to date."""
    seconds = int(max(0.0, (datetime.now(UTC) - since.astimezone(UTC)).total_seconds()))
    words = f"{seconds} s" if seconds < 60 else duration(seconds * 1000)
    exact = since.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="since {}" data-elapsed>{}</time>').format(exact, exact, words)


def offset(moment: str, start: datetime) -> str:
    """Return the time from the start of a job to an event, such as `+0.25 s`. `moment` is in the form of RFC 3339."""
    return f"{(datetime.fromisoformat(moment) - start).total_seconds():+.2f} s"


def since(seconds: float) -> str:
    """Return a time span in one unit, such as `12 s`, `3 min`, `5 h` or `2 d`."""
    _, unit, name = next(step for step in _STEPS if seconds < step[0])
    return f"{int(seconds // unit)} {name}"


def duration(ms: float | None) -> str:
    """Return a duration in milliseconds as text, such as `120 ms`, `4.2 s` or `3 min 5 s`."""
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
    """Return a cost in USD as text: with cents, or below a cent with two significant digits. None becomes a dash."""
    if cost is None:
        return UNKNOWN
    amount = Decimal(cost)
    if 0 < amount < _COST_SHOWN_MIN:
        return f"<${_COST_SHOWN_MIN}"
    digits = 1 - amount.adjusted() if 0 < amount < _CENT else 2
    return f"${amount:,.{digits}f}"


def breakable(name: str) -> Markup:
    """Return a name as HTML that a browser breaks into lines only after underscores."""
    return escape(reveal(name)).replace("_", Markup("_<wbr>"))


def score(value: float | None) -> str:
    return UNKNOWN if value is None else format_score(value)


def threshold(value: float | None) -> str:
    return UNKNOWN if value is None else format_threshold(value)


def percent(part: int, whole: int) -> str:
    return format_share(part / whole) if whole else UNKNOWN


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def clip(text: str | None, chars: int) -> str:
    """Return the first characters of a text on one line."""
    # Only a part is folded, because a text can have megabytes. Four times the length suffices even with much white
    # space
    folded = " ".join((text or "")[: chars * 4].split())
    return folded if len(folded) <= chars else folded[: chars - 1] + "…"
