"""Waiting for something to become true: never a fixed sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# The bounds say when to give up on a quiet machine; a busy one gets more. Nothing waits longer than it must.
PATIENCE = 4.0


def wait_until(probe: Callable[[], T], *, within_s: float = 10.0, every_s: float = 0.02, what: str = "") -> T:
    """Call `probe` until it returns something true, and return that."""
    give_up_at = time.monotonic() + within_s * PATIENCE
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > give_up_at:
            raise AssertionError(f"{what or probe} did not become true within {within_s * PATIENCE} s")
        time.sleep(every_s)
