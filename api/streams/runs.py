"""Server-sent events of a bulk run: an event for each change of its progress, and an event at its end.

The events are not stored. Each event contains the whole state, so a client that reconnects misses nothing.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from fastapi.sse import format_sse_event

from api.dependencies import Context
from api.streams.jobs import CLOSING, OPENING, PING, EventStream
from redraft.operations.bulk.run_resources import Run, say_progress

_FIELDS = {"id", "name", "status", "stop_reason", "counts", "usage", "version"}


def stream(context: Context, run_id: str) -> EventStream:
    """Stream the progress of a run, until the run has ended or the time limit of the stream is reached."""
    return EventStream(context, _frames(context, run_id))


async def _frames(context: Context, run_id: str) -> AsyncGenerator[bytes]:
    notifications, clock = context.notifications, asyncio.get_running_loop().time
    end = clock() + notifications.intervals.stream_s
    known: Run | None = None
    yield OPENING
    async with context.run_watches.watch(run_id) as watch:
        while True:
            found = await watch.wait_for_change(known, min(notifications.intervals.ping_s, end - clock()))
            if watch.is_lost:
                return  # The run was deleted, or the database is unreachable. A client that reconnects gets the error
            yield _frame(found) if found is not None and found is not known else PING
            known = found
            if known is not None and _has_ended(known):
                return
            if notifications.is_closing:
                yield CLOSING
            if notifications.is_closing or clock() >= end:
                return


def _frame(run: Run) -> bytes:
    has_ended = _has_ended(run)
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    data = {"message": say_progress(run), "at": at, **run.model_dump(mode="json", include=_FIELDS)}
    kind = "done" if has_ended else "run.progress"
    # Only the last event has an id. A browser that reconnects sends this id, and gets 204 instead of the event
    return format_sse_event(id=str(run.version) if has_ended else None, event=kind, data_str=json.dumps(data))


def _has_ended(run: Run) -> bool:
    """Whether all jobs of a run have ended. A canceled run can still have running jobs."""
    return run.status != "running" and run.counts.running == 0
