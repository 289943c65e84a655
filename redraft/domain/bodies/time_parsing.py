"""Parse the dates and times of filters, as people and programs write them."""

import re
from datetime import UTC, datetime

# The databases cannot compare times outside these years.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)
_TIME = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[Tt ](?P<time>\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(?P<zone>[Zz]|[+\- ]\d\d:?\d\d)?)?",
    re.ASCII,
)
HOW = "a date such as 2026-11-01, or a time such as 2026-11-01T08:30:00Z or 2026-11-01T08:30:00+02:00"


def read_time(text: str) -> datetime:
    """Parse a date or an RFC 3339 time. A time without an offset is in UTC; a date means its first moment.

    A blank before the offset counts as `+`, because that is how an unescaped `+` in a query string arrives. Times
    before 1970 and after 9997 are clamped, which changes no filter's result.

    Raises:
        ValueError: the text is no date and no time; the message says what to write.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"Write {HOW}")
    # RFC 3339 allows leap seconds, `datetime` does not.
    time = (found["time"] or "00:00").replace(":60", ":59")
    zone = (found["zone"] or "Z").upper().replace(" ", "+")
    try:
        moment = datetime.fromisoformat(f"{found['date']}T{time}{zone}")
    except ValueError as error:
        raise ValueError(f"There is no such date or time ({error}). Write {HOW}") from None
    # Conversion to UTC overflows near the first and the last year of `datetime`.
    if not 1 < moment.year < 9999:
        return _FIRST if moment.year == 1 else _LAST
    return min(max(moment.astimezone(UTC), _FIRST), _LAST)
