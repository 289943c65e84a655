"""Validates the request of the form for a job, and assigns errors to form fields."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from api.pages.new.job_form_fields import BY_PATH, GROUPS, label_of, place_of
from redraft.domain.bodies.validation_errors import message_of, pointer_of
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.errors import FieldError, Invalid

_OWN_WORDS = {"nothing_to_evaluate_by": "Enter criteria here or in a rubric"}
_ROWS = {"rubric": "criterion", "sources": "source", "conversation": "turn"}
# The fields with lists, and the noun for one of their items
_LISTS = {
    "rubric": "criterion",
    "model": "line",
    "attachments": "file",
    **dict.fromkeys(("panel", "sources", "conversation"), "item"),
}
_ROUNDS_MAX = 8


@dataclass(frozen=True, slots=True)
class FormError:
    """An error, and the id of its form field. The id is empty if the error concerns the whole request."""

    field: str
    words: str

    @property
    def label(self) -> str:
        return label_of(self.field)


def validate(body: Mapping[str, Any]) -> tuple[GenerateAnswer | None, list[FormError]]:
    """Return the request, or its errors by field."""
    request, errors = _validated(body)
    return request, located(errors)


def find_all(body: Mapping[str, Any], check: Callable[[GenerateAnswer], object]) -> list[FormError]:
    """Return the errors of a request, and those that `check` raises as Invalid.

    Some rules are only checked if all fields are valid. So each round leaves out the fields with errors, until the rest
    is valid.
    """
    left, found = dict(body), list[FieldError]()
    for _ in range(_ROUNDS_MAX):
        request, errors = _validated(left)
        if request is not None:
            try:
                check(request)
                break
            except Invalid as error:
                errors = list(error.errors) or [FieldError("", error.message, error.code)]
        found += errors
        names = {each.pointer.split("/")[1] for each in errors if "/" in each.pointer}
        if not names:
            break
        left = {name: value for name, value in left.items() if name not in names}
        # Placeholders for the fields that a request needs
        left |= {name: "-" for name in ("instruct", "eval_crit") if name not in left}
    return located(found)


def in_order(errors: Iterable[FormError]) -> list[FormError]:
    """Return the errors without repetitions, in the order of their fields on the page."""
    return sorted(dict.fromkeys(errors), key=lambda error: place_of(error.field))


def _validated(body: Mapping[str, Any]) -> tuple[GenerateAnswer | None, list[FieldError]]:
    try:
        return GenerateAnswer.model_validate(body), []
    except ValidationError as error:
        return None, [*_field_errors(error, body), *_lack_of_criteria(body)]


def _field_errors(error: ValidationError, body: Mapping[str, Any]) -> list[FieldError]:
    return [
        FieldError(pointer_of(each, body), _OWN_WORDS.get(each["type"]) or message_of(each), str(each["type"]))
        for each in error.errors(include_url=False)
    ]


def _lack_of_criteria(body: Mapping[str, Any]) -> list[FieldError]:
    # Pydantic runs model validators only if all fields are valid, but users should see all errors at once
    known = {name: body[name] for name in ("profile", "eval_crit", "rubric") if name in body}
    try:
        GenerateAnswer.model_validate({"instruct": "-", **known})
    except ValidationError as error:
        return [field_error for field_error in _field_errors(error, body) if field_error.code in _OWN_WORDS]
    return []


def located(errors: Iterable[FieldError]) -> list[FormError]:
    """Assign errors of a request to fields of the form."""
    return list(dict.fromkeys(_located(field_error) for field_error in errors))


def _located(field_error: FieldError) -> FormError:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in field_error.pointer.split("/")[1:]]
    if not parts:
        return FormError("", field_error.detail)
    if parts[0] in _ROWS and len(parts) > 1 and parts[1].isdecimal():
        return FormError(_part_of_row(_ROWS[parts[0]], parts[1:]), field_error.detail)
    if parts[0] in {*_ROWS, "attachments"}:
        return FormError(parts[0], _below(parts[0], parts[1:]) + field_error.detail)
    for length in range(len(parts), 0, -1):
        if found := BY_PATH.get(tuple(parts[:length])):
            return FormError(found.name, _below(found.name, parts[length:]) + field_error.detail)
    return FormError("more", f"{'.'.join(parts)}: {field_error.detail}")


def _part_of_row(group: str, parts: Sequence[str]) -> str:
    """Return the form field for the rest of a pointer into a list: the index, and the name of a field."""
    known = GROUPS[group][1]
    named = parts[1] if len(parts) > 1 else known[0]
    if group == "turn" and named.isdecimal():
        named = known[min(int(named), 1)]
    if group == "criterion":
        named = {"check": "value", "required": "flags", "hidden": "flags"}.get(named, named)
    fallback = "more" if "more" in known else known[0]
    return f"{group}_{named if named in known else fallback}_{int(parts[0]) + 1}"


def _below(name: str, parts: Sequence[str]) -> str:
    if not parts:
        return ""
    # Elsewhere a number is the name of a label or a variable
    noun = _LISTS.get(name)
    if noun is None or not parts[0].isdecimal():
        return f"{'.'.join(parts)}: "
    return f"{noun} {int(parts[0]) + 1}{''.join(f', {part}' for part in parts[1:])}: "
