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

_LONGEST_PAUSE_S = 0.1


def patient(seconds: float) -> float:
    """How long to wait for what takes less than `seconds` on a quiet machine."""
    return seconds * _PATIENCE


def wait_until(probe: Callable[[], T], *, within_s: float = 10.0, every_s: float = 0.02, what: str = "") -> T:
    """Call `probe` until it returns something true, and return that.

    The pauses grow from `every_s` with the time that has passed: probes ask databases, servers and the system.

    Raises:
        AssertionError: it did not within `patient(within_s)`.
    """
    began_at = time.monotonic()
    while True:
        found = probe()
        if found:
            return found
        passed_s = time.monotonic() - began_at
        if passed_s > patient(within_s):
            raise AssertionError(f"{what or probe} did not become true within {patient(within_s)} s")
        time.sleep(max(every_s, min(_LONGEST_PAUSE_S, passed_s / 10)))


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
