"""The HTTP API: `uvicorn --factory api.app:create_app`.

It parses, asks who is there, calls one operation and renders. It holds no state that matters: any number of
processes may run side by side, and each may be killed at any time.
"""

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from functools import cache, partial
from types import FrameType
from typing import Any

from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from api import description
from api.authentication import Authentication
from api.dependencies import DRAFTS_AT_ONCE, REPORTS_AT_ONCE, UPLOADS_AT_ONCE, Context
from api.http import problems
from api.http.bodies import BodyLimit, Bound
from api.http.envelope import Envelope
from api.http.rate_limits import GoodKeys, Rates
from api.http.root_path import RootPath, refuse_clash
from api.notifications.jobs import Notifications, Pace
from api.notifications.runs import RunWatches
from api.pages.admin import keys, overview, settings, sign_in
from api.pages.admin import ratings as rating_pages
from api.pages.bulk import comparison
from api.pages.bulk import datasets as dataset_pages
from api.pages.bulk import run as run_page
from api.pages.bulk import runs as run_pages
from api.pages.jobs import job, job_changes, new, updates
from api.pages.jobs import jobs as job_pages
from api.pages.parts.errors import render_error_page
from api.pages.serving import Compression, static_files
from api.routes import docs
from api.routes.admin import catalog, health, metrics, observations, ratings, usage
from api.routes.bulk import datasets, run_results, runs
from api.routes.jobs import events, history, jobs, refine, submitting, webhooks
from redraft.logs import configure_logs
from redraft.operations.admin.metrics import Metrics
from redraft.operations.services import Services
from redraft.runtime import build_runtime
from redraft.setting_values import redis_url
from redraft.settings import Settings

_ROUTERS = (
    submitting.router,
    refine.router,
    jobs.router,
    history.router,
    events.router,
    webhooks.router,
    webhooks.run_router,
    ratings.router,
    observations.router,
    datasets.router,
    runs.router,
    run_results.router,
    catalog.router,
    usage.router,
    health.router,
    metrics.router,
)
_PAGES = (
    sign_in.router,
    updates.router,
    overview.router,
    new.router,
    job_pages.router,
    job.router,
    job_changes.router,
    rating_pages.router,
    settings.router,
    keys.router,
    run_pages.router,
    comparison.router,
    run_page.router,
    dataset_pages.router,
)


def create_app(
    settings: Settings | None = None,
    *,
    build: Callable[[Settings], Services] = build_runtime,
    pace: Pace | None = None,
) -> FastAPI:
    """The API as an ASGI app.

    Args:
        settings: without them they are read from the environment, and logging is set up for the process.
        build: makes the services when the app starts; they are closed when it stops.
        pace: how often waiters look and streams ping.
    """
    if settings is None:
        settings = Settings()
        _set_up_logging(settings)
    refuse_clash(settings.root_path, _routes())
    app = FastAPI(
        title="Redraft",
        routes=[*_routes()],
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan(settings, build, pace or Pace()),
        middleware=[
            Middleware(RootPath, settings.root_path),
            Middleware(Envelope),
            Middleware(BodyLimit, Bound(settings.max_body_bytes, "REDRAFT_MAX_BODY_BYTES"), _other_bounds(settings)),
            Middleware(Compression),
            Middleware(Authentication),
        ],
    )
    app.mount("/static", static_files)
    app.openapi = lambda: description.describe(app, settings.root_path)
    app.state.end_streams = partial(end_streams, app)
    problems.install(app, render_error_page)
    return app


@cache
def _routes() -> list[BaseRoute]:
    """All routes; FastAPI works out each when it is first asked for, and so once for all apps of a process."""
    whole = APIRouter(generate_unique_id_function=lambda route: route.name)
    for router in (*_ROUTERS, docs.router, *_PAGES):
        whole.include_router(router)
    return whole.routes


def _other_bounds(settings: Settings) -> dict[tuple[str, str], Bound]:
    return {("POST", datasets.router.prefix): Bound(settings.dataset_max_bytes, "REDRAFT_DATASET_MAX_BYTES")}


def end_streams(app: FastAPI) -> None:
    """End all streams and long polls, so that the server can stop; their clients reconnect to the next one.

    Signals do this by themselves; whoever stops the server otherwise calls it first, from any thread.
    """
    app.state.context.notifications.end_waits()


def _lifespan(
    settings: Settings, build: Callable[[Settings], Services], pace: Pace
) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        services = build(settings)
        notifications = Notifications(redis_url(settings.effective_broker_url), pace)
        rates = Rates(redis_url(settings.effective_broker_url))
        app.state.context = Context(
            settings,
            services,
            notifications,
            Metrics(services),
            rates,
            GoodKeys(),
            drafting=CapacityLimiter(DRAFTS_AT_ONCE),
            uploads=CapacityLimiter(UPLOADS_AT_ONCE),
            reports=CapacityLimiter(REPORTS_AT_ONCE),
            run_watches=RunWatches(services, notifications),
        )
        listener = asyncio.create_task(notifications.run())
        try:
            with _ending_streams_on_signals(notifications):
                yield
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)
            await rates.close()
            services.close()

    return lifespan


@contextlib.contextmanager
def _ending_streams_on_signals(notifications: Notifications) -> Generator[None]:
    """End the streams on a signal: uvicorn waits for open streams before it tells the app that it stops."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        notifications.end_waits()
        previous = before[signal.Signals(number)]
        if callable(previous):
            previous(number, frame)

    for each in (signal.SIGINT, signal.SIGTERM):
        before[each] = signal.signal(each, handle)
    try:
        yield
    finally:
        for each, previous in before.items():
            signal.signal(each, previous)


def _set_up_logging(settings: Settings) -> None:
    configure_logs(settings.log_level, settings.log_format)
    # Our own access log has request ids and no query strings.
    access = logging.getLogger("uvicorn.access")
    access.handlers.clear()
    access.propagate = False
