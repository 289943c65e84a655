"""Publishes messages to clients that watch jobs. One thread sends the messages of all threads in order.

Delivery is best effort: a message that cannot be sent is lost.
"""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

import redis
import structlog

log = structlog.get_logger()

_BATCH_MAX = 200
# Clients do not notice such a short delay. Without the delay, a busy worker would send ten times as many batches
_PAUSE_S = 0.05
# The maximum time that `close` waits for a broker that does not respond
_CLOSE_WITHIN_S = 3.0


class Publisher:
    """Sends publications from its own thread, so that `publish` never waits for the broker.

    Publications that the broker refuses are lost, so clients also poll. The first publication after a pause is sent at
    once, and later ones are sent in batches. While `is_paused` returns true, publications are dropped. `on_failure` is
    called when the broker refuses a batch.
    """

    def __init__(self, client: redis.Redis, *, is_paused: Callable[[], bool], on_failure: Callable[[], None]) -> None:
        self._client = client
        self._is_paused = is_paused
        self._on_failure = on_failure
        self._waiting: SimpleQueue[tuple[str, str] | None] = SimpleQueue()
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None

    def publish(self, channel: str, payload: str) -> None:
        if self._is_paused():
            return
        self._waiting.put((channel, payload))
        if self._thread is None:
            with self._turn:
                # This is checked again under the lock, since another thread may have started the publisher
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """Send the queued publications, within a bounded time."""
        with self._turn:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join(_CLOSE_WITHIN_S)

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch = self._take()
            is_open = None not in batch
            self._send([each for each in batch if each is not None])
            if is_open and len(batch) < _BATCH_MAX:
                time.sleep(_PAUSE_S)

    def _take(self) -> list[tuple[str, str] | None]:
        """Wait for a publication, and take all queued publications."""
        batch = [self._waiting.get()]
        # `empty` is reliable here, since no other thread takes from this queue
        while len(batch) < _BATCH_MAX and batch[-1] is not None and not self._waiting.empty():
            batch.append(self._waiting.get())
        return batch

    def _send(self, batch: list[tuple[str, str]]) -> None:
        if not batch or self._is_paused():
            return
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for channel, payload in batch:
                    pipeline.publish(channel, payload)
                pipeline.execute()
        except (redis.RedisError, OSError) as error:
            log.debug("publications_lost", count=len(batch), error=type(error).__name__)
            self._on_failure()
