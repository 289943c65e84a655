"""The page `/`, with figures, running and last jobs, last runs, workers and health."""

from fastapi import Request, Response

from api.dependencies import ContextOf
from api.pages.parts.rendering import page, pages_router
from redraft.operations.admin import overview

router = pages_router()


@router.get("/")
def show_overview(request: Request, context: ContextOf) -> Response:
    view = overview.view_overview(context.services)
    return page(request, "overview/overview.html", view=view, is_auth_required=context.settings.is_auth_required)
