"""The pages `/ratings`: a queue of evaluations to rate, and the agreement of evaluators with people."""

from typing import Any

from fastapi import Request, Response

from api.dependencies import ServicesOf
from api.pages.jobs.job_changes import RATING, Rater, read_rating
from api.pages.parts.forms import Filled, Form, FormOf, filled
from api.pages.parts.rendering import page, pages_router, see_other
from redraft.errors import Invalid
from redraft.operations.evaluation import rating_queue, ratings
from redraft.operations.evaluation.rating_queue import RatingQueue
from redraft.operations.evaluation.ratings import RatingFilter
from redraft.operations.services import Services

router = pages_router("/ratings")

_FIELDS = (*RATING, "job_id", "opinion")
_PRECISION = 0.9
_TABS = [("/ratings", "To rate"), ("/ratings/calibration", "Agreement")]


@router.get("")
def show_queue(request: Request, services: ServicesOf, rater: Rater) -> Response:
    query = request.query_params
    queue = rating_queue.view_queue(services, rater, chosen=query.get("evaluation"), last=query.get("last"))
    return _queue_page(request, queue, is_blind="blind" in query)


@router.post("")
def rate(request: Request, services: ServicesOf, form: FormOf, rater: Rater) -> Response:
    blind = {"blind": "1"} if form.text("blind") else {}
    try:
        _rate(services, form, rater)
    except Invalid as error:
        queue = rating_queue.view_queue(services, rater, chosen=form.text("evaluation_id"))
        return _queue_page(request, queue, filled(form, _FIELDS, error), is_blind=bool(blind), status=422)
    return see_other("/ratings", last=form.text("evaluation_id"), **blind)


@router.get("/calibration")
def show_calibration(request: Request, services: ServicesOf) -> Response:
    groups, left_out = ratings.calibration(services, RatingFilter(), precision=_PRECISION)
    return page(request, "ratings/calibration.html", groups=groups, left_out=left_out, tabs=_TABS)


def _rate(services: Services, form: Form, rater: str) -> None:
    # In a blind rating, a person gives an opinion on the answer before the page shows the verdict. The opinion becomes
    # an agreement or a disagreement with the verdict
    opinion: Any = form.text("opinion")
    if form.text("blind") and opinion not in {"passes", "fails", "unsure"}:
        raise Invalid.at("/opinion", "Choose whether the answer passes.", "missing")
    verdict = rating_queue.verdict_on(services, form.text("evaluation_id"), opinion) if opinion else None
    number, body = read_rating(form, verdict)
    ratings.rate(services, form.text("job_id"), number, body, rater)


def _queue_page(
    request: Request, queue: RatingQueue, form: Filled | None = None, *, is_blind: bool, status: int = 200
) -> Response:
    shown: dict[str, Any] = {"form": form or Filled(), "is_blind": is_blind, "tabs": _TABS}
    return page(request, "ratings/queue.html", status, queue=queue, **shown)
