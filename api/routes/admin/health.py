"""Routes for health checks and for metrics of Prometheus."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool

from api.authentication import is_trusted
from api.dependencies import ContextOf, ServicesOf
from api.http import problems
from api.http.bodies import StrictRoute
from api.openapi import problems_of
from redraft.errors import Unavailable
from redraft.operations.admin.readiness import check_readiness

router = APIRouter(tags=["health"], route_class=StrictRoute)


@router.get("/livez")
async def get_liveness() -> dict[str, str]:
    """Report that this process answers. Nothing else is checked."""
    return {"status": "alive"}


@router.get("/readyz", response_model=None, responses=problems_of(503))
async def get_readiness(request: Request, services: ServicesOf) -> Response:
    """Check each part that is needed to accept and execute jobs. If keys are needed, details need a key."""
    checks = await run_in_threadpool(check_readiness, services)
    # The path needs no key, but details can contain host names and versions
    hidden = set[str]() if await is_trusted(request) else {"detail"}
    names = ("name", "is_ready", "detail")
    shown = [{name: getattr(check, name) for name in names if name not in hidden} for check in checks]
    if missing := [check.name for check in checks if not check.is_ready]:
        error = Unavailable(f"Not ready: {', '.join(missing)}.", code="not_ready")
        return problems.render(request, error, checks=shown)
    return JSONResponse({"status": "ready", "checks": shown})


@router.get("/metrics", response_class=PlainTextResponse)
def get_metrics(context: ContextOf) -> PlainTextResponse:
    """Get all metrics of the installation, which are at most a few seconds old. docs/operations.md explains them."""
    return PlainTextResponse(context.metrics.read(), media_type="text/plain; version=0.0.4; charset=utf-8")
