"""Ends a worker that is alive but deaf: its heart beats and its timers run, but no message reaches it.

Each worker sends itself a canary, a message to a queue of its own, through the same loop as all others. One that
hears nothing for a while ends, so that its supervisor starts another.
"""

import time
from collections.abc import Callable

import structlog

from redraft.queue import Queue

log = structlog.get_logger()

CHECKS_PER_PERIOD = 4
"""How often it looks within the time after which silence means deafness."""


class Watchdog:
    """One per worker process.

    Args:
        queue: the broker.
        worker_id: whose canary queue.
        deaf_after_s: how much silence is too much.
        is_excused: whether silence says nothing now: all threads are busy, so no message is taken, or it is stopping.
        on_deaf: what to do then.
    """

    def __init__(
        self,
        queue: Queue,
        worker_id: str,
        *,
        deaf_after_s: float,
        is_excused: Callable[[], bool],
        on_deaf: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._worker_id = worker_id
        self._deaf_after_s = deaf_after_s
        self._is_excused = is_excused
        self._on_deaf = on_deaf
        self._last_message_at = time.monotonic()

    def reset(self) -> None:
        """A message came."""
        self._last_message_at = time.monotonic()

    def check(self) -> None:
        """On a timer. Silence counts only while the broker takes canaries: without it nobody hears anything."""
        if self._is_excused() or not self._queue.send_canary(self._worker_id):
            self.reset()
            return
        silent_s = time.monotonic() - self._last_message_at
        if silent_s > self._deaf_after_s:
            log.error("worker_is_deaf", silent_s=round(silent_s, 1), setting="REDRAFT_DEAF_AFTER_S")
            self._on_deaf()
