"""The event stream `/news`, which tells open lists that a job has changed, so that they reload themselves."""

import asyncio
from collections.abc import AsyncGenerator

from fastapi.sse import format_sse_event

from api.dependencies import Context, ContextOf
from api.pages.parts.rendering import pages_router
from api.streams.jobs import CLOSING, OPENING, PING, EventStream

router = pages_router()

# Limits reloads of a list, because nobody can read a list that reloads at each of a thousand changes per second
_REST_S = 2.0
_CHANGED = format_sse_event(event="changed", data_str="{}")


@router.get("/news")
async def news(context: ContextOf) -> EventStream:
    return EventStream(context, _frames(context))


async def _frames(context: Context) -> AsyncGenerator[bytes]:
    notifications, clock = context.notifications, asyncio.get_running_loop().time
    end = clock() + notifications.intervals.stream_s
    yield OPENING
    async with notifications.watch_all() as watch:
        yield _CHANGED  # A job may have changed after the page was rendered
        while clock() < end and not notifications.is_closing:
            await watch.wait(notifications.intervals.ping_s)
            # While the broker is unreachable, no wake-up message arrives, so a change is possible
            is_changed = watch.must_check or not notifications.is_listening
            watch.rearm()
            yield _CHANGED if is_changed else PING
            await asyncio.sleep(_REST_S)
    if notifications.is_closing:
        yield CLOSING
