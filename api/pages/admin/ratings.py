"""The pages `/ratings`: a queue of evaluations to rate, the agreement of evaluators with people, and their probes."""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response

from api.dependencies import ServicesOf
from api.pages.jobs.job_changes import RATING, Rater, read_rating
from api.pages.parts.forms import Filled, Form, FormOf, filled
from api.pages.parts.rendering import page, pages_router, see_other
from redraft.errors import FieldError, Invalid
from redraft.operations.bulk import evaluator_tests
from redraft.operations.evaluation import rating_queue, ratings
from redraft.operations.evaluation.rating_queue import QueueFilter, RatingQueue
from redraft.operations.evaluation.ratings import RatingFilter
from redraft.operations.services import Services

router = pages_router("/ratings")

_FIELDS = ("job_id", "opinion", *RATING)
_NO_OPINION = FieldError("/opinion", "Choose whether the answer passes.", "missing")
_NARROWING = ("run", "label", "disputed")
_SKIPPED_MAX = 100
_PRECISION = 0.9
TABS = [
    ("/ratings", "To rate"),
    ("/ratings/calibration", "Agreement"),
    ("/ratings/tests", "Probes"),
    ("/ratings/tunings", "Tunings"),
]


@router.get("")
def show_queue(request: Request, services: ServicesOf, rater: Rater) -> Response:
    query = request.query_params
    narrow = _narrow(query.get, query.getlist("skip"))
    queue = rating_queue.view_queue(services, rater, narrow, chosen=query.get("evaluation"), last=query.get("last"))
    return _queue_page(request, queue, narrow, is_blind="blind" in query)


@router.post("")
def rate(request: Request, services: ServicesOf, form: FormOf, rater: Rater) -> Response:
    narrow, is_blind = _narrow(form.text, form.texts("skip")), bool(form.text("blind"))
    try:
        _rate(services, form, rater)
    except Invalid as error:
        queue = rating_queue.view_queue(services, rater, narrow, chosen=form.text("evaluation_id"))
        return _queue_page(request, queue, narrow, filled(form, _FIELDS, error), is_blind=is_blind, status=422)
    kept = [(name, form.text(name)) for name in ("blind", *_NARROWING) if form.text(name)]
    skipped = [("skip", each) for each in narrow.skipped]
    return see_other(f"/ratings?{urlencode([('last', form.text('evaluation_id')), *kept, *skipped])}")


def _narrow(text_of: Callable[[str], str | None], skipped: Sequence[str]) -> QueueFilter:
    """Read the filters of the queue. A label without `=` is ignored, because it has no value to compare with."""
    key, equals, value = (text_of("label") or "").strip().partition("=")
    label = (key.strip(), value.strip()) if equals and key.strip() else None
    run_id = (text_of("run") or "").strip() or None
    return QueueFilter(run_id, label, bool(text_of("disputed")), tuple(skipped[-_SKIPPED_MAX:]))


@router.get("/calibration")
def show_calibration(request: Request, services: ServicesOf) -> Response:
    groups, left_out = ratings.calibration(services, RatingFilter(), precision=_PRECISION)
    return page(request, "ratings/calibration.html", groups=groups, left_out=left_out, tabs=TABS)


@router.get("/tests")
def show_tests(request: Request, services: ServicesOf) -> Response:
    return page(request, "ratings/tests.html", tests=evaluator_tests.list_tests(services), tabs=TABS)


def _rate(services: Services, form: Form, rater: str) -> None:
    # In a blind rating, a person gives an opinion on the answer before the page shows the verdict. The opinion becomes
    # an agreement or a disagreement with the verdict
    if not form.text("blind"):
        number, body = read_rating(form)
    else:
        opinion: Any = form.text("opinion")
        is_known = opinion in {"passes", "fails", "unsure"}
        verdict = rating_queue.verdict_on(services, form.text("evaluation_id"), opinion) if is_known else None
        number, body = read_rating(form, verdict, _NO_OPINION)
    ratings.rate(services, form.text("job_id"), number, body, rater)


def _queue_page(
    request: Request,
    queue: RatingQueue,
    narrow: QueueFilter,
    form: Filled | None = None,
    *,
    is_blind: bool,
    status: int = 200,
) -> Response:
    shown: dict[str, Any] = {"form": form or Filled(), "narrow": narrow, "is_blind": is_blind, "tabs": TABS}
    return page(request, "ratings/queue.html", status, queue=queue, **shown)
