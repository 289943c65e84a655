"""The forms of bulk evaluation: what was written in them as requests, and what is wrong with it field by field."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from uuid import uuid4

from fastapi import Request
from pydantic import BaseModel, ValidationError

from api.bodies import parse_json
from api.pages.forms import Form
from api.problems import HttpProblem
from redraft.domain.places import place_of, words_of
from redraft.domain.runs import CreateRun, ResumeRun
from redraft.errors import Flaw, Invalid
from redraft.operations.submit import Idempotency

Body = TypeVar("Body", bound=BaseModel)

_TEXTS = ("eval_crit", "resp_format", "evaluator_model")
_NUMBERS = ("iter_max", "score_threshold")
_OF_RUN = ("repeat", "max_in_flight", "max_cost_usd")
FIELDS = ("dataset_id", "name", *_TEXTS, "model", *_NUMBERS, *_OF_RUN, "more")


@dataclass(frozen=True, slots=True)
class Filled:
    """A form as a person left it.

    Attributes:
        flaws: by field, what is wrong with it.
        others: what is wrong, and with no field that it has.
    """

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    flaws: Mapping[str, str] = field(default_factory=dict[str, str])
    others: Sequence[str] = ()

    def value(self, name: str) -> str:
        return self.values.get(name, "")


def filled(form: Form, names: Sequence[str], error: Invalid) -> Filled:
    """A form to be shown again, with what is wrong beside each field."""
    by_field: dict[str, str] = {}
    others: list[str] = []
    for flaw in error.flaws or (Flaw("", error.message, error.code),):
        name = _field_of(flaw.pointer, names)
        if name is None:
            others.append(flaw.detail)
        else:
            by_field.setdefault(name, flaw.detail)
    return Filled({name: form.text(name) for name in names}, by_field, others)


def _field_of(pointer: str, names: Sequence[str]) -> str | None:
    head, *rest = [*pointer.strip("/").split("/"), ""]
    if head == "defaults":
        return rest[0] if rest[0] in names else "more"
    return head if head in names else None


def read_run(form: Form) -> CreateRun:
    """The run that a form asks for.

    Raises:
        Invalid: a field is wrong in itself.
    """
    body: dict[str, Any] = {"dataset_id": form.text("dataset_id"), "defaults": _defaults(form)}
    if form.text("name"):
        body["name"] = form.text("name")
    body |= {name: _number(form.text(name)) for name in _OF_RUN if form.text(name)}
    return _validated(CreateRun, body)


def read_resume(form: Form) -> ResumeRun:
    """Raises Invalid: the budget is none."""
    body: dict[str, Any] = {"retry": "errors" if form.text("retry") == "errors" else "open"}
    if form.text("max_cost_usd"):
        body["max_cost_usd"] = _number(form.text("max_cost_usd"))
    return _validated(ResumeRun, body)


def _validated(model: type[Body], body: dict[str, Any]) -> Body:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        found = [dict(each) for each in error.errors(include_url=False)]
        flaws = tuple(Flaw(place_of(each, body), words_of(each), str(each["type"])) for each in found)
        raise Invalid(flaws[0].detail, flaws) from None


def _defaults(form: Form) -> dict[str, Any]:
    models = [name.strip() for name in form.text("model").split(",") if name.strip()]
    return {
        **_more(form.text("more")),
        **{name: form.text(name) for name in _TEXTS if form.text(name)},
        **{name: _number(form.text(name)) for name in _NUMBERS if form.text(name)},
        **({"model": models if len(models) > 1 else models[0]} if models else {}),
    }


def _more(text: str) -> dict[str, Any]:
    try:
        value: Any = parse_json(text.encode()) if text else {}
    except HttpProblem as problem:
        words = problem.detail.replace("The body", "This")
        raise Invalid.at("/more", words, "invalid_json") from None
    if not isinstance(value, dict):
        raise Invalid.at("/more", 'This must be a JSON object, such as {"candidates": 2}.', "dict_type")
    return cast("dict[str, Any]", value)


def _number(text: str) -> int | float | str:
    """What is no number stays a text, for the model to refuse."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def new_token() -> str:
    """Goes into a form, so that sending it twice does not start two runs."""
    return uuid4().hex


def idempotency_of(request: Request, form: Form) -> Idempotency:
    """The same form with the same fields is the same run; changed fields are another one."""
    caller = request.scope["state"].get("key_id") or "-"
    written = "\n".join(f"{name}={form.text(name)}" for name in (*FIELDS, "token"))
    return Idempotency(f"{caller}:pages", hashlib.sha256(written.encode("utf-8", "replace")).hexdigest())
