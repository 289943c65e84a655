"""Named fault points between the stages of a step, where the chaos tests kill or stop a process.

Only code can set a watcher; no setting does. `python -m tests.chaos.worker` is a worker with a watcher.
"""

from collections.abc import Callable
from enum import StrEnum

Watcher = Callable[["FaultPoint", str], None]


class FaultPoint(StrEnum):
    """The fault points, in the order in which a job reaches them."""

    SUBMITTED = "submitted"
    """The job is committed, no worker is notified yet."""
    CLAIMING = "claiming"
    """In the unit of work that claims the step and reserves its calls, before the commit."""
    CLAIMED = "claimed"
    """After the commit of that unit of work, before any call."""
    KEPT = "kept"
    """One of several replies is stored, the others are missing."""
    PARKED = "parked"
    """The calls of a step wait for a batch."""
    CALLED = "called"
    """The replies are received and must be paid, but nothing is stored."""
    STORING = "storing"
    """In the unit of work that stores the replies and advances the job, before the commit."""
    STORED = "stored"
    """After the commit of that unit of work, before any worker is notified."""
    NOTIFIED = "notified"
    """The broker has the message for the next step."""
    SUBMITTING = "submitting"
    """The calls of a batch are fixed, the provider has no batch yet."""
    SENT = "sent"
    """The provider has the batch, its id is not stored yet."""
    IMPORTING = "importing"
    """Some results of a batch are stored, the others are missing."""


_watchers: list[Watcher] = []


def watch(watcher: Watcher) -> None:
    """Call `watcher(fault_point, job_id)` from now on, in the thread that reaches a fault point."""
    _watchers.append(watcher)


def reached(fault_point: FaultPoint, job_id: str) -> None:
    for watcher in _watchers:
        watcher(fault_point, job_id)
