"""Dependencies of the handlers: the context of the process, and preferences from request headers."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Header, Request

from api.http.rate_limits import GoodKeys, Rates
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
UPLOADS_AT_ONCE = 4
REPORTS_AT_ONCE = 4
_WAIT = re.compile(r"""\bwait\s*=\s*"?(\d{1,6})"?""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Context:
    """The shared objects of one API process."""

    settings: Settings
    services: Services
    notifications: Notifications
    metrics: Metrics
    rates: Rates
    good_keys: GoodKeys
    drafting: CapacityLimiter
    """How many requests may wait for a model at once."""
    uploads: CapacityLimiter
    """How many datasets are read at once: a large one takes minutes."""
    reports: CapacityLimiter
    """How many runs are reckoned up at once."""
    run_watches: RunWatches
    open_streams: Counter[str] = field(default_factory=Counter[str])
    """How many event streams each key or address has open."""


async def get_context(request: Request) -> Context:
    return request.app.state.context


async def get_services(request: Request) -> Services:
    return request.app.state.context.services


async def get_wait_s(
    request: Request,
    prefer: Annotated[
        str | None,
        Header(
            alias="Prefer",
            description="`wait=N`: answer when the job has ended (or, with If-None-Match, has changed), "
            "after N seconds at the latest; at most 60.",
        ),
    ] = None,
) -> int:
    """Seconds from `Prefer: wait=N`; preferences that make no sense are ignored, as RFC 7240 wants it."""
    found = _WAIT.search(prefer or "")
    if found is None:
        return 0
    wait_s = min(int(found.group(1)), WAIT_MAX_S)
    request.scope["state"]["preference"] = f"wait={wait_s}"
    return wait_s


async def get_idempotency(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=255,
            pattern=r"^[\x20-\x7e]+$",
            description="The same key and body again: what it made then, not another one.",
        ),
    ] = None,
) -> Idempotency | None:
    """The caller's key, unique per API key and route."""
    if idempotency_key is None:
        return None
    caller = request.scope["state"].get("key_id") or "-"
    route = request.url.path.rpartition("/")[2]
    return Idempotency(f"{caller}:{route}", idempotency_key)


async def wait_for_model(context: Context, ask: Callable[[], T]) -> T:
    """Run a function that waits for a model in a separate thread pool, so that it cannot block other requests.

    Raises:
        Unavailable: too many wait already (`too_many_drafts`).
    """
    limiter = context.drafting
    if limiter.borrowed_tokens >= limiter.total_tokens:
        words = f"{limiter.total_tokens:g} requests wait for a model here already."
        raise Unavailable(words, code="too_many_drafts")
    return await to_thread.run_sync(ask, limiter=limiter)


ContextOf = Annotated[Context, Depends(get_context)]
ServicesOf = Annotated[Services, Depends(get_services)]
WaitOf = Annotated[int, Depends(get_wait_s)]
IdempotencyOf = Annotated[Idempotency | None, Depends(get_idempotency)]
