"""Health for load balancers and administrators, and metrics for Prometheus."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool

from api.authentication import is_trusted
from api.dependencies import ContextOf, ServicesOf
from api.description import problems_of
from api.http import problems
from api.http.bodies import StrictRoute
from redraft.errors import Unavailable
from redraft.operations.admin.health import check_readiness

router = APIRouter(tags=["health"], route_class=StrictRoute)


@router.get("/livez")
async def get_liveness() -> dict[str, str]:
    """Whether this process answers. It checks nothing else."""
    return {"status": "alive"}


@router.get("/readyz", response_model=None, responses=problems_of(503))
async def get_readiness(request: Request, services: ServicesOf) -> Response:
    """Whether jobs are accepted and run: a check per part. Details need a key where keys are needed."""
    checks = await run_in_threadpool(check_readiness, services)
    # The path is open, and a detail may name hosts and versions
    hidden = set[str]() if await is_trusted(request) else {"detail"}
    names = ("name", "is_ready", "detail")
    shown = [{name: getattr(check, name) for name in names if name not in hidden} for check in checks]
    if missing := [check.name for check in checks if not check.is_ready]:
        error = Unavailable(f"Not ready: {', '.join(missing)}.", code="not_ready")
        return problems.render(request, error, checks=shown)
    return JSONResponse({"status": "ready", "checks": shown})


@router.get("/metrics", response_class=PlainTextResponse)
def get_metrics(context: ContextOf) -> PlainTextResponse:
    """All metrics of the installation, at most some seconds old. docs/operations.md explains each."""
    return PlainTextResponse(context.metrics.read(), media_type="text/plain; version=0.0.4; charset=utf-8")
