"""The backoff between attempts of a step."""

import random


def retry_wait_s(
    attempt: int,
    *,
    first_s: float,
    max_s: float,
    asked_s: float | None = None,
    rng: random.Random | None = None,
) -> float:
    """Return the seconds to wait: doubled per attempt, with jitter (half to whole), capped.

    The wait is never shorter than the provider asked for, because an earlier attempt would fail again.

    Args:
        attempt: how many attempts have failed, from 1.
        first_s: the wait after the first failure.
        max_s: the longest wait, unless the provider asks for more.
        asked_s: the provider's `retry-after`.
        rng: for tests.
    """
    grown = min(max_s, first_s * 2.0 ** min(attempt - 1, 30))
    jittered = grown * (rng or random).uniform(0.5, 1.0)
    return max(jittered, asked_s or 0.0)
