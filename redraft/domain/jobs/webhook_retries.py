"""When a failed webhook delivery is tried again, and how often: the schedule of Standard Webhooks 1.0."""

import random

WAITS_S = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""The waits after the first failed attempt, the second, and so on. Standard Webhooks recommends this schedule."""
ATTEMPTS_MAX = len(WAITS_S) + 1
WAIT_MAX_S = 86_400.0
_JITTER = 0.1


def attempts_left(attempts: int, attempts_before: int) -> int:
    """Return how many attempts a delivery has left. The `attempts_before` its latest redelivery do not count."""
    return max(0, ATTEMPTS_MAX - (attempts - attempts_before))


def wait_s(failures: int, *, asked_s: float | None = None, rng: random.Random | None = None) -> float | None:
    """Return the seconds to wait after a number of failed attempts (from 1), or None if no attempt is left.

    `asked_s` is the receiver's `Retry-After`. The wait is at least as long; a value above one day counts as one day.
    """
    if failures >= ATTEMPTS_MAX:
        return None
    # Because of the jitter, deliveries that the same outage delayed are not repeated at the same moment.
    own_s = WAITS_S[failures - 1] * (rng or random).uniform(1, 1 + _JITTER)
    return max(own_s, min(asked_s or 0.0, WAIT_MAX_S))
