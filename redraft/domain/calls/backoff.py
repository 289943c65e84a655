"""The backoff between attempts of a step, and the waits that servers ask for.

The settings `retry_wait_s` and `retry_wait_max_s` in `redraft/settings.py` are the first and the longest wait.
"""

import math
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_wait_s(
    attempt: int, *, first_s: float, max_s: float, asked_s: float | None = None, rng: random.Random | None = None
) -> float:
    """Return the seconds to wait after a number of failed attempts: doubled each time, with jitter, capped.

    Args:
        attempt: the number of failed attempts, from 1.
        first_s: the wait after the first failed attempt.
        max_s: the longest wait, unless the provider asks for a longer one.
        asked_s: the provider's `retry-after`. The wait is never shorter, because an earlier attempt would fail again.
        rng: the source of the jitter, for tests.
    """
    # Without jitter, steps that failed at the same moment would also be retried at the same moment. The exponent is
    # bounded, because a float overflows at 2 ** 1024.
    grown = min(max_s, first_s * 2.0 ** min(attempt - 1, 30))
    return max(grown * (rng or random).uniform(0.5, 1.0), asked_s or 0.0)


def read_retry_after(text: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds of a `Retry-After` header, which has a number or a date. Return None for any other text."""
    seconds = read_seconds(text)
    if seconds is not None:
        return seconds
    try:
        date = parsedate_to_datetime(text or "")
    except (TypeError, ValueError, OverflowError):
        return None
    # A date without a zone is in UTC
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds())


def read_seconds(text: str | None) -> float | None:
    """Return a number of seconds, or None if the text is no number, or the number is negative or infinite."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
