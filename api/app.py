"""The HTTP API: `uvicorn --factory api.app:create_app`.

A route parses an authenticated request, calls one operation, and renders the result. A process keeps no state that
other processes need, so any number of processes can run at the same time, and each can be killed at any time.
"""

import contextlib
import logging
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from functools import cache, partial
from types import FrameType
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from api import openapi
from api.authentication import Authentication
from api.dependencies import Context
from api.http import problems
from api.http.bodies import BodyLimit, Bound
from api.http.middleware import Envelope
from api.http.rate_limits import Rates
from api.http.root_path import RootPath, refuse_clash
from api.intervals import Intervals
from api.mcp import PATH as MCP_PATH
from api.mcp import McpEndpoint
from api.notifications.jobs import Notifications
from api.notifications.runs import RunWatches
from api.pages import serving
from api.pages.admin import keys, navigation, overview, settings, sign_in
from api.pages.admin import ratings as rating_pages
from api.pages.admin import templates as template_pages
from api.pages.admin import tunings as tuning_pages
from api.pages.bulk import comparison
from api.pages.bulk import datasets as dataset_pages
from api.pages.bulk import run as run_page
from api.pages.bulk import runs as run_pages
from api.pages.bulk import schedules as schedule_pages
from api.pages.jobs import job, job_changes, job_drafts, updates
from api.pages.jobs import jobs as job_pages
from api.pages.new import new
from api.pages.parts.errors import render_error_page
from api.routes.admin import catalog, generator_templates, health, observations, ratings
from api.routes.bulk import datasets, run_results, runs, schedules
from api.routes.jobs import history, jobs, submitting, webhooks
from redraft.logs import configure_logs
from redraft.operations.admin.metrics import Metrics
from redraft.operations.admin.setting_errors import load_settings_or_exit
from redraft.operations.services import Services
from redraft.runtime import build_runtime
from redraft.setting_values import redis_url
from redraft.settings import Settings

_JOB_ROUTES = (submitting, jobs, history, webhooks)
_BULK_ROUTES = (datasets, runs, run_results, schedules)
_ADMIN_ROUTES = (ratings, observations, catalog, generator_templates, health)
# Lists come first, so that `/jobs/bulk` and `/runs/compare` are not read as the ids of a job and a run
_JOB_PAGES = (updates, new, job_pages, job, job_drafts, job_changes)
_BULK_PAGES = (run_pages, schedule_pages, comparison, run_page, dataset_pages)
_ADMIN_PAGES = (serving, sign_in, navigation, overview, rating_pages, tuning_pages, settings, template_pages, keys)


def create_app(
    settings: Settings | None = None,
    *,
    build: Callable[[Settings], Services] = build_runtime,
    intervals: Intervals | None = None,
) -> FastAPI:
    """Create the API as an ASGI app. Without `settings`, read them from the environment and configure logging."""
    if settings is None:
        settings = load_settings_or_exit()
        _configure_logging(settings)
    mcp = McpEndpoint(settings.max_body_bytes)
    routes = [*_routes(), Route(MCP_PATH, mcp, include_in_schema=False)]
    refuse_clash(settings.root_path, routes)
    large = Bound(settings.dataset_max_bytes, "REDRAFT_DATASET_MAX_BYTES")
    servers = {"servers": [{"url": settings.root_path}]} if settings.root_path else {}
    app = FastAPI(
        title="Redraft",
        routes=routes,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=partial(_lifespan, settings, build, intervals or Intervals(), mcp),
        # The first middleware is the outermost. The envelope also wraps problem documents of the other middleware
        middleware=[
            Middleware(RootPath, settings.root_path),
            Middleware(Envelope),
            Middleware(
                BodyLimit,
                Bound(settings.max_body_bytes, "REDRAFT_MAX_BODY_BYTES"),
                {("POST", datasets.router.prefix): large},
            ),
            Middleware(serving.Compression),
            Middleware(Authentication),
        ],
    )
    app.mount("/static", serving.static_files)
    app.openapi = lambda: {**_description(), **servers}
    # Code that stops the server without a signal calls `end_streams`, from any thread
    app.state.end_streams = lambda: app.state.context.notifications.end_waits()  # noqa: PLW0108 - set before the start
    problems.install(app, render_error_page)
    return app


# FastAPI analyses routes when they are added. The cache saves this time for further apps of a process
@cache
def _routes() -> list[BaseRoute]:
    whole = APIRouter(generate_unique_id_function=lambda route: route.name)
    for module in (*_JOB_ROUTES, *_BULK_ROUTES, *_ADMIN_ROUTES, *_JOB_PAGES, *_BULK_PAGES, *_ADMIN_PAGES):
        whole.include_router(module.router)
    return whole.routes


@cache  # building it takes most of a second
def _description() -> dict[str, Any]:
    return openapi.describe(_routes())


@contextlib.asynccontextmanager
async def _lifespan(
    settings: Settings, build: Callable[[Settings], Services], intervals: Intervals, mcp: McpEndpoint, app: FastAPI
) -> AsyncGenerator[None]:
    services, broker_url = build(settings), redis_url(settings.effective_broker_url)
    notifications, rates = Notifications(broker_url, intervals), Rates(broker_url)
    watches = RunWatches(services, notifications)
    app.state.context = Context(settings, services, notifications, Metrics(services), rates, watches)
    try:
        async with notifications.listening(), mcp.running(app):
            with _ending_streams_on_signals(notifications):
                yield
    finally:
        await rates.close()
        services.close()


@contextlib.contextmanager
def _ending_streams_on_signals(notifications: Notifications) -> Generator[None]:
    # uvicorn waits for open streams before it stops the app, and a stream can last for minutes
    if threading.current_thread() is not threading.main_thread():
        # Python allows signal handlers in the main thread only
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


def _configure_logging(settings: Settings) -> None:
    configure_logs(settings.log_level, settings.log_format)
    # `api/http/middleware.py` writes the access log, with request ids and without query strings
    access = logging.getLogger("uvicorn.access")
    access.handlers.clear()
    access.propagate = False
