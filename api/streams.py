"""Server-sent events: the job's stored events in order, each with its number as id, then the end."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from fastapi.sse import format_sse_event
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from api.dependencies import Context
from redraft.errors import RedraftError
from redraft.operations import reading
from redraft.operations.resources import Event

RECONNECT_MS = 1000
PAGE = 500
_PING = format_sse_event(comment="ping")
_OPENING = format_sse_event(comment="events follow", retry=RECONNECT_MS)
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def stream(context: Context, job_id: str, after: int) -> StreamingResponse:
    """Events newer than `after`, live, until the job has ended or the stream's time is over."""
    return StreamingResponse(_frames(context, job_id, after), headers=_HEADERS, media_type="text/event-stream")


def frame(events: Sequence[Event]) -> bytes:
    return b"".join(
        format_sse_event(id=str(each.seq), event=each.type, data_str=to_json(each.data).decode()) for each in events
    )


async def _frames(context: Context, job_id: str, after: int) -> AsyncIterator[bytes]:
    """No thread and no connection is held between looks; pings have no id, so they move no cursor."""
    wakeups, clock = context.wakeups, asyncio.get_running_loop().time
    end = clock() + wakeups.pace.stream_s
    yield _OPENING
    async with wakeups.watch(job_id) as watch:
        ping_at = clock() + wakeups.pace.ping_s
        while True:
            watch.rearm()
            try:
                events, is_over = await run_in_threadpool(reading.list_events, context.services, job_id, after, PAGE)
            except RedraftError:
                return  # deleted, or the database is away: who comes back is told which
            if events or clock() >= ping_at:
                yield frame(events) or _PING
                after = events[-1].seq if events else after
                ping_at = clock() + wakeups.pace.ping_s
            if is_over or wakeups.is_closing or clock() >= end:
                return
            if len(events) < PAGE:
                await watch.wait(min(end, ping_at) - clock())
