"""How messages are taken: as many as there are free threads, and each is gone from the broker once received.

Celery's early acknowledgement comes a moment later and costs Redis two transactions a message, an eighth of a
worker's CPU. What is lost with a worker in that moment is rung again by the sweeper, as after it.
"""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, tzinfo
from typing import Any, cast

import structlog
from celery import Task
from celery.concurrency.thread import TaskPool
from celery.worker.request import Request
from kombu import Queue
from kombu.asynchronous import get_event_loop
from kombu.transport import TRANSPORT_ALIASES, redis

from redraft.jobs import BULK_QUEUE, INTERACTIVE_QUEUE

log = structlog.get_logger()

STEPS = (Queue(INTERACTIVE_QUEUE, no_ack=True), Queue(BULK_QUEUE, no_ack=True))


_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Unacknowledged(redis.QoS):
    """Drops what is no message among those that wait to be delivered again: each worker looks at them at its start."""

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:  # noqa: FBT001, FBT002 - kombu's
        try:
            cast("Any", super()).restore_by_tag(tag, client, leftmost)
        except _MALFORMED as error:
            log.warning("malformed_message_dropped", error=type(error).__name__)
            with cast("Any", self).channel.conn_or_acquire(client) as connection:
                connection.zrem(self.unacked_index_key, tag)
                connection.hdel(self.unacked_key, tag)


class Channel(redis.Channel):
    """Drops what is no message: whoever can write to the broker must not be able to end its workers."""

    QoS = Unacknowledged

    def _brpop_read(self, **options: Any) -> Any:
        return self._without_malformed(cast("Any", super())._brpop_read, **options)  # noqa: SLF001 - its only way in

    def _receive(self) -> Any:
        return self._without_malformed(cast("Any", super())._receive)  # noqa: SLF001 - its only way in

    def _without_malformed(self, read: Callable[..., Any], **options: Any) -> Any:
        try:
            return read(**options)
        except _MALFORMED as error:
            log.warning("malformed_message_dropped", error=type(error).__name__)
            return True


class Transport(redis.Transport):
    """Redis with that channel; by the names of all addresses of a Redis server."""

    Channel = Channel


for scheme in ("redis", "rediss"):
    TRANSPORT_ALIASES[scheme] = f"{Transport.__module__}:{Transport.__name__}"


class ReceivedOnce(Request):
    """A message that the broker has forgotten already: there is nothing to acknowledge."""

    @property
    def tzlocal(self) -> tzinfo:
        """Celery looks it up in its settings for each message that expires, a fourteenth of a worker's CPU."""
        return UTC

    def acknowledge(self) -> None:
        self.acknowledged = True


class StepTask(Task[Any, Any]):
    """The base of all tasks here."""

    abstract = True
    Request = f"{ReceivedOnce.__module__}:{ReceivedOnce.__name__}"


class ThreadPool(TaskPool):
    """Celery's threads. With all of them busy the worker takes no message (`worker_disable_prefetch`) and sleeps.

    Nothing but a timer would wake it when a thread gets free, up to a second later, so each thread does.
    """

    def on_apply(self, *args: Any, **kwargs: Any) -> Any:
        result = super().on_apply(*args, **kwargs)
        result.f.add_done_callback(_wake_the_loop)
        return result


def _wake_the_loop(_done: Future[Any]) -> None:
    loop = get_event_loop()
    if loop is not None:
        loop.call_soon(_nothing)


def _nothing() -> None:
    pass
