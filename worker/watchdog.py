"""Ends a worker whose consumer receives no messages, although its heartbeat and its timers run.

Each worker sends canaries to itself. A canary is a message in the worker's own queue, and the consumer handles it like
all messages. A worker that receives no message for some time ends, so that its supervisor starts another worker.
"""

import time
from collections.abc import Callable

import structlog

from redraft.queue import Queue

log = structlog.get_logger()

CHECKS_PER_PERIOD = 4
"""The number of checks within `deaf_after_s`."""


class Watchdog:
    """The watchdog of a worker process.

    Args:
        queue: the broker.
        worker_id: the id of this worker, which names its canary queue.
        deaf_after_s: the longest time without a received message.
        is_excused: whether the worker takes no messages now, because all its slots are used or it is stopping.
        on_deaf: called when the worker has received no message for `deaf_after_s`.
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
        """Record that a message was received."""
        self._last_message_at = time.monotonic()

    def check(self) -> None:
        """Check the time since the last message. It counts only while the broker accepts canaries."""
        if self._is_excused() or not self._queue.send_canary(self._worker_id):
            self.reset()
            return
        silent_s = time.monotonic() - self._last_message_at
        if silent_s > self._deaf_after_s:
            log.error("worker_receives_no_messages", silent_s=round(silent_s, 1), setting="REDRAFT_DEAF_AFTER_S")
            self._on_deaf()
