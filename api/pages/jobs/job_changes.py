"""The actions on the pages of a job: cancel, continue, rate, delete, redeliver."""

from typing import Annotated, Any

from fastapi import Depends, Request, Response

from api.dependencies import ServicesOf
from api.http.parameters import ITERATION_MAX
from api.pages.jobs.job import answer_tab, iterations_tab
from api.pages.jobs.job_frame import JobIdOf, job_page
from api.pages.parts.forms import Form, FormOf, filled, read, read_names, read_number
from api.pages.parts.rendering import pages_router, see_other
from api.routes.admin.ratings import get_rater
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.domain.jobs.requests import ContinueJob
from redraft.domain.jobs.sampling import Sampling
from redraft.errors import Conflict, Invalid
from redraft.operations.evaluation import ratings
from redraft.operations.jobs import lifecycle, views, webhooks

router = pages_router("/jobs/{job_id}")

_SAMPLING = tuple(f"evaluator_{name}" for name in Sampling.model_fields)
CONTINUATION = ("guidance", "iter_max", "score_threshold", "model", "evaluator_model", *_SAMPLING)
RATING = ("evaluation_id", "iteration", "verdict", "criterion", "score", "note")
_NUMBERS = {"iter_max", "score_threshold", "score", "iteration", *_SAMPLING} - {"evaluator_reasoning_effort"}
Rater = Annotated[str, Depends(get_rater)]


@router.post("/cancel")
def cancel(services: ServicesOf, job_id: str) -> Response:
    lifecycle.cancel(services, job_id)
    return see_other(f"/jobs/{job_id}", notice="canceled")


@router.post("/continue")
def continue_job(request: Request, services: ServicesOf, job_id: str, form: FormOf) -> Response:
    try:
        lifecycle.continue_job(services, job_id, read(ContinueJob, _continuation(form)))
    except (Invalid, Conflict) as error:
        view = views.view_history(services, job_id)
        return answer_tab(request, view, filled(form, CONTINUATION, error), 409 if isinstance(error, Conflict) else 422)
    return see_other(f"/jobs/{job_id}", notice="continued")


@router.post("/ratings")
def rate(request: Request, services: ServicesOf, job_id: str, form: FormOf, rater: Rater) -> Response:
    try:
        number, body = read_rating(form)
        ratings.rate(services, job_id, number, body, rater)
    except Invalid as error:
        view = views.view_history(services, job_id)
        return iterations_tab(request, view, filled(form, RATING, error), 422)
    return see_other(f"/jobs/{job_id}/iterations?notice=rated#{body.evaluation_id}")


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
    return see_other(f"/jobs/{job_id}/events", notice="resent")


def read_rating(form: Form, verdict: str | None = None) -> tuple[int, RateEvaluation]:
    """Return the iteration number and the rating in a form. `verdict` replaces the verdict in the form.

    Raises Invalid if a field is wrong.
    """
    values = values_of(form, RATING) | ({"verdict": verdict} if verdict else {})
    number = values.pop("iteration", None)
    if not isinstance(number, int) or not 1 <= number <= ITERATION_MAX:
        raise Invalid.at("/iteration", "This is not the number of an iteration.", "invalid_iteration")
    if "verdict" not in values:
        raise Invalid.at("/verdict", "Choose whether you agree.", "missing")
    return number, read(RateEvaluation, values)


def _continuation(form: Form) -> dict[str, Any]:
    values = values_of(form, CONTINUATION)
    sampling = {name.removeprefix("evaluator_"): values.pop(name) for name in _SAMPLING if name in values}
    return {**values, "evaluator_sampling": sampling} if sampling else values


def values_of(form: Form, names: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {name: form.text(name) for name in names if form.text(name)}
    for name in _NUMBERS & values.keys():
        values[name] = read_number(values[name])
    if "model" in values:
        values["model"] = read_names(values["model"])
    return values
