"""Reads forms that browsers send without JavaScript, and prepares forms with errors to be shown again."""

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError

from api.dependencies import caller_of
from api.http.bodies import media_type_of, refuse_packed
from api.http.problems import HttpProblem
from api.pages.parts.multipart import FormPart, boundary_of, parts_of
from redraft.domain.bodies.validation_errors import message_of, pointer_of
from redraft.errors import FieldError, Invalid, RedraftError
from redraft.operations.jobs.submit import Idempotency

_FIELDS_MAX = 2000
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
# The pattern excludes "nan" and "1_000", which Python accepts as numbers
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")

T = TypeVar("T", bound=BaseModel)


class Form:
    """The fields of a form, as texts. Line breaks are converted to line feeds."""

    def __init__(self, fields: Mapping[str, Sequence[str]], files: Sequence[FormPart] = ()) -> None:
        self._fields = fields
        self._files = files

    def files(self, name: str) -> list[FormPart]:
        """Return the files that were chosen in the field with this name."""
        return [file for file in self._files if file.field == name]

    def text(self, name: str) -> str:
        """Return a field without surrounding white space, or an empty text if it was not sent."""
        return next(iter(self.texts(name)), "").strip()

    def lines(self, name: str) -> str:
        """Return all fields with this name that are not empty, each on a line, without surrounding white space."""
        return "\n".join(filter(None, map(str.strip, self.texts(name))))

    def texts(self, name: str) -> list[str]:
        """Return all fields with this name, with their white space."""
        return [value.replace("\r\n", "\n") for value in self._fields.get(name, ())]


async def get_form(request: Request) -> Form:
    """Read the form in the body. Raises HttpProblem: 415 for another media type, 400 if it is not valid."""
    refuse_packed(request)
    if media_type_of(request).lower() != "application/x-www-form-urlencoded":
        raise HttpProblem(415, "Send a form, as application/x-www-form-urlencoded.")
    body = await request.body()
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except ValueError:  # not UTF-8, or too many fields
        raise HttpProblem(400, "The form cannot be read.", code="invalid_form") from None
    return Form(fields)


async def get_form_with_files(request: Request) -> Form:
    """Read the form in the body, which may have files. Raises like `get_form`."""
    if media_type_of(request).lower() != "multipart/form-data":
        return await get_form(request)
    refuse_packed(request)
    body = await request.body()
    fields: dict[str, list[str]] = {}
    files: list[FormPart] = []
    try:
        boundary = boundary_of(request.headers["content-type"])
        for part in parts_of(body, boundary, _FIELDS_MAX):
            if part.file_name is None:
                fields.setdefault(part.field, []).append(part.content.decode())
            # For a file field without a file, browsers send an empty file without a name
            elif part.file_name or part.content:
                files.append(part)
    except ValueError:
        raise HttpProblem(400, "The form cannot be read.", code="invalid_form") from None
    return Form(fields, files)


FormOf = Annotated[Form, Depends(get_form)]
FormWithFilesOf = Annotated[Form, Depends(get_form_with_files)]


@dataclass(frozen=True, slots=True)
class Filled:
    """The texts of the fields of a form, and errors by field name. The name "" stands for the whole form."""

    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    errors: Mapping[str, str] = field(default_factory=dict[str, str])

    def text(self, name: str) -> str:
        return self.texts.get(name, "")

    def error(self, name: str) -> str:
        return self.errors.get(name, "")


def filled(form: Form, names: Sequence[str], error: RedraftError) -> Filled:
    """Return the form as it was sent, with the error assigned to its fields. `names` are in the order of the form."""
    errors: dict[str, str] = {}
    for each in (error.errors if isinstance(error, Invalid) else ()) or (FieldError("", error.message, error.code),):
        # Below this object, each value has a field of its own
        pointer = each.pointer.replace("/evaluator_sampling/", "/evaluator_")
        name = pointer.removeprefix("/").partition("/")[0]
        errors.setdefault(name if name in names else "", each.detail)
    in_order = {name: errors[name] for name in ("", *names) if name in errors}
    return Filled({name: form.lines(name) for name in names}, in_order)


def read_number(text: str) -> float | str:
    """Convert a text to a number.

    A text that is not a number is returned unchanged, and the validation of the request refuses it.
    """
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def read_count(text: str) -> int:
    """Convert a text to a whole number. Return 0 if the text is not a whole number, or has more than nine digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def read_names(text: str) -> str | list[str]:
    """Split names at line breaks and commas. Return a single name as a text, and several names or none as a list."""
    names = [name.strip() for name in text.replace(",", "\n").splitlines() if name.strip()]
    return names[0] if len(names) == 1 else names


def read(model: type[T], values: Mapping[str, Any]) -> T:
    """Validate plain values as a request. Raises Invalid with an error for each wrong field."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        errors = [FieldError(pointer_of(each, values), message_of(each), str(each["type"])) for each in error.errors()]
        raise Invalid("The form is not filled in correctly.", tuple(errors)) from None


def all_errors(model: type[T], values: Mapping[str, Any], check: Callable[[T], object]) -> Invalid:
    """Return the errors of all fields: those of the request, and those that `check` raises as Invalid.

    Each round leaves out the fields with errors, because `check` needs valid fields, and raises its first error only.
    """
    left, found = dict(values), list[FieldError]()
    while True:
        errors = _errors_of(model, left, check)
        found += errors
        wrong = {each.pointer.removeprefix("/").partition("/")[0] for each in errors} & left.keys()
        if not wrong:
            return Invalid("The form is not filled in correctly.", tuple(found))
        left = {name: value for name, value in left.items() if name not in wrong}


def _errors_of(model: type[T], values: Mapping[str, Any], check: Callable[[T], object]) -> Sequence[FieldError]:
    try:
        check(read(model, values))
    except Invalid as error:
        return error.errors or [FieldError("", error.message, error.code)]
    return []


def new_token() -> str:
    """Return a token for a form. If a form with the same token is sent twice, it creates only one job, run or key."""
    return secrets.token_urlsafe(16)


def idempotency_of(request: Request, page: str, token: str, content: str) -> Idempotency:
    """Return the idempotency key of a form. A form that was edited and sent again has another key."""
    written = f"{token}\n{content}".encode("utf-8", "replace")
    return Idempotency(f"{caller_of(request)}:{page}", hashlib.sha256(written).hexdigest())
