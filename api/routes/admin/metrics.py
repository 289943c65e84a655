"""Numbers for Prometheus; a key is needed where keys are needed."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from api.dependencies import ContextOf
from api.http.bodies import StrictRoute

router = APIRouter(tags=["health"], route_class=StrictRoute)

_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/metrics", response_class=PlainTextResponse)
def get_metrics(context: ContextOf) -> PlainTextResponse:
    """All metrics of the installation, some seconds old at most; docs/operations.md explains each."""
    return PlainTextResponse(context.metrics.read(), media_type=_FORMAT)
