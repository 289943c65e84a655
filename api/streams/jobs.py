"""Server-sent events of a job: its stored events in order, each with its number as id.

Between the events, the stream has text deltas of the answer that is being generated. Deltas have no id, so they do not
change the position from which a client resumes.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import lru_cache, partial

from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.dependencies import Context
from api.http.problems import HttpProblem, render
from api.http.rate_limits import network_of
from api.notifications.jobs import Subscription
from redraft.errors import RedraftError
from redraft.messages import Delta
from redraft.operations.jobs import queries
from redraft.operations.jobs.resources import Event

RECONNECT_MS = 1000
# The publisher sends deltas in bundles with pauses. So an answer can be read from the database before its last delta
# arrives
_LAST_DELTA_S = 0.1
PAGE = 500
PING = format_sse_event(comment="ping")
CLOSING = format_sse_event(comment="the server stops; reconnect with Last-Event-ID", retry=RECONNECT_MS)
OPENING = format_sse_event(comment="events follow", retry=RECONNECT_MS)
# The second header keeps nginx from buffering the events
HEADERS = {"Cache-Control": "no-cache, no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """A response of server-sent events, or 429 if the caller already has `streams_max` open streams."""

    def __init__(self, context: Context, frames: AsyncGenerator[bytes]) -> None:
        super().__init__(frames, headers=HEADERS, media_type="text/event-stream")
        self._context = context
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        opened, most = self._context.open_streams, self._context.settings.streams_max
        client = scope.get("client")
        caller = scope["state"].get("key_id") or network_of(client[0] if client else "")
        if opened[caller] >= most:
            await self._frames.aclose()
            # The problem is rendered here, because an exception would come too late for the exception handlers
            words = f"This API key or address already has {most} open event streams, the limit of REDRAFT_STREAMS_MAX."
            error = HttpProblem(429, words, code="too_many_streams", headers={"Retry-After": "10"})
            await render(Request(scope), error)(scope, receive, send)
            return
        opened[caller] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            opened[caller] -= 1
            if not opened[caller]:
                del opened[caller]


# Returns the frames of deltas
Write = Callable[[Sequence[Delta]], Awaitable[bytes]]


async def write_deltas(deltas: Sequence[Delta]) -> bytes:
    return b"".join(_delta_frame(each, each.at) for each in deltas)


def stream(context: Context, job_id: str, after: int, write: Write = write_deltas) -> EventStream:
    """Stream the events after number `after`, until the job has ended or the time limit of the stream is reached."""
    return EventStream(context, _frames(context, job_id, after, write))


def frame(events: Sequence[Event]) -> bytes:
    return b"".join(
        format_sse_event(id=str(each.seq), event=each.type, data_str=json.dumps(each.data)) for each in events
    )


# The frame is cached, because all watchers of a job get the same frame. `at` is a separate argument, because equal
# deltas may differ in `at`, and the cache must not mix them
@lru_cache(maxsize=1024)
def _delta_frame(delta: Delta, at: str) -> bytes:
    data = {"message": f"Iteration {delta.iteration} is being generated.", **asdict(delta), "at": at}
    return format_sse_event(event="answer.delta", data_str=json.dumps(data))


_ENDS_OF_TEXT = frozenset({"iteration.generated", "step.retrying"})


class _Order:
    """Orders deltas and events, so that the deltas of an iteration always precede its answer.

    A worker publishes a delta after the wake-up message of earlier events. So if no wake-up message is pending, all
    events before a delta were sent.
    """

    def __init__(self, watch: Subscription, write: Write) -> None:
        self._watch = watch
        self._write = write
        self._written = 0

    async def frames(self, events: Sequence[Event]) -> bytes:
        """Return the frames of these events, each after the frames of the deltas that precede it."""
        if any(each.type in _ENDS_OF_TEXT for each in events):
            await asyncio.sleep(_LAST_DELTA_S)
        return b"".join([await self.deltas(partial(_precedes, each)) + self._event(each) for each in events])

    async def deltas(self, belongs: Callable[[Delta], bool] = lambda _: True) -> bytes:
        taken = [each for each in self._watch.take_deltas(belongs) if each.iteration > self._written]
        return await self._write(taken) if taken else b""

    def _event(self, event: Event) -> bytes:
        if event.type == "iteration.generated":
            self._written = max(self._written, event.data["iteration"])
        return frame([event])


def _precedes(event: Event, delta: Delta) -> bool:
    match event.type:
        case "iteration.generated":
            return delta.iteration <= event.data["iteration"]
        case "step.retrying":
            return (delta.iteration, delta.attempt) <= (event.data["iteration"], event.data["attempt"])
        case kind:
            return kind == "done"


async def _frames(context: Context, job_id: str, after: int, write: Write) -> AsyncGenerator[bytes]:
    # Thousands of streams can be open, so a stream holds no thread and no database connection between reads
    notifications, clock = context.notifications, asyncio.get_running_loop().time
    end = clock() + notifications.intervals.stream_s
    yield OPENING
    async with notifications.watch(job_id, with_deltas=True) as watch:
        order = _Order(watch, write)
        ping_at = clock() + notifications.intervals.ping_s
        while True:
            watch.rearm()
            try:
                events, is_over = await run_in_threadpool(queries.list_events, context.services, job_id, after, PAGE)
            except RedraftError:
                return  # The job was deleted, or the database is unreachable. A client that reconnects gets the error
            if events or clock() >= ping_at:
                yield await order.frames(events) or PING
                after = events[-1].seq if events else after
                ping_at = clock() + notifications.intervals.ping_s
            if notifications.is_closing and not is_over:
                yield CLOSING
            if is_over or notifications.is_closing or clock() >= end:
                return
            if len(events) < PAGE:
                async for block in _deltas(watch, order, min(end, ping_at, clock() + notifications.poll_s)):
                    yield block


async def _deltas(watch: Subscription, order: _Order, until: float) -> AsyncIterator[bytes]:
    """Yield frames of deltas until stored events have to be read."""
    clock = asyncio.get_running_loop().time
    while not watch.must_check and clock() < until:
        if block := await order.deltas():
            yield block
        else:
            await watch.wait(until - clock())
