"""For load balancers and people who look for what is wrong."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from api.authentication import is_trusted
from api.dependencies import ServicesOf
from api.description import answers
from api.http import problems
from api.http.bodies import StrictRoute
from redraft.errors import Unavailable
from redraft.operations.admin.health import Check, check_readiness

router = APIRouter(tags=["health"], route_class=StrictRoute)


@router.get("/livez")
async def get_liveness() -> dict[str, str]:
    """Whether this process answers; it looks at nothing else."""
    return {"status": "alive"}


@router.get("/readyz", response_model=None, responses=answers(503))
async def get_readiness(request: Request, services: ServicesOf) -> Response:
    """Whether jobs can be taken and worked on: each part, and why not. Details need a key where keys are needed."""
    checks = await run_in_threadpool(check_readiness, services)
    in_full = await is_trusted(request)
    shown = [_show(check, in_full=in_full) for check in checks]
    if all(check.is_ready for check in checks):
        return JSONResponse({"status": "ready", "checks": shown})
    names = ", ".join(check.name for check in checks if not check.is_ready)
    return problems.render(request, Unavailable(f"Not ready: {names}.", code="not_ready"), checks=shown)


def _show(check: Check, *, in_full: bool) -> dict[str, object]:
    shown: dict[str, object] = {"name": check.name, "is_ready": check.is_ready}
    return {**shown, "detail": check.detail} if in_full else shown
