"""How long a step waits before it is tried again."""

import random


def retry_wait_s(
    attempt: int,
    *,
    first_s: float,
    max_s: float,
    asked_s: float | None = None,
    rng: random.Random | None = None,
) -> float:
    """Doubling waits with jitter (half to whole), capped, but never shorter than the provider asked.

    Args:
        attempt: how many attempts have failed, from 1.
        first_s: the wait after the first failure.
        max_s: the longest own wait.
        asked_s: the provider's `retry-after`.
        rng: for tests.
    """
    grown = min(max_s, first_s * 2.0 ** min(attempt - 1, 30))
    jittered = grown * (rng or random).uniform(0.5, 1.0)
    return max(jittered, asked_s or 0.0)
