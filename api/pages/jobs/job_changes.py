"""The actions on the pages of a job: cancel, continue, rate, delete, redeliver."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from api.dependencies import ServicesOf
from api.http.parameters import ITERATION_MAX
from api.pages.jobs.job import answer_tab, iterations_tab
from api.pages.jobs.job_frame import JobIdOf, job_page
from api.pages.new.job_form_fields import place_of
from api.pages.parts.forms import Form, FormOf, all_errors, filled, read, read_names, read_number
from api.pages.parts.rendering import pages_router, see_other
from api.routes.admin.ratings import get_rater
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.domain.jobs.requests import ContinueJob
from redraft.domain.jobs.sampling import Sampling
from redraft.errors import Conflict, FieldError, Invalid
from redraft.operations.evaluation import ratings
from redraft.operations.jobs import lifecycle, views, webhooks
from redraft.operations.jobs.views import HistoryView
from redraft.operations.services import Services

router = pages_router("/jobs/{job_id}")

# The fields of each form are in the order of the form, in which errors are listed
_SAMPLING = tuple(sorted((f"evaluator_{name}" for name in Sampling.model_fields), key=place_of))
CONTINUATION = ("guidance", "iter_max", "score_threshold", "model", "evaluator_model", *_SAMPLING)
RATING = ("evaluation_id", "iteration", "verdict", "criterion", "score", "note")
_NUMBERS = {"iter_max", "score_threshold", "score", "iteration", *_SAMPLING} - {"evaluator_reasoning_effort"}
_NO_VERDICT = FieldError("/verdict", "Choose whether you agree.", "missing")
Rater = Annotated[str, Depends(get_rater)]


@router.post("/cancel")
def cancel(services: ServicesOf, job_id: str) -> Response:
    lifecycle.cancel(services, job_id)
    return see_other(f"/jobs/{job_id}?notice=canceled#state")


@router.post("/continue")
def continue_job(request: Request, services: ServicesOf, job_id: str, form: FormOf) -> Response:
    try:
        _continue(services, job_id, _continuation(form))
    except (Invalid, Conflict) as error:
        view = views.view_history(services, job_id)
        status = 409 if isinstance(error, Conflict) else 422
        return answer_tab(request, services, view, filled(form, CONTINUATION, error), status)
    return see_other(f"/jobs/{job_id}?notice=continued#state")


def _continue(services: Services, job_id: str, values: Mapping[str, Any]) -> None:
    try:
        lifecycle.continue_job(services, job_id, read(ContinueJob, values))
    except Invalid:
        raise all_errors(ContinueJob, values, partial(lifecycle.check_continuation, services, job_id)) from None


@router.post("/ratings")
def rate(request: Request, services: ServicesOf, job_id: str, form: FormOf, rater: Rater) -> Response:
    try:
        number, body = read_rating(form)
        ratings.rate(services, job_id, number, body, rater)
    except Invalid as error:
        view = views.view_history(services, job_id)
        return iterations_tab(request, view, filled(form, RATING, error), 422)
    following = _next_to_rate(views.view_history(services, job_id), body.evaluation_id)
    return see_other(f"/jobs/{job_id}/iterations?notice=rated#{following}")


def _next_to_rate(view: HistoryView, rated_id: str | None) -> str:
    """Return the id of the next evaluation on the page that nobody has rated, or else `rated_id`."""
    shown = [each.evaluation.id for each in reversed(view.iterations) if each.evaluation]
    at = shown.index(rated_id) + 1 if rated_id in shown else 0
    rated = {rating.evaluation_id for rating in view.ratings}
    return next((each for each in (*shown[at:], *shown[:at]) if each not in rated), rated_id or "state")


@router.get("/delete")
def ask_to_delete(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    return job_page(request, "job/delete.html", views.view_job(services, job_id))


@router.post("/delete")
def delete(services: ServicesOf, job_id: str) -> Response:
    lifecycle.delete(services, job_id)
    return see_other("/jobs", notice="deleted")


@router.post("/deliveries/{delivery_id}/redeliver")
def redeliver(services: ServicesOf, job_id: str, delivery_id: str) -> Response:
    webhooks.redeliver(services, job_id, delivery_id)
    return see_other(f"/jobs/{job_id}/events?notice=resent#deliveries-title")


def read_rating(
    form: Form, verdict: str | None = None, no_verdict: FieldError = _NO_VERDICT
) -> tuple[int, RateEvaluation]:
    """Return the iteration number and the rating in a form. `verdict` replaces the verdict in the form.

    Raises Invalid with the errors of all fields. `no_verdict` is the error if the verdict is missing.
    """
    values = values_of(form, RATING) | ({"verdict": verdict} if verdict else {})
    number = values.pop("iteration", None)
    if not isinstance(number, int) or not 1 <= number <= ITERATION_MAX:
        raise Invalid.at("/iteration", "This is not the number of an iteration.", "invalid_iteration")
    if "verdict" in values:
        return number, read(RateEvaluation, values)
    # The verdict is only a placeholder, so that the other fields are validated, too
    others = all_errors(RateEvaluation, {**values, "verdict": "unsure"}, lambda _: None)
    raise Invalid(others.message, (no_verdict, *others.errors))


def _continuation(form: Form) -> dict[str, Any]:
    values = values_of(form, CONTINUATION)
    sampling = {name.removeprefix("evaluator_"): values.pop(name) for name in _SAMPLING if name in values}
    return {**values, "evaluator_sampling": sampling} if sampling else values


def values_of(form: Form, names: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {name: form.text(name) for name in names if form.lines(name)}
    for name in _NUMBERS & values.keys():
        values[name] = read_number(values[name])
    if "model" in values:
        values["model"] = read_names(form.lines("model"))
    return values
