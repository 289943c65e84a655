"""Consumes messages for a worker. The broker deletes each message when the worker receives it.

Celery's early acknowledgement would cost two transactions per message, and an eighth of a worker's CPU time. If a
message is lost with its worker, the sweeper sends it again.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from datetime import UTC, tzinfo
from typing import Any, cast

import structlog
from celery import Task
from celery.concurrency.base import BasePool
from celery.worker.request import Request
from kombu import Queue
from kombu.asynchronous import get_event_loop
from kombu.transport import TRANSPORT_ALIASES, redis

from redraft.messages import BULK_QUEUE, INTERACTIVE_QUEUE

log = structlog.get_logger()

STEPS = (Queue(INTERACTIVE_QUEUE, no_ack=True), Queue(BULK_QUEUE, no_ack=True))


_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Unacknowledged(redis.QoS):
    """Drops malformed messages among the unacknowledged messages, which each worker restores at its start."""

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:  # noqa: FBT001, FBT002 - kombu's
        try:
            cast("Any", super()).restore_by_tag(tag, client, leftmost)
        except _MALFORMED as error:
            log.warning("malformed_message_dropped", error=type(error).__name__)
            with cast("Any", self).channel.conn_or_acquire(client) as connection:
                connection.zrem(self.unacked_index_key, tag)
                connection.hdel(self.unacked_key, tag)


class Channel(redis.Channel):
    """Drops malformed messages, so that a client of the broker cannot end its workers."""

    QoS = Unacknowledged

    def _brpop_read(self, **options: Any) -> Any:
        return self._without_malformed(cast("Any", super())._brpop_read, **options)  # noqa: SLF001 - kombu offers no public method

    def _receive(self) -> Any:
        return self._without_malformed(cast("Any", super())._receive)  # noqa: SLF001 - kombu offers no public method

    def _without_malformed(self, read: Callable[..., Any], **options: Any) -> Any:
        try:
            return read(**options)
        except _MALFORMED as error:
            log.warning("malformed_message_dropped", error=type(error).__name__)
            return True


class Transport(redis.Transport):
    """The Redis transport with `Channel`, registered for all schemes of Redis URLs."""

    Channel = Channel


for scheme in ("redis", "rediss"):
    TRANSPORT_ALIASES[scheme] = f"{Transport.__module__}:{Transport.__name__}"


class ReceivedOnce(Request):
    """A message that the broker has already deleted, so that an acknowledgment does nothing."""

    @property
    def tzlocal(self) -> tzinfo:
        """The time zone UTC. Celery's lookup for each message took a fourteenth of a worker's CPU."""
        return UTC

    def acknowledge(self) -> None:
        self.acknowledged = True


class StepTask(Task[Any, Any]):
    """The base class of all tasks of this app."""

    abstract = True
    # `monitoring.py` sends the events of each step instead, because a message can lead to several steps, or to none
    send_events = False
    Request = f"{ReceivedOnce.__module__}:{ReceivedOnce.__name__}"


class EnginePool(BasePool):
    """Runs tasks on the engine. A task returns when its step has begun, and counts as running until its step ends.

    The worker takes no message while the maximum number of steps is running (`worker_disable_prefetch`). Each end of a
    step wakes the worker, because a timer would do so up to a second later.
    """

    limit: int
    body_can_be_buffer = True
    signal_safe = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._running: set[Future[None]] = set()

    def on_stop(self) -> None:
        """Wait for the steps in flight, at most until the end of the worker's grace period."""
        wait(list(self._running))

    def on_apply(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        callback: Callable[[Any], None] = lambda _result: None,
        accept_callback: Callable[[int, float], None] | None = None,
        **_: Any,
    ) -> None:
        begun_at = time.monotonic()
        if accept_callback:
            accept_callback(os.getpid(), begun_at)
        result = target(*args, **(kwargs or {}))
        step = begun.take()
        # A task without a step, such as the canary, has already ended
        if step is None:
            callback(result)
            return

        self._running.add(step)

        def end(step: Future[None]) -> None:
            self._running.discard(step)
            callback((0, None, time.monotonic() - begun_at))
            _wake_the_consumer()

        step.add_done_callback(end)


class _Begun(threading.local):
    """Passes the step that a task has begun from the task to the pool, which run in the same thread."""

    step: Future[None] | None = None

    def put(self, step: Future[None]) -> None:
        self.step = step

    def take(self) -> Future[None] | None:
        step, self.step = self.step, None
        return step


begun = _Begun()


def _wake_the_consumer() -> None:
    loop = get_event_loop()
    if loop is not None:
        loop.call_soon(_nothing)


def _nothing() -> None:
    pass
