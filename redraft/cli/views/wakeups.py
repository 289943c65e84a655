"""Waits for changes of a job: a wake-up message from the broker, or a timeout."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import redis

from redraft.jobs import Delta
from redraft.queue import delta_channel, job_channel
from redraft.setting_values import redis_url
from redraft.settings import Settings


class Wakeups:
    """A subscription to one job; a message between two waits is not lost.

    `on_delta` receives the text that is being generated, while it waits.
    """

    def __init__(self, settings: Settings, job_id: str, on_delta: Callable[[Delta], None] | None = None) -> None:
        self._channels = [job_channel(job_id), *([delta_channel(job_id)] if on_delta else [])]
        self._on_delta = on_delta
        self._client = redis.Redis.from_url(redis_url(settings.effective_broker_url), socket_connect_timeout=1)
        self._pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        self._is_subscribed = False

    def __enter__(self) -> Self:
        self.wait(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pubsub.close()
        self._client.close()

    def wait(self, seconds: float) -> None:
        """Return at the next wake-up, at the latest after `seconds`; an unreachable broker raises nothing."""
        give_up_at = time.monotonic() + seconds
        try:
            if not self._is_subscribed:
                self._pubsub.subscribe(*self._channels)
                self._is_subscribed = True
            while self._is_delta(self._pubsub.get_message(timeout=max(0.0, give_up_at - time.monotonic()))):
                if time.monotonic() >= give_up_at:
                    return
        except (redis.RedisError, OSError):
            time.sleep(max(0.0, give_up_at - time.monotonic()))

    def _is_delta(self, message: Any) -> bool:
        """Whether a message is not a wake-up; a delta goes to `on_delta`."""
        if not (message and message["data"]):
            return False
        if self._on_delta and (delta := Delta.decode(message["data"])):
            self._on_delta(delta)
        return True
