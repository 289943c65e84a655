"""Waiting for jobs without holding a thread or a connection: one Redis subscriber per process.

Wake-ups are hints: whoever waits looks into the database before and after. While the broker is away everyone
looks again every `Pace.poll_offline_s` seconds.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.concurrency import run_in_threadpool

from redraft.jobs import Delta
from redraft.queue import delta_channel, job_channel

log = structlog.get_logger()

T = TypeVar("T")

_OWN_CHANNEL = "redraft:api"
_ANY_JOB = job_channel("*")
_CONFIRMATION_S = 0.5
_RECONNECT_MAX_S = 2.0
_DELTAS_MAX_CHARS = 256_000
# What a delta needs beside its text.
_DELTA_CHARS = 100


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between looks with and without a broker, between pings, of a stream's life; between looks at a run."""

    poll_s: float = 5.0
    poll_offline_s: float = 2.0
    ping_s: float = 10.0
    stream_s: float = 300.0
    run_poll_s: float = 0.5


class Subscription:
    """One waiter's ear. Call `rearm`, then look, then `wait`: what changes in between is not missed."""

    def __init__(self, notifications: "Notifications") -> None:
        self._notifications = notifications
        self._is_changed = False
        self._received = asyncio.Event()
        self._deltas: deque[Delta] = deque()
        self._delta_chars = 0

    @property
    def must_check(self) -> bool:
        """The job may have changed since `rearm`, or the server stops."""
        return self._is_changed or self._notifications.is_closing

    def rearm(self) -> None:
        self._is_changed = False
        self._received.clear()

    def notify(self) -> None:
        self._is_changed = True
        self._received.set()

    def deliver(self, delta: Delta) -> None:
        """Keep a delta until it is taken. A waiter that is too slow loses the oldest: offsets show the gap."""
        self._deltas.append(delta)
        self._delta_chars += _size(delta)
        while self._delta_chars > _DELTAS_MAX_CHARS:
            self._delta_chars -= _size(self._deltas.popleft())
        self._received.set()

    def take_deltas(self, belongs: Callable[[Delta], bool] = lambda _: True) -> list[Delta]:
        """The deltas that `belongs` picks, in order; the others stay."""
        taken = [each for each in self._deltas if belongs(each)]
        self._deltas = deque(each for each in self._deltas if not belongs(each))
        self._delta_chars -= sum(map(_size, taken))
        if not self._deltas and not self._is_changed:
            self._received.clear()
        return taken

    async def wait(self, timeout_s: float) -> None:
        """Until something was heard since `rearm`, `timeout_s` at most."""
        if self._notifications.is_closing:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, self._notifications.poll_s)):
                await self._received.wait()


def _size(delta: Delta) -> int:
    return len(delta.text) + _DELTA_CHARS


class Notifications:
    """Hears the channels of those jobs that somebody waits for."""

    def __init__(self, url: str, pace: Pace) -> None:
        self.pace = pace
        self.is_closing = False
        self._url = url
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_listening = False
        self._waiters: dict[str, set[Subscription]] = {}
        self._confirmed: set[str] = set()
        self._wanted_changed = asyncio.Event()

    @property
    def poll_s(self) -> float:
        return self.pace.poll_s if self.is_listening else self.pace.poll_offline_s

    @property
    def channels(self) -> frozenset[str]:
        """What is waited for now."""
        return frozenset(self._waiters)

    @contextlib.asynccontextmanager
    async def watch(self, job_id: str, *, with_deltas: bool = False) -> AsyncGenerator[Subscription]:
        """Hear of a job from here on: inside, no change after a look is missed."""
        channels = {job_channel(job_id), delta_channel(job_id)} if with_deltas else {job_channel(job_id)}
        async with self._watch(channels) as watch:
            yield watch

    @contextlib.asynccontextmanager
    async def watch_all(self) -> AsyncGenerator[Subscription]:
        """Hear of every job from here on."""
        async with self._watch({_ANY_JOB}) as watch:
            yield watch

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
            self._leave(watch, channels)

    async def _confirm(self, watch: Subscription, channels: Collection[str]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CONFIRMATION_S):
                while self.is_listening and not self.is_closing and not self._confirmed.issuperset(channels):
                    watch.rearm()
                    await watch.wait(_CONFIRMATION_S)

    def _leave(self, watch: Subscription, channels: Collection[str]) -> None:
        # An await here would raise in a cancelled waiter, and the subscription would leak
        for channel in channels:
            self._waiters[channel].discard(watch)
            if not self._waiters[channel]:
                del self._waiters[channel]
                self._wanted_changed.set()

    def end_waits(self) -> None:
        """Let every stream and long poll answer now: the server stops. Any thread or signal handler may call."""
        self.is_closing = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify_all)

    async def run(self) -> None:
        """Listen for as long as the process lives, and come back after every failure."""
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
        # A connection by Unix socket does not take this option.
        options = {} if self._url.startswith("unix:") else {"socket_keepalive": True}
        client: Redis = Redis.from_url(self._url, socket_connect_timeout=1, socket_timeout=5, **options)
        async with client, client.pubsub() as pubsub:
            await pubsub.subscribe(_OWN_CHANNEL)
            self._confirmed.clear()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_subscribed(pubsub))
                group.create_task(self._receive(pubsub))

    async def _keep_subscribed(self, pubsub: Any) -> None:
        """The only writer: subscribes to what is waited for, and leaves what is not."""
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
            # A message that matched a pattern goes to the subscribers of the pattern.
            channel = (message["pattern"] or message["channel"]).decode()
            if message["type"] in {"subscribe", "psubscribe"}:
                self.is_listening = True
                if channel in self._waiters:
                    self._confirmed.add(channel)
            self._dispatch(channel, message["data"] if message["type"] in {"message", "pmessage"} else b"")

    def _dispatch(self, channel: str, payload: bytes) -> None:
        """Wake-ups are empty; anything else is a delta."""
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


async def wait_for(
    notifications: Notifications,
    job_id: str,
    look: Callable[[], T | None],
    *,
    timeout_s: float,
    is_gone: Callable[[], Any],
) -> T | None:
    """Call `look` in a thread whenever the job may have changed, until it returns something.

    Args:
        notifications: who tells of changes.
        job_id: the job.
        look: a short read.
        timeout_s: the longest wait.
        is_gone: awaited before each wait; true when nobody waits for the answer any more.

    Returns:
        What `look` found; None after the time, or when the server stops.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + timeout_s
    async with notifications.watch(job_id) as watch:
        while True:
            watch.rearm()
            found = await run_in_threadpool(look)
            if found is not None or notifications.is_closing or clock() >= end or await is_gone():
                return found
            await watch.wait(end - clock())
