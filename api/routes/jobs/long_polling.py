"""Long polling: waits for a change of a job for as long as the client prefers (`Prefer: wait`)."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from starlette.concurrency import run_in_threadpool

from api.dependencies import ContextOf

WAIT_MAX_S = 60
_WAIT = re.compile(r"""\bwait\s*=\s*"?(\d{1,6})"?""", re.IGNORECASE)


async def get_wait_s(
    request: Request,
    prefer: Annotated[
        str | None,
        Header(
            alias="Prefer",
            description=f"`wait=N`: answer when the job has ended (with If-None-Match: has changed), but after N "
            f"seconds at the latest. N is at most {WAIT_MAX_S}.",
        ),
    ] = None,
) -> int:
    """Read N of `Prefer: wait=N`; 0 without it."""
    # RFC 7240: preferences that cannot be understood are ignored
    found = _WAIT.search(prefer or "")
    if found is None:
        return 0
    wait_s = min(int(found.group(1)), WAIT_MAX_S)
    request.scope["state"]["preference"] = f"wait={wait_s}"
    return wait_s


@dataclass(frozen=True, slots=True)
class Waiter:
    """Waits for changes of a job for as long as the client prefers."""

    request: Request
    context: ContextOf
    wait_s: Annotated[int, Depends(get_wait_s)]

    async def wait(self, job_id: str, has_news: Callable[[], bool]) -> None:
        """Wait until `has_news`, a short read that runs in a thread, or until the time is over or the client gone."""
        if not self.wait_s:
            return
        clock, notifications = asyncio.get_running_loop().time, self.context.notifications
        end = clock() + self.wait_s
        async with notifications.watch(job_id) as watch:
            while True:
                # Before the read: a change after it then ends the wait
                watch.rearm()
                if await run_in_threadpool(has_news) or notifications.is_closing:
                    return
                if clock() >= end or await self.request.is_disconnected():
                    return
                await watch.wait(end - clock())


WaiterOf = Annotated[Waiter, Depends()]
