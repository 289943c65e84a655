"""Where a process may die: the boundaries of a step's moves, by name. The chaos tests break there; nothing else looks.

Only code can watch them, no setting does: `python -m tests.chaos.worker` is a worker that watches.
"""

from collections.abc import Callable
from enum import StrEnum

Watcher = Callable[["FaultPoint", str], None]


class FaultPoint(StrEnum):
    """In the order in which a job meets them."""

    SUBMITTED = "submitted"
    """The job is committed, nobody was rung for."""
    CLAIMING = "claiming"
    """In the unit of work that claims and reserves, before its commit."""
    CLAIMED = "claimed"
    """After that commit, before any call."""
    KEPT = "kept"
    """One of several replies is stored, others are still to come."""
    CALLED = "called"
    """The replies are here and paid, nothing is stored."""
    STORING = "storing"
    """In the unit of work that stores them and moves the job on, before its commit."""
    STORED = "stored"
    """After that commit, before anybody is rung for."""
    NOTIFIED = "notified"
    """The broker has the message for the next step."""


_watchers: list[Watcher] = []


def watch(watcher: Watcher) -> None:
    """Call `watcher(boundary, job_id)` in the thread that gets there, from now on."""
    _watchers.append(watcher)


def reached(fault_point: FaultPoint, job_id: str) -> None:
    for watcher in _watchers:
        watcher(fault_point, job_id)
