"""Notifies waiting requests (waiters) of changes of jobs. Each process has one subscriber for all waiters.

A waiter uses no thread and no connection while it waits. Wake-up messages can be lost, so waiters also read the
database at intervals (`api/intervals.py`).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from api.intervals import Intervals
from redraft.messages import Delta
from redraft.queue import delta_channel, job_channel

log = structlog.get_logger()

# A connection must subscribe to a channel before it can listen, so there is a channel without messages
_OWN_CHANNEL = "redraft:api"
_ANY_JOB = job_channel("*")
_CONFIRMATION_S = 0.5
_RECONNECT_MAX_S = 2.0
_CANCEL_AGAIN_S = 0.1
# Bounds the memory of a waiter that reads too slowly. The size of a delta is its text and a constant for its fields
_DELTAS_MAX_CHARS = 256_000
_DELTA_CHARS = 100


class Subscription:
    """The notifications of one waiter. To miss no change, call `rearm`, then read the job, then call `wait`."""

    def __init__(self, notifications: "Notifications") -> None:
        self._notifications = notifications
        self._is_changed = False
        self._received = asyncio.Event()
        self._deltas: deque[Delta] = deque()
        self._delta_chars = 0

    @property
    def must_check(self) -> bool:
        """Whether the job may have changed since `rearm`, or the server stops."""
        return self._is_changed or self._notifications.is_closing

    def rearm(self) -> None:
        self._is_changed = False
        self._received.clear()

    def notify(self) -> None:
        self._is_changed = True
        self._received.set()

    def deliver(self, delta: Delta) -> None:
        self._deltas.append(delta)
        self._delta_chars += _size(delta)
        # The oldest deltas are dropped. Clients detect the gap by the offsets
        while self._delta_chars > _DELTAS_MAX_CHARS:
            self._delta_chars -= _size(self._deltas.popleft())
        self._received.set()

    def take_deltas(self, belongs: Callable[[Delta], bool] = lambda _: True) -> list[Delta]:
        """Remove the deltas that `belongs` selects, and return them in order."""
        taken = [each for each in self._deltas if belongs(each)]
        self._deltas = deque(each for each in self._deltas if not belongs(each))
        self._delta_chars -= sum(map(_size, taken))
        if not self._deltas and not self._is_changed:
            self._received.clear()
        return taken

    async def wait(self, timeout_s: float) -> None:
        """Wait for a notification since `rearm`, at most for the shorter of `timeout_s` and the poll interval."""
        if self._notifications.is_closing:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, self._notifications.poll_s)):
                await self._received.wait()


def _size(delta: Delta) -> int:
    return len(delta.text) + _DELTA_CHARS


class Notifications:
    """Subscribes to the channels of the jobs that have waiters."""

    def __init__(self, url: str, intervals: Intervals) -> None:
        self.intervals = intervals
        self.is_closing = False
        self._url = url
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_listening = False
        self._waiters: dict[str, set[Subscription]] = {}
        self._confirmed: set[str] = set()
        self._wanted_changed = asyncio.Event()

    @property
    def poll_s(self) -> float:
        return self.intervals.poll_s if self.is_listening else self.intervals.poll_offline_s

    @property
    def channels(self) -> frozenset[str]:
        """The channels that have waiters."""
        return frozenset(self._waiters)

    @contextlib.asynccontextmanager
    async def watch(self, job_id: str, *, with_deltas: bool = False) -> AsyncGenerator[Subscription]:
        """Subscribe to the changes of a job, and with `with_deltas` also to its text deltas."""
        channels = {job_channel(job_id), delta_channel(job_id)} if with_deltas else {job_channel(job_id)}
        async with self._watch(channels) as watch:
            yield watch

    def watch_all(self) -> contextlib.AbstractAsyncContextManager[Subscription]:
        """Subscribe to all jobs."""
        return self._watch({_ANY_JOB})

    @contextlib.asynccontextmanager
    async def _watch(self, channels: Collection[str]) -> AsyncGenerator[Subscription]:
        watch = Subscription(self)
        for channel in channels:
            self._waiters.setdefault(channel, set()).add(watch)
        self._wanted_changed.set()
        try:
            await self._confirm(watch, channels)
            yield watch
        finally:
            # An await here would raise in a cancelled waiter, and the subscription would leak
            for channel in channels:
                self._waiters[channel].discard(watch)
                if not self._waiters[channel]:
                    del self._waiters[channel]
                    self._wanted_changed.set()

    async def _confirm(self, watch: Subscription, channels: Collection[str]) -> None:
        # Without this wait, a change after the waiter's first read and before its subscription would be missed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CONFIRMATION_S):
                while self.is_listening and not self.is_closing and not self._confirmed.issuperset(channels):
                    watch.rearm()
                    await watch.wait(_CONFIRMATION_S)

    def end_waits(self) -> None:
        """End all streams and long polls, because the server stops. Any thread or signal handler may call it."""
        self.is_closing = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify_all)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Listen in a task of its own until the block ends."""
        listener = asyncio.create_task(self._run())
        try:
            yield
        finally:
            # redis-py can ignore a cancellation while it connects, so the task is canceled until it ends
            while not listener.done():
                listener.cancel()
                await asyncio.wait({listener}, timeout=_CANCEL_AGAIN_S)

    async def _run(self) -> None:
        """Listen until the task is cancelled, and reconnect after every failure."""
        self._loop = asyncio.get_running_loop()
        pause_s = 0.1
        while True:
            try:
                await self._listen()
            except* (RedisError, OSError) as failures:
                was_listening = self.is_listening
                pause_s = 0.1 if was_listening else min(_RECONNECT_MAX_S, pause_s * 2)
                if was_listening:
                    log.warning("wake_ups_lost", error=type(failures.exceptions[0]).__name__)
            except* Exception:
                pause_s = _RECONNECT_MAX_S
                log.exception("wake_ups_failed")
            self.is_listening = False
            self._notify_all()
            await asyncio.sleep(pause_s)

    async def _listen(self) -> None:
        # A connection over a Unix socket does not accept this option
        options = {} if self._url.startswith("unix:") else {"socket_keepalive": True}
        client: Redis = Redis.from_url(self._url, socket_connect_timeout=1, socket_timeout=5, **options)
        async with client, client.pubsub() as pubsub:
            await pubsub.subscribe(_OWN_CHANNEL)
            self._confirmed.clear()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_subscribed(pubsub))
                group.create_task(self._receive(pubsub))

    async def _keep_subscribed(self, pubsub: Any) -> None:
        # Only this task writes to the connection, which allows a single writer
        subscribed: set[str] = set()
        while True:
            self._wanted_changed.clear()
            wanted = set(self._waiters)
            if left := subscribed - wanted:
                self._confirmed -= left
                await self._change(left, pubsub.unsubscribe, pubsub.punsubscribe)
            if new := wanted - subscribed:
                await self._change(new, pubsub.subscribe, pubsub.psubscribe)
            subscribed = wanted
            await self._wanted_changed.wait()

    async def _change(
        self, channels: Collection[str], by_name: Callable[..., Any], by_pattern: Callable[..., Any]
    ) -> None:
        if names := [each for each in channels if each != _ANY_JOB]:
            await by_name(*names)
        if _ANY_JOB in channels:
            await by_pattern(_ANY_JOB)

    async def _receive(self, pubsub: Any) -> None:
        async for message in pubsub.listen():
            # A message for a pattern is passed to the waiters of the pattern
            channel = (message["pattern"] or message["channel"]).decode()
            if message["type"] in {"subscribe", "psubscribe"}:
                self.is_listening = True
                if channel in self._waiters:
                    self._confirmed.add(channel)
            self._dispatch(channel, message["data"] if message["type"] in {"message", "pmessage"} else b"")

    def _dispatch(self, channel: str, payload: bytes) -> None:
        # Wake-up messages are empty; other messages are text deltas
        delta = Delta.decode(payload) if payload else None
        for watch in self._waiters.get(channel, ()):
            if delta:
                watch.deliver(delta)
            elif not payload:
                watch.notify()

    def _notify_all(self) -> None:
        for watches in self._waiters.values():
            for watch in watches:
                watch.notify()
