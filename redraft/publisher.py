"""Publishes to watching clients: one thread sends the publications of all others, in order and best effort."""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

import redis
import structlog

log = structlog.get_logger()

_AT_ONCE = 200
# Too short for clients to notice; a busy worker sends a tenth of the bundles
_PAUSE_S = 0.05
# How long `close` waits for a broker that hangs
_GOODBYE_S = 3.0


class Publisher:
    """Sends publications from a thread of its own, so that `publish` never waits for the broker.

    What the broker does not take is lost, and clients poll. The first publication after a pause is sent at once, the
    next ones in bundles.

    Args:
        client: of the broker.
        rests: whether the broker is left alone now, since it failed a moment ago.
        rest: it failed.
    """

    def __init__(self, client: redis.Redis, *, rests: Callable[[], bool], rest: Callable[[], None]) -> None:
        self._client = client
        self._rests = rests
        self._rest = rest
        self._waiting: SimpleQueue[tuple[str, str] | None] = SimpleQueue()
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None

    def publish(self, channel: str, payload: str) -> None:
        if self._rests():
            return
        self._waiting.put((channel, payload))
        if self._thread is None:
            self._start()

    def close(self) -> None:
        """Send what is queued, within a bounded time."""
        with self._turn:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join(_GOODBYE_S)

    def _start(self) -> None:
        with self._turn:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        is_open = True
        while is_open:
            bundle = self._take()
            is_open = None not in bundle
            self._send([each for each in bundle if each is not None])
            if is_open and len(bundle) < _AT_ONCE:
                time.sleep(_PAUSE_S)

    def _take(self) -> list[tuple[str, str] | None]:
        """Take all queued publications, at least one."""
        bundle = [self._waiting.get()]
        while len(bundle) < _AT_ONCE and bundle[-1] is not None:
            try:
                bundle.append(self._waiting.get_nowait())
            except Empty:
                break
        return bundle

    def _send(self, bundle: list[tuple[str, str]]) -> None:
        if not bundle or self._rests():
            return
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for channel, payload in bundle:
                    pipeline.publish(channel, payload)
                pipeline.execute()
        except (redis.RedisError, OSError) as error:
            log.debug("publications_lost", count=len(bundle), error=type(error).__name__)
            self._rest()
