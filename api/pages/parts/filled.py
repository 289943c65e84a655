"""A small form as it was filled in, with what is wrong in it: what it is shown with again."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from api.pages.parts.forms import Form
from redraft.domain.bodies.pointers import place_of, words_of
from redraft.errors import FieldError, Invalid, RedraftError

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Filled:
    """The texts of a form's fields, and words for those that are wrong; "" has those for the form as a whole."""

    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: Mapping[str, str] = field(default_factory=dict[str, str])

    def text(self, name: str) -> str:
        return self.texts.get(name, "")

    def error(self, name: str) -> str:
        return self.errors.get(name, "")


def filled(form: Form, names: Sequence[str], error: RedraftError) -> Filled:
    """The form as it was sent, with the error at its fields."""
    errors: dict[str, str] = {}
    for field_error in (error.errors if isinstance(error, Invalid) else ()) or (
        FieldError("", error.message, error.code),
    ):
        name = field_error.pointer.removeprefix("/").partition("/")[0]
        errors.setdefault(name if name in names else "", field_error.detail)
    return Filled({name: form.text(name) for name in names}, errors)


def read_number(text: str) -> float | str:
    """What is no number stays text: the model's own words say what is wanted."""
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def read(model: type[T], values: Mapping[str, Any]) -> T:
    """A request from plain values.

    Raises:
        Invalid: it is none; each error names its field.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        errors = [FieldError(place_of(each, values), words_of(each), str(each["type"])) for each in error.errors()]
        raise Invalid("The form is not filled in right.", tuple(errors)) from None
