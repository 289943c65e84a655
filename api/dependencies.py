"""Dependencies of the routes: the context of the process, and preferences from request headers."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Header, Request
from starlette.concurrency import run_in_threadpool

from api.http.rate_limits import Rates, ValidKeys
from api.notifications.jobs import Notifications
from api.notifications.runs import RunWatches
from redraft.errors import Unavailable
from redraft.operations.admin.metrics import Metrics
from redraft.operations.jobs.submit import Idempotency
from redraft.operations.services import Services
from redraft.settings import Settings

T = TypeVar("T")

WAIT_MAX_S = 60
DRAFTS_AT_ONCE = 16
# A large dataset takes minutes, and so does the report of a large run: a thread each
UPLOADS_AT_ONCE = 4
REPORTS_AT_ONCE = 4
_WAIT = re.compile(r"""\bwait\s*=\s*"?(\d{1,6})"?""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Context:
    """The shared objects of one API process; `open_streams` counts the event streams of each key or address."""

    settings: Settings
    services: Services
    notifications: Notifications
    metrics: Metrics
    rates: Rates
    run_watches: RunWatches
    valid_keys: ValidKeys = field(default_factory=ValidKeys)
    drafting: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(DRAFTS_AT_ONCE))
    uploads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(UPLOADS_AT_ONCE))
    reports: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(REPORTS_AT_ONCE))
    open_streams: Counter[str] = field(default_factory=Counter[str])

    async def wait_for_model(self, call: Callable[[], T]) -> T:
        """Run a function that waits for a model; raises Unavailable (`too_many_drafts`) if too many wait already."""
        if self.drafting.borrowed_tokens >= self.drafting.total_tokens:
            words = f"{self.drafting.total_tokens:g} requests wait for a model already. Try again later."
            raise Unavailable(words, code="too_many_drafts")
        # Threads of their own: a slow model must not block other requests
        return await to_thread.run_sync(call, limiter=self.drafting)


# Async dependencies: FastAPI would call others in a thread
async def get_context(request: Request) -> Context:
    return request.app.state.context


async def get_services(request: Request) -> Services:
    return request.app.state.context.services


ContextOf = Annotated[Context, Depends(get_context)]
ServicesOf = Annotated[Services, Depends(get_services)]


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


def caller_of(request: Request) -> str:
    """Return the id of the request's API key, or "-" where no keys are needed."""
    return request.scope["state"].get("key_id") or "-"


async def get_idempotency(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=255,
            pattern=r"^[\x20-\x7e]+$",
            description="The same key with the same body returns what the first request created.",
        ),
    ] = None,
) -> Idempotency | None:
    """Read the idempotency key. It is unique per API key and route."""
    if idempotency_key is None:
        return None
    return Idempotency(f"{caller_of(request)}:{request.url.path.rpartition('/')[2]}", idempotency_key)


WaiterOf = Annotated[Waiter, Depends()]
IdempotencyOf = Annotated[Idempotency | None, Depends(get_idempotency)]
