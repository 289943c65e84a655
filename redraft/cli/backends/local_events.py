"""Yields the events of a job on this installation until the job ends."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Self

import redis

from redraft.errors import RedraftError
from redraft.messages import Delta
from redraft.operations.jobs import queries
from redraft.operations.jobs.resources import Event
from redraft.operations.services import Services
from redraft.queue import delta_channel, job_channel
from redraft.setting_values import redis_url
from redraft.settings import Settings

# Wake-up messages can be lost, so the database is also read at this interval
_POLL_EVERY_S = 1.5
# A worker ends a job soon after its deadline. If the job has not ended after this time, no worker is alive
_DEADLINE_SLACK_S = 15.0


class Wakeups(AbstractContextManager["Wakeups"]):
    """A subscription to the wake-up messages of one job. Messages that arrive between two waits are not lost.

    While a call waits, each received text delta is passed to `on_delta`.
    """

    def __init__(self, settings: Settings, job_id: str, on_delta: Callable[[Delta], None] | None = None) -> None:
        self._channels = [job_channel(job_id), *([delta_channel(job_id)] if on_delta else [])]
        self._on_delta = on_delta
        self._client = redis.Redis.from_url(redis_url(settings.effective_broker_url), socket_connect_timeout=1)
        self._pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        self._is_subscribed = False

    def __enter__(self) -> Self:
        # The subscription must precede the first read of events. Otherwise a message between the two would be lost
        self.wait(0)
        return self

    def __exit__(self, *_: object) -> None:
        self._pubsub.close()
        self._client.close()

    def wait(self, seconds: float) -> None:
        """Wait for the next wake-up message, at most `seconds`. Without a broker, wait for the whole time."""
        give_up_at = time.monotonic() + seconds
        try:
            if not self._is_subscribed:
                self._pubsub.subscribe(*self._channels)
                self._is_subscribed = True
            while self._is_delta(self._pubsub.get_message(timeout=max(0.0, give_up_at - time.monotonic()))):
                if time.monotonic() >= give_up_at:
                    return
        except (redis.RedisError, OSError):
            # Without a pause, the caller would read the database in a tight loop
            time.sleep(max(0.0, give_up_at - time.monotonic()))

    def _is_delta(self, message: Any) -> bool:
        """Pass a text delta to `on_delta`. Return whether the message is a delta; a wake-up message has no data."""
        if not (message and message["data"]):
            return False
        if self._on_delta and (delta := Delta.decode(message["data"])):
            self._on_delta(delta)
        return True


def follow(
    services: Services,
    job_id: str,
    after: int,
    keep_alive: Callable[[], None],
    deadline_s: float | None = None,
    on_delta: Callable[[Delta], None] | None = None,
) -> Iterator[Event]:
    """Yield the events after number `after`, each as soon as it is stored, until the job ends.

    Raises RedraftError (`deadline_exceeded`) if the deadline has passed and no worker has ended the job.
    """
    give_up_at = None if deadline_s is None else time.monotonic() + deadline_s + _DEADLINE_SLACK_S
    with Wakeups(services.settings, job_id, on_delta) as wakeups:
        while True:
            events, is_over = queries.list_events(services, job_id, after)
            yield from events
            if is_over:
                return
            after = events[-1].seq if events else after
            if give_up_at is not None and time.monotonic() > give_up_at:
                words = f"The deadline of job {job_id} has passed, but no worker is alive to end the job."
                raise RedraftError(words, code="deadline_exceeded")
            keep_alive()
            wakeups.wait(_POLL_EVERY_S)
