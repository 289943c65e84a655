"""Waits for changes of a job: a wake-up over the broker, or a look after a while when none comes."""

import time
from types import TracebackType
from typing import Self

import redis

from redraft.queue import job_channel, redis_url
from redraft.settings import Settings


class Wakeups:
    """Subscribed to one job; what is published between two waits is not lost."""

    def __init__(self, settings: Settings, job_id: str) -> None:
        self._channel = job_channel(job_id)
        self._client = redis.Redis.from_url(redis_url(settings), socket_connect_timeout=1)
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
        """Return at the next wake-up, after `seconds` at the latest; never raise for a broker that is away."""
        give_up_at = time.monotonic() + seconds
        try:
            if not self._is_subscribed:
                self._pubsub.subscribe(self._channel)
                self._is_subscribed = True
            self._pubsub.get_message(timeout=seconds)
        except (redis.RedisError, OSError):
            time.sleep(max(0.0, give_up_at - time.monotonic()))
