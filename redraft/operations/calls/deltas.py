"""Publishes the text of an answer while it is generated."""

import time
from collections.abc import Callable

from redraft.domain.text.cleaning import clean
from redraft.messages import Delta
from redraft.operations.calls.model_calls import Slot
from redraft.queue import Queue

_PAUSE_S = 0.1


class DeltaPublisher:
    """Joins pieces of text and publishes them about ten times a second. Lost pieces are not sent again.

    The pieces are cleaned like the stored answer, so that the joined pieces equal it. An empty piece removes all
    earlier pieces.
    """

    def __init__(self, queue: Queue, slot: Slot, attempt: int, is_ours: Callable[[], bool]) -> None:
        self._queue = queue
        self._slot = slot
        self._attempt = attempt
        self._is_ours = is_ours
        self._pending: list[str] = []
        self._offset = 0
        self._published_at = 0.0

    def __call__(self, piece: str) -> None:
        if not piece:
            self._pending, self._offset = [], 0
        self._pending.append(piece)
        if time.monotonic() - self._published_at >= _PAUSE_S:
            self.flush()

    def flush(self) -> None:
        """Publish the pending pieces."""
        raw = "".join(self._pending)
        # The first half of a surrogate pair is not a character, so it is published with the second half
        is_half = raw[-1:] >= "\ud800" and raw[-1:] <= "\udbff"
        self._pending = [raw[-1]] if is_half else []
        text = clean(raw[:-1] if is_half else raw)
        if not text:
            return
        slot = self._slot
        # Without the lease, another worker may publish the text of the same slot
        if self._is_ours():
            delta = Delta(slot.iteration, slot.candidate, self._attempt, self._offset, text)
            self._queue.publish_delta(slot.job_id, delta)
        self._offset += len(text)
        self._published_at = time.monotonic()
