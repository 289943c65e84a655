"""Navigation of all pages: `/go` finds a job, a run or a dataset by id or name, and `/theme` sets the colours."""

from fastapi import Request, Response

from api.dependencies import ServicesOf
from api.pages.parts.forms import FormOf
from api.pages.parts.rendering import THEME, THEMES, own_path, page, pages_router, see_other
from redraft.errors import Conflict, NotFound
from redraft.operations.jobs import references
from redraft.operations.resource_base import ROOT_PATH
from redraft.operations.services import Services

router = pages_router()

_PAGES = {"overview": "/"} | {name: f"/{name}" for name in ("new", "jobs", "runs", "datasets", "ratings", "settings")}
_FINDERS = (
    ("job_", "/jobs", references.find_job_id),
    ("run_", "/runs", references.find_run_id),
    ("ds_", "/datasets", references.find_dataset_id),
)
_YEAR_S = 365 * 86_400


@router.get("/go")
def go(request: Request, services: ServicesOf, q: str = "") -> Response:
    """Redirect to a page. `q` is its name, or the id of a resource, the beginning of an id, or a unique name."""
    wanted = q.strip()
    if not wanted:
        return page(request, "go.html", q=wanted, error="")
    try:
        return see_other(_find_path(services, wanted))
    except (NotFound, Conflict) as error:
        return page(request, "go.html", 404, q=wanted, error=error.message)


def _find_path(services: Services, wanted: str) -> str:
    """Return the path of a page. Raises NotFound if nothing matches, and Conflict if several resources match."""
    if path := _PAGES.get(wanted.lower()):
        return path
    prefixed = [each for each in _FINDERS if wanted.startswith(each[0])]
    several: Conflict | None = None
    for _, path, find in prefixed or _FINDERS:
        try:
            return f"{path}/{find(services, wanted)}"
        except NotFound:
            pass
        # The text may still be the id or the name of one resource of another kind
        except Conflict as error:
            several = error
    raise several or NotFound("job, run or dataset", wanted)


@router.post("/theme")
def set_theme(request: Request, form: FormOf) -> Response:
    theme = form.text("theme")
    response = see_other(own_path(form.text("next")))
    path, is_https = ROOT_PATH.get() or "/", request.url.scheme == "https"
    if theme in THEMES:
        response.set_cookie(THEME, theme, max_age=_YEAR_S, path=path, httponly=True, samesite="lax", secure=is_https)
    else:
        response.delete_cookie(THEME, path=path)
    return response
