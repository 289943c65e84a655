"""Server-sent events: the job's stored events in order, each with its number as id, then the end.

Between them come the deltas of the answer that is being written. They have no id, so they move no cursor.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from functools import partial

from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from api.dependencies import Context
from api.waking import Watch
from redraft.errors import RedraftError
from redraft.jobs import Delta
from redraft.operations import reading
from redraft.operations.resources import Event

RECONNECT_MS = 1000
# A look may see an answer before the last piece of it was heard, though that was published first: the publisher
# pauses between its bundles
_SETTLE_S = 0.1
PAGE = 500
PING = format_sse_event(comment="ping")
CLOSING = format_sse_event(comment="the server ends; come back with Last-Event-ID", retry=RECONNECT_MS)
OPENING = format_sse_event(comment="events follow", retry=RECONNECT_MS)
HEADERS = {"Cache-Control": "no-cache, no-store", "X-Accel-Buffering": "no"}


def stream(context: Context, job_id: str, after: int) -> StreamingResponse:
    """Events newer than `after`, live, until the job has ended or the stream's time is over."""
    return StreamingResponse(_frames(context, job_id, after), headers=HEADERS, media_type="text/event-stream")


def frame(events: Sequence[Event]) -> bytes:
    return b"".join(
        format_sse_event(id=str(each.seq), event=each.type, data_str=json.dumps(each.data)) for each in events
    )


def delta_frame(deltas: Sequence[Delta]) -> bytes:
    return b"".join(
        format_sse_event(event="answer.delta", data_str=json.dumps({"message": _words(each), **asdict(each)}))
        for each in deltas
    )


def _words(delta: Delta) -> str:
    return f"Iteration {delta.iteration} is being written."


class _Order:
    """What is sent when: the text of an iteration before its answer, never after it.

    Whoever publishes a delta has woken the watchers before: without a pending wake-up, all events that it
    follows were sent.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._written = 0

    async def tell(self, events: Sequence[Event]) -> bytes:
        """These events, each after the deltas that came before it."""
        if any(each.type == "iteration.generated" for each in events):
            await asyncio.sleep(_SETTLE_S)
        return b"".join(self.deltas(partial(_precedes, each)) + self._event(each) for each in events)

    def deltas(self, belongs: Callable[[Delta], bool] = lambda _: True) -> bytes:
        return delta_frame([each for each in self._watch.take_deltas(belongs) if each.iteration > self._written])

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


async def _frames(context: Context, job_id: str, after: int) -> AsyncIterator[bytes]:
    """No thread and no connection is held between looks; pings have no id, so they move no cursor."""
    wakeups, clock = context.wakeups, asyncio.get_running_loop().time
    end = clock() + wakeups.pace.stream_s
    yield OPENING
    async with wakeups.watch(job_id, with_deltas=True) as watch:
        order = _Order(watch)
        ping_at = clock() + wakeups.pace.ping_s
        while True:
            watch.rearm()
            try:
                events, is_over = await run_in_threadpool(reading.list_events, context.services, job_id, after, PAGE)
            except RedraftError:
                return  # deleted, or the database is away: who comes back is told which
            if events or clock() >= ping_at:
                yield await order.tell(events) or PING
                after = events[-1].seq if events else after
                ping_at = clock() + wakeups.pace.ping_s
            if wakeups.is_closing and not is_over:
                yield CLOSING
            if is_over or wakeups.is_closing or clock() >= end:
                return
            if len(events) < PAGE:
                async for block in _deltas(watch, order, min(end, ping_at, clock() + wakeups.look_s)):
                    yield block


async def _deltas(watch: Watch, order: _Order, until: float) -> AsyncIterator[bytes]:
    """What is being written, until it is time to look for stored events."""
    clock = asyncio.get_running_loop().time
    while not watch.must_look and clock() < until:
        if block := order.deltas():
            yield block
        else:
            await watch.wait(until - clock())
