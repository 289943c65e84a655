"""The forms of bulk evaluation: what was written in them as requests, and what is wrong with it field by field."""

import hashlib
import json
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

from fastapi import Request

from api.http.bodies import parse_json
from api.http.problems import HttpProblem
from api.pages.parts.filled import Filled, filled, read, read_number
from api.pages.parts.forms import Form
from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.errors import Invalid
from redraft.operations.bulk.run_resources import Run
from redraft.operations.jobs.submit import Idempotency

_TEXTS = ("instruct", "eval_crit", "resp_format", "evaluator_model")
_NUMBERS = ("iter_max", "score_threshold")
_OF_RUN = ("repeat", "max_in_flight", "max_cost_usd")
FIELDS = ("dataset_id", "name", *_TEXTS, "model", *_NUMBERS, *_OF_RUN, "webhook", "more", "overrides")
ROWS_FIELDS = ("name", "format", "mapping", "rows")
_ERRORS_SHOWN = 5


def filled_run(form: Form, error: Invalid) -> Filled:
    """The form to be shown again: what is wrong with a default stands at its field, or at that of all other ones."""
    is_of_rows = error.code == "no_good_rows"
    errors = tuple(
        replace(field_error, pointer=_place(field_error.pointer, is_of_rows=is_of_rows)) for field_error in error.errors
    )
    return filled(form, FIELDS, Invalid(error.message, errors, code=error.code))


def _place(pointer: str, *, is_of_rows: bool) -> str:
    head, _, rest = pointer.removeprefix("/").partition("/")
    if head != "defaults":
        return "/dataset_id" if is_of_rows else pointer
    return f"/{rest}" if rest.partition("/")[0] in FIELDS else "/more"


def filled_rows(form: Form, error: Invalid) -> Filled:
    """The form of a dataset, with what is wrong with its first rows at the field that holds them."""
    words = " ".join(field_error.detail for field_error in error.errors[:_ERRORS_SHOWN]) or error.message
    known = {field_error.pointer for field_error in error.errors} <= {f"/{name}" for name in ROWS_FIELDS}
    return filled(form, ROWS_FIELDS, error if error.errors and known else Invalid.at("/rows", words, error.code))


def read_run(form: Form) -> CreateRun:
    """The run that a form asks for.

    Raises:
        Invalid: a field is wrong in itself.
    """
    body: dict[str, Any] = {"dataset_id": form.text("dataset_id"), "defaults": _defaults(form)}
    body["overrides"] = _object(form, "overrides")
    if form.text("name"):
        body["name"] = form.text("name")
    if form.text("webhook"):
        body["webhook"] = {"url": form.text("webhook")}
    body |= {name: read_number(form.text(name)) for name in _OF_RUN if form.text(name)}
    return read(CreateRun, body)


def read_resume(form: Form) -> ResumeRun:
    """Raises Invalid: the budget is none."""
    body: dict[str, Any] = {"retry": "errors" if form.text("retry") == "errors" else "open"}
    if form.text("max_cost_usd"):
        body["max_cost_usd"] = read_number(form.text("max_cost_usd"))
    return read(ResumeRun, body)


def _defaults(form: Form) -> dict[str, Any]:
    models = [name.strip() for name in form.text("model").split(",") if name.strip()]
    return {
        **_object(form, "more"),
        **{name: form.text(name) for name in _TEXTS if form.text(name)},
        **{name: read_number(form.text(name)) for name in _NUMBERS if form.text(name)},
        **({"model": models if len(models) > 1 else models[0]} if models else {}),
    }


def _object(form: Form, name: str) -> dict[str, Any]:
    text = form.text(name)
    try:
        value: Any = parse_json(text.encode()) if text else {}
    except HttpProblem as problem:
        words = problem.detail.replace("The body", "This")
        raise Invalid.at(f"/{name}", words, "invalid_json") from None
    if not isinstance(value, dict):
        raise Invalid.at(f"/{name}", 'This must be a JSON object, such as {"candidates": 2}.', "dict_type")
    return cast("dict[str, Any]", value)


def filled_like(run: Run) -> Filled:
    """The form as it would have been filled in for a run."""
    rest = dict(run.defaults)
    texts = {name: rest.pop(name) for name in _TEXTS if isinstance(rest.get(name), str)}
    texts |= {name: str(rest.pop(name)) for name in _NUMBERS if isinstance(rest.get(name), int | float)}
    models: Any = rest.pop("model", None) or []
    texts["model"] = models if isinstance(models, str) else ", ".join(map(str, models))
    texts |= {name: str(value) for name in _OF_RUN if (value := getattr(run, name)) is not None}
    texts["webhook"] = run.webhook.url if run.webhook else ""
    for name, given in (("more", rest), ("overrides", run.overrides)):
        texts[name] = json.dumps(given, ensure_ascii=False, indent=2) if given else ""
    return Filled({"dataset_id": run.dataset_id, "name": run.name, **texts})


def new_token() -> str:
    """Goes into a form, so that sending it twice does not start two runs."""
    return uuid4().hex


def idempotency_of(request: Request, form: Form) -> Idempotency:
    """The same form with the same fields is the same run; changed fields are another one."""
    caller = request.scope["state"].get("key_id") or "-"
    written = "\n".join(f"{name}={form.text(name)}" for name in (*FIELDS, "token"))
    return Idempotency(f"{caller}:pages", hashlib.sha256(written.encode("utf-8", "replace")).hexdigest())
