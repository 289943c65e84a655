"""The list of runs, and the form that starts a run."""

import hashlib
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query, Request, Response

from api.dependencies import ServicesOf
from api.pages.bulk.run_forms import FIELDS, check_run, filled_like, filled_run, kept_run
from api.pages.parts.forms import Filled, Form, FormOf, idempotency_of, new_token
from api.pages.parts.rendering import address, page, pages_router, see_other
from redraft.domain.jobs.job_defaults import ITER_MAX, SCORE_THRESHOLD
from redraft.errors import Invalid
from redraft.operations.admin.installation import list_models
from redraft.operations.bulk import datasets, run_listing, runs
from redraft.operations.bulk.datasets import Dataset
from redraft.operations.bulk.run_previews import StartPreview
from redraft.operations.services import Services

router = pages_router("/runs")

_PAGE = 20
_CHOICES = 100
_CRITERIA = frozenset({"eval_crit", "rubric"})
_DEFAULTS = _CRITERIA | {"instruct", "resp_format", "iter_max", "score_threshold", "model", "evaluator_model"}
_START = {"iter_max": str(ITER_MAX), "score_threshold": str(SCORE_THRESHOLD), "repeat": "1", "max_in_flight": "32"}


@router.get("")
def list_runs(
    request: Request, services: ServicesOf, after: Annotated[str | None, Query(max_length=500)] = None
) -> Response:
    found, cursor = run_listing.list_runs(services, cursor=after, limit=_PAGE)
    following = address(request, after=cursor) if cursor else None
    return page(request, "runs/list.html", runs=found, next_address=following, is_first=after is None)


@router.get("/new")
def show_new_run(request: Request, services: ServicesOf, dataset: str = "", like: str = "") -> Response:
    if not like:
        return _new_run(request, services, Filled({**_START, "dataset_id": dataset}))
    form = filled_like(runs.get_run(services, like))
    name = runs.name_of_copy(services, form.text("name"))
    return _new_run(request, services, replace(form, texts={**form.texts, "name": name}))


@router.post("/new")
def start_run(request: Request, services: ServicesOf, form: FormOf) -> Response:
    """Start the run of the form if the user has seen its maximum cost. Otherwise only show this cost."""
    try:
        body, preview = check_run(services, form)
        content, digest = _content_of(form)
        if form.text("seen") != digest or form.text("do") == "preview":
            return _new_run(request, services, kept_run(form), preview=preview, seen=digest)
        run, _ = runs.create_run(services, body, idempotency_of(request, "pages", form.text("token"), content))
    except Invalid as error:
        return _new_run(request, services, filled_run(form, error), 422)
    return see_other(f"/runs/{run.id}", notice="run_started")


def _content_of(form: Form) -> tuple[str, str]:
    """Return the content of the form, and its digest."""
    content = "\n".join(f"{name}={form.text(name)}" for name in FIELDS)
    return content, hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()


def _new_run(
    request: Request,
    services: Services,
    form: Filled,
    status: int = 200,
    preview: StartPreview | None = None,
    seen: str = "",
) -> Response:
    """Render the form. `seen` identifies the content whose cost `preview` shows."""
    known, _ = datasets.list_datasets(services, cursor=None, limit=_CHOICES)
    chosen = form.text("dataset_id")
    # The list contains only the newest datasets
    if chosen and all(each.id != chosen for each in known):
        known = [datasets.get_dataset(services, chosen), *known]
    chosen_dataset = next((each for each in known if each.id == chosen), known[0] if known else None)
    models = services.settings.model or "", services.settings.evaluator_model or ""
    offered = [each.id.removesuffix("*") for each in list_models(services) if each.is_ready]
    shown: dict[str, Any] = {"datasets": known, "models": models, "offered": offered, "token": new_token()}
    names = _set_by_rows(chosen_dataset)
    is_open = any(name in form.errors or (form.text(name) and name not in _START) for name in names)
    of_rows: dict[str, Any] = {"chosen": chosen_dataset, "of_rows": names, "is_open": is_open}
    return page(request, "runs/new.html", status, form=form, preview=preview, seen=seen, **shown, **of_rows)


def _set_by_rows(dataset: Dataset | None) -> list[str]:
    """Return the fields of the form that a column of the dataset fills."""
    used = set(dataset.columns.get("used", {})) if dataset else set[str]()
    if used & _CRITERIA:
        # A row with a rubric needs no criteria in words, and vice versa
        used |= _CRITERIA
    return [name for name in FIELDS if name in used and name in _DEFAULTS]
