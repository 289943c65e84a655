"""`/`: what goes on, what came of today, who works, what is missing."""

from fastapi import Request, Response

from api.dependencies import ContextOf
from api.pages.parts.rendering import page, pages_router
from redraft.operations.admin import overview

router = pages_router()


@router.get("/")
def show_overview(request: Request, context: ContextOf) -> Response:
    """Tiles, running and last jobs, last runs, workers and health."""
    found = overview.view_overview(context.services)
    is_auth_required = context.settings.is_auth_required
    return page(request, "overview/overview.html", view=found, is_auth_required=is_auth_required)
