"""The text of an answer while it is written: pieces from a provider, bundled on their way to whoever watches."""

import time
from collections.abc import Callable

from redraft.domain.texts import clean
from redraft.jobs import Delta
from redraft.operations.calling import Slot
from redraft.queue import Queue

_PAUSE_S = 0.05


class DeltaTeller:
    """Takes pieces as they come and publishes them some twenty times a second; best effort, nothing is stored.

    They are cleaned as the stored answer is, so that it equals their sum.
    """

    def __init__(self, queue: Queue, slot: Slot, attempt: int, is_ours: Callable[[], bool]) -> None:
        self._queue = queue
        self._slot = slot
        self._attempt = attempt
        self._is_ours = is_ours
        self._pending: list[str] = []
        self._offset = 0
        self._told_at = 0.0

    def __call__(self, piece: str) -> None:
        self._pending.append(piece)
        if time.monotonic() - self._told_at >= _PAUSE_S:
            self.flush()

    def flush(self) -> None:
        """Publish what is pending."""
        text = clean("".join(self._pending))
        self._pending.clear()
        if not text or not self._is_ours():
            return
        slot = self._slot
        self._queue.publish_delta(slot.job_id, Delta(slot.iteration, slot.candidate, self._attempt, self._offset, text))
        self._offset += len(text)
        self._told_at = time.monotonic()
