"""Waiting for something to become true: never a fixed sleep. Every bound of time in the tests is made here."""

import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

# Bounds say when to give up on a quiet machine; a busy or slow one gets more. Nothing waits longer than it must.
_PATIENCE = float(os.environ.get("REDRAFT_TEST_PATIENCE", "4"))


def patient(seconds: float) -> float:
    """How long to wait for what takes less than `seconds` on a quiet machine."""
    return seconds * _PATIENCE


def wait_until(probe: Callable[[], T], *, within_s: float = 10.0, every_s: float = 0.02, what: str = "") -> T:
    """Call `probe` until it returns something true, and return that.

    Raises:
        AssertionError: it did not within `patient(within_s)`.
    """
    give_up_at = time.monotonic() + patient(within_s)
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > give_up_at:
            raise AssertionError(f"{what or probe} did not become true within {patient(within_s)} s")
        time.sleep(every_s)


def let_pass(seconds: float) -> None:
    """Time that goes by because the test is about it: how long a fault lasts, a lease that expires."""
    threading.Event().wait(seconds)


@contextmanager
def cpu_bound(seconds: float) -> Generator[None]:
    """What is done inside computes for less than `seconds` on a quiet machine; waiting does not count."""
    before = time.thread_time()
    yield
    used = time.thread_time() - before
    assert used < patient(seconds), f"{used:.1f} s of CPU"
