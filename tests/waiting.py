"""Wait for what must come true, never for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_until(look: Callable[[], Found], *, timeout_s: float = 10.0, every_s: float = 0.02, what: str = "") -> Found:
    """The first truthy value that `look` returns; an AssertionError when none came in time."""
    give_up_at = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > give_up_at:
            raise AssertionError(f"not true within {timeout_s} s: {what or look}")
        time.sleep(every_s)
