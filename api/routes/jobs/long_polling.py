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
            description=f"`wait=N`: respond when the job has ended, or with If-None-Match when it has changed, but "
            f"after N seconds at the latest. N is at most {WAIT_MAX_S}.",
        ),
    ] = None,
) -> int:
    """Return N of `Prefer: wait=N`, or 0 without this header."""
    # RFC 7240 prescribes that a server ignores preferences that it does not understand
    found = _WAIT.search(prefer or "")
    if found is None:
        return 0
    wait_s = min(int(found.group(1)), WAIT_MAX_S)
    request.scope["state"]["preference"] = f"wait={wait_s}"
    return wait_s


@dataclass(frozen=True, slots=True)
class Waiter:
    """Waits for a change of a job, at most for the time in the header Prefer."""

    request: Request
    context: ContextOf
    wait_s: Annotated[int, Depends(get_wait_s)]

    async def wait(self, job_id: str, has_news: Callable[[], bool]) -> None:
        """Wait until `has_news` returns true, the time is over, or the client disconnects.

        `has_news` is a short read of the database, which runs in a thread.
        """
        if not self.wait_s:
            return
        clock, notifications = asyncio.get_running_loop().time, self.context.notifications
        end = clock() + self.wait_s
        async with notifications.watch(job_id) as watch:
            while True:
                # The order matters: a change after `rearm` ends the wait, so no change after the read is missed
                watch.rearm()
                if await run_in_threadpool(has_news) or notifications.is_closing:
                    return
                if clock() >= end or await self.request.is_disconnected():
                    return
                await watch.wait(end - clock())


WaiterOf = Annotated[Waiter, Depends()]
