"""Ends a worker whose consumer is dead although its heartbeat and its timers run.

Each worker sends itself a canary: a message to its own queue, through the same loop as all others. A worker that
receives no message for some time ends, so that its supervisor starts another one.
"""

import time
from collections.abc import Callable

import structlog

from redraft.queue import Queue

log = structlog.get_logger()

CHECKS_PER_PERIOD = 4
"""The number of checks within `deaf_after_s`."""


class Watchdog:
    """One per worker process.

    Args:
        queue: the broker.
        worker_id: whose canary queue.
        deaf_after_s: how long a worker may receive no message.
        is_excused: whether it takes no messages now, because all threads are busy or it is stopping.
        on_deaf: called when it has received no message for that long.
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
        """Note that a message was received."""
        self._last_message_at = time.monotonic()

    def check(self) -> None:
        """Check on a timer. Time counts only while the broker takes canaries: without a broker no message can come."""
        if self._is_excused() or not self._queue.send_canary(self._worker_id):
            self.reset()
            return
        silent_s = time.monotonic() - self._last_message_at
        if silent_s > self._deaf_after_s:
            log.error("worker_is_deaf", silent_s=round(silent_s, 1), setting="REDRAFT_DEAF_AFTER_S")
            self._on_deaf()
