"""Defines dependencies of routes: the context of the process, and the idempotency key of a request."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Header, Request

from api.http.rate_limits import Rates, ValidKeys
from api.notifications.jobs import Notifications
from api.notifications.runs import RunWatches
from redraft.domain.jobs.ids import TraceParent, read_traceparent
from redraft.errors import Unavailable
from redraft.operations.admin.metrics import Metrics
from redraft.operations.jobs.submit import Idempotency
from redraft.operations.services import Services
from redraft.settings import Settings

T = TypeVar("T")

DRAFTS_AT_ONCE = 16
# A large dataset and the report of a large run take minutes, each in a thread of its own
UPLOADS_AT_ONCE = 4
REPORTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Context:
    """The shared objects of an API process. `open_streams` counts the event streams of each API key or address."""

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
        """Run a function that waits for a model. Raises Unavailable (`too_many_drafts`) if too many already wait."""
        if self.drafting.borrowed_tokens >= self.drafting.total_tokens:
            words = f"{self.drafting.total_tokens:g} requests already wait for a model. Try again later."
            raise Unavailable(words, code="too_many_drafts")
        # A separate pool of threads, so that a slow model does not block other requests
        return await to_thread.run_sync(call, limiter=self.drafting)


# Dependencies are async, because FastAPI calls dependencies that are not async in threads
async def get_context(request: Request) -> Context:
    return request.app.state.context


async def get_services(request: Request) -> Services:
    return request.app.state.context.services


ContextOf = Annotated[Context, Depends(get_context)]
ServicesOf = Annotated[Services, Depends(get_services)]


def caller_of(request: Request) -> str:
    """Return the id of the request's API key, or "-" if no key is needed."""
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
            description="A request with the key and the body of an earlier request returns what that request created.",
        ),
    ] = None,
) -> Idempotency | None:
    """Read the idempotency key, which is unique per API key and route. Return None without the header."""
    if idempotency_key is None:
        return None
    return Idempotency(f"{caller_of(request)}:{request.url.path.rpartition('/')[2]}", idempotency_key)


async def get_traceparent(
    traceparent: Annotated[
        str | None,
        Header(description="W3C trace context. Its trace id is a field of the job and of its events `done`."),
    ] = None,
) -> TraceParent | None:
    """Read the trace context of a request. A header that is not valid is ignored, as W3C prescribes."""
    return read_traceparent(traceparent)


TraceParentOf = Annotated[TraceParent | None, Depends(get_traceparent)]
IdempotencyOf = Annotated[Idempotency | None, Depends(get_idempotency)]
