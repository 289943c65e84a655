"""Converts the forms of bulk evaluation to requests, and assigns errors to form fields."""

import json
from dataclasses import replace
from typing import Any

from api.http.bodies import parse_object
from api.pages.parts.forms import Filled, Form, filled, read, read_names, read_number
from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.domain.jobs.rubric_lines import read_rubric, write_rubric
from redraft.errors import FieldError, Invalid
from redraft.operations.bulk.run_previews import StartPreview, preview_start
from redraft.operations.bulk.run_resources import Run
from redraft.operations.jobs.webhooks import check_webhook
from redraft.operations.services import Services

_TEXTS = ("instruct", "eval_crit", "resp_format", "evaluator_model")
_NUMBERS = ("iter_max", "score_threshold")
_OF_RUN = ("repeat", "max_in_flight", "max_cost_usd")
# The fields of each form are in the order of the form, in which errors are listed
FIELDS = (
    *("dataset_id", "name", "instruct", "eval_crit", "rubric", "resp_format", "iter_max", "score_threshold"),
    *("model", "evaluator_model", "more", "overrides", "repeat", "max_in_flight", "delivery", "webhook"),
    "max_cost_usd",
)
ROWS_FIELDS = ("name", "format", "rows", "mapping")
_ERRORS_SHOWN = 5
_VARIABLES = (
    "A variable is a column vars.NAME of the dataset. vars.NAME=COLUMN, in Columns with other names of a new dataset, "
    "makes a variable of another column."
)
# Replaces a rubric that cannot be read, so that the rows do not seem to lack criteria
_PLACEHOLDER = ({"id": "unreadable", "text": "-"},)


def kept_run(form: Form) -> Filled:
    return Filled({name: form.text(name) for name in FIELDS})


def filled_run(form: Form, error: Invalid) -> Filled:
    """Return the form with its errors. Errors in a default without a form field are at the field `more`."""
    return filled(form, FIELDS, Invalid(error.message, _placed(form, error), code=error.code))


def _placed(form: Form, error: Invalid) -> tuple[FieldError, ...]:
    """Return the errors with pointers to the fields of the form."""
    is_of_rows = error.code == "no_good_rows"
    placed = (replace(each, pointer=_place(each.pointer, is_of_rows=is_of_rows)) for each in error.errors)
    if not is_of_rows:
        return tuple(placed)
    # A text of this form names a variable that the rows do not have
    return tuple(
        replace(now, pointer=before.pointer, detail=f"{before.detail} {_VARIABLES}")
        if before.code == "undefined_variable" and form.text(before.pointer[1:])
        else now
        for before, now in zip(error.errors, placed, strict=True)
    )


def _place(pointer: str, *, is_of_rows: bool) -> str:
    head, _, rest = pointer.removeprefix("/").partition("/")
    if head != "defaults":
        return "/dataset_id" if is_of_rows else pointer
    return f"/{rest}" if rest.partition("/")[0] in FIELDS else "/more"


def filled_rows(form: Form, error: Invalid) -> Filled:
    """Return the form of a dataset, with the errors of its first rows at the field `rows`."""
    words = " ".join(field_error.detail for field_error in error.errors[:_ERRORS_SHOWN]) or error.message
    known = {field_error.pointer for field_error in error.errors} <= {f"/{name}" for name in ROWS_FIELDS}
    return filled(form, ROWS_FIELDS, error if error.errors and known else Invalid.at("/rows", words, error.code))


def check_run(services: Services, form: Form) -> tuple[CreateRun, StartPreview]:
    """Convert the form to a request, and compute what it would start.

    Raises Invalid with the errors of all fields, and NotFound if there is no such dataset.
    """
    body, errors = _read_run(form)
    if body is not None:
        try:
            check_webhook(services, body.webhook)
        except Invalid as error:
            errors += error.errors
        try:
            shown = preview_start(services, body)
        except Invalid as error:
            if not errors:
                raise
            errors += _placed(form, error)
        else:
            if not errors:
                return body, shown
    raise Invalid("The form is not filled in correctly.", tuple(errors))


def _read_run(form: Form) -> tuple[CreateRun | None, list[FieldError]]:
    """Return the request without the invalid fields, and their errors. The request is None if it needs these fields."""
    errors = list[FieldError]()
    body = _body(form, errors)
    try:
        return read(CreateRun, body), errors
    except Invalid as error:
        errors += error.errors
    wrong = {error.pointer.split("/")[1] for error in errors}
    try:
        return read(CreateRun, {name: value for name, value in body.items() if name not in wrong}), errors
    except Invalid:
        return None, errors


def _body(form: Form, errors: list[FieldError]) -> dict[str, Any]:
    """Return the request of the form. Omit fields whose JSON cannot be parsed, and add their errors to `errors`."""
    more = _object(form, "more", errors)
    if twice := [name for name in (*_TEXTS, *_NUMBERS, "rubric", "model") if name in more and form.text(name)]:
        words = f"Given twice, here and in a field of their own: {', '.join(twice)}. Leave one of them empty."
        errors.append(FieldError("/more", words, "invalid_request"))
    body: dict[str, Any] = {
        "dataset_id": form.text("dataset_id"),
        "defaults": {
            **more,
            **{name: form.text(name) for name in _TEXTS if form.text(name)},
            **{name: read_number(form.text(name)) for name in _NUMBERS if form.text(name)},
            **({"model": models} if (models := read_names(form.text("model"))) else {}),
            **_rubric(form, errors),
        },
        "overrides": _object(form, "overrides", errors),
        **{name: read_number(form.text(name)) for name in _OF_RUN if form.text(name)},
    }
    body |= {name: form.text(name) for name in ("name", "delivery") if form.text(name)}
    if form.text("webhook"):
        body["webhook"] = {"url": form.text("webhook")}
    return body


def read_resume(form: Form) -> ResumeRun:
    """Convert the form to a request to resume a run. Raises Invalid if the budget is not a number."""
    body: dict[str, Any] = {"retry": form.text("retry") or "open"}
    if form.text("max_cost_usd"):
        body["max_cost_usd"] = read_number(form.text("max_cost_usd"))
    return read(ResumeRun, body)


def _rubric(form: Form, errors: list[FieldError]) -> dict[str, Any]:
    try:
        rubric = read_rubric(form.text("rubric"))
    except ValueError as error:
        errors.append(FieldError("/rubric", str(error), "invalid_request"))
        return {"rubric": _PLACEHOLDER}
    return {"rubric": rubric} if rubric else {}


def _object(form: Form, name: str, errors: list[FieldError]) -> dict[str, Any]:
    try:
        return parse_object(form.text(name), name, "This") if form.text(name) else {}
    except Invalid as error:
        errors += error.errors
        return {}


def filled_like(run: Run) -> Filled:
    """Return a form that is filled in with the values of an existing run."""
    rest = dict(run.defaults)
    texts = {name: rest.pop(name) for name in _TEXTS if isinstance(rest.get(name), str)}
    texts |= {name: str(rest.pop(name)) for name in _NUMBERS if isinstance(rest.get(name), int | float)}
    models: Any = rest.pop("model", None) or []
    texts["model"] = models if isinstance(models, str) else ", ".join(map(str, models))
    texts["rubric"] = write_rubric(rest.pop("rubric")) if isinstance(rest.get("rubric"), list) else ""
    texts |= {name: str(value) for name in _OF_RUN if (value := getattr(run, name)) is not None}
    # A run has a reason for its delivery only if the user has chosen `auto`
    texts["delivery"] = "auto" if run.delivery_reason else run.delivery
    texts["webhook"] = run.webhook.url if run.webhook else ""
    for name, given in (("more", rest), ("overrides", run.overrides)):
        texts[name] = json.dumps(given, ensure_ascii=False, indent=2) if given else ""
    return Filled({"dataset_id": run.dataset_id, "name": run.name, **texts})
