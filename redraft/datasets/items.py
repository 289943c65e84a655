"""Converts rows to requests. The defaults of a run, the row and the overrides are merged and validated as one body."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import ValidationError

from redraft.datasets.columns import listed, no_field
from redraft.datasets.fields import parts
from redraft.datasets.rows import BadRow, Row
from redraft.domain.bodies.validation_errors import message_of, pointer_of
from redraft.domain.jobs.requests import EvaluateAnswer, GenerateAnswer
from redraft.domain.jobs.states import JobKind
from redraft.domain.jobs.variables import RESERVED
from redraft.errors import FieldError, Invalid
from redraft.prompts.text_templates import RENDERED, has_placeholders, render_field

ItemRequest = GenerateAnswer | EvaluateAnswer

FIELD_ERRORS_MAX = 20
_INSTRUCT_MISSING = "instruct (also called question, prompt or input) is missing"
_NEVER_FOR_ALL = ("custom_id", "human_score", "human_pass", "answer")


@dataclass(frozen=True, slots=True)
class Item:
    """A valid row with its request.

    Attributes:
        custom_id: the id of the row, unique within the dataset.
        line: the number of the row's first line, from 1.
        kind: `evaluate_answer` if the row has an answer, otherwise `generate_answer`.
        request: the validated request, whose models are not yet resolved.
        human_score: the score by a person, 0 to 1.
        digest: the hash of the row without defaults and overrides.
    """

    custom_id: str
    line: int
    kind: JobKind
    request: ItemRequest
    human_score: float | None
    human_pass: bool | None
    digest: str


class Merger:
    """Merges the defaults and overrides of a run into every row. Both can have any field of a request, and `vars`.

    Objects (`limits`, `sampling`, `metadata`, `vars`, …) are merged name by name. Other values are replaced. Texts of
    the run are templates if they have braces. Texts of a row are templates only if the row or the run has `vars`.
    Otherwise a question about braces is sent unchanged.
    """

    def __init__(self, defaults: Mapping[str, Any] | None = None, overrides: Mapping[str, Any] | None = None) -> None:
        """Check the fields. Raises Invalid if a field is unknown or has an invalid value (code `invalid_request`)."""
        self._defaults = _checked(defaults or {}, "defaults")
        self._overrides = _checked(overrides or {}, "overrides")

    def items(self, rows: Iterable[Row | BadRow]) -> Iterator[Item | BadRow]:
        return (row if isinstance(row, BadRow) else self.item(row) for row in rows)

    def item(self, row: Row) -> Item | BadRow:
        """Return the item of a row, or the row with its validation errors."""
        errors: list[FieldError] = []
        body = self._body(row, errors)
        model = EvaluateAnswer if "answer" in row.fields else GenerateAnswer
        if not errors:
            try:
                request = model.model_validate(body)
            except ValidationError as error:
                found = _field_errors_of(error, body, is_given="answer" in row.fields)
                errors = [_with_columns(each, row) for each in found]
            else:
                kind = JobKind.EVALUATE_ANSWER if isinstance(request, EvaluateAnswer) else JobKind.GENERATE_ANSWER
                human = (row.human_score, row.human_pass)
                return Item(row.custom_id, row.line, kind, request, *human, row.digest)
        return BadRow(row.line, row.last_line, row.custom_id, tuple(errors[:FIELD_ERRORS_MAX]), row.digest)

    def takes_literally(self, row: Row) -> bool:
        """Whether a row has texts that look like templates, but no `vars`."""
        texts = [row.fields[name] for name in RENDERED & row.fields.keys()]
        return not self._variables(row) and any(map(has_placeholders, texts))

    def _variables(self, row: Row) -> dict[str, Any]:
        own, most = self._defaults.get("vars", {}), self._overrides.get("vars", {})
        return {**own, **row.vars, **most} if own or most else dict(row.vars)

    def _body(self, row: Row, errors: list[FieldError]) -> dict[str, Any]:
        body: dict[str, Any] = {}
        variables = self._variables(row)
        for layer in (_fitting(self._defaults, row), row.fields, _fitting(self._overrides, row)):
            _merge(body, layer, "")
        # The texts are rendered here. Only a generator template still needs the variables
        body.pop("vars", None)
        if body.get("generator_template"):
            body["vars"] = {
                name: value for name, value in variables.items() if name.isidentifier() and name not in RESERVED
            }
        for name in sorted(RENDERED & body.keys()):
            is_own = name in row.fields and name not in self._overrides
            if (variables or not is_own) and has_placeholders(body[name]):
                body[name] = render_field(name, body[name], variables, errors)
        return body


def _fitting(layer: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """Return the fields of the run that apply to a row."""
    # A row with an answer is an evaluation, so the fields of a generation do not apply to it
    known = (EvaluateAnswer if "answer" in row.fields else GenerateAnswer).model_fields
    return {name: value for name, value in layer.items() if name in known}


def _merge(into: dict[str, Any], layer: Mapping[str, Any], above: str) -> None:
    for name, value in layer.items():
        here = into.get(name)
        if isinstance(value, dict) and above + name in parts():
            below = dict(cast("dict[str, Any]", here)) if isinstance(here, dict) else {}
            _merge(below, cast("dict[str, Any]", value), f"{above}{name}.")
            into[name] = below
        else:
            into[name] = value


def _with_columns(error: FieldError, row: Row) -> FieldError:
    """Add the names of the unused columns to the error of a missing instruction."""
    # The instruction may be in one of these columns
    if (error.pointer, error.code) != ("/instruct", "missing") or not row.unused:
        return error
    return replace(error, detail=f"{error.detail[:-1]}; columns that fill no field: {listed(list(row.unused))}.")


def _field_errors_of(error: ValidationError, body: Mapping[str, Any], *, is_given: bool) -> list[FieldError]:
    found = (
        _field_error(each, body, is_given=is_given) for each in error.errors(include_url=False, include_input=False)
    )
    return list(dict.fromkeys(found))


def _field_error(error: Any, body: Mapping[str, Any], *, is_given: bool) -> FieldError:
    pointer, kind = pointer_of(error, body), str(error["type"])
    field = pointer[1:].replace("/", ".")
    words = message_of(error, body)
    if pointer == "/instruct" and kind == "missing":
        words = f"{_INSTRUCT_MISSING}."
    elif kind == "extra_forbidden" and is_given and field in GenerateAnswer.model_fields:
        words = f"{field} is for answers to be written; this row brings one in its column answer."
    elif field:
        words = f"{field}: {words}."
    return FieldError(pointer, words, kind)


def _checked(layer: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Validate the defaults or overrides of a run. Placeholders stand for required fields, which only rows have."""
    given = dict(layer)
    variables = given.get("vars", {})
    errors = [
        FieldError(f"/{name}/{each}", f"{each} belongs to a row, not to a run.", "misplaced")
        for each in _NEVER_FOR_ALL
        if each in given
    ]
    if not isinstance(variables, dict):
        errors.append(FieldError(f"/{name}/vars", "vars needs an object of names and values.", "dict_type"))
    if not errors:
        errors = _tried({key: value for key, value in given.items() if key != "vars"}, name)
    if errors:
        message = errors[0].detail if len(errors) == 1 else f"The run's {name} are not valid."
        raise Invalid(message, tuple(errors))
    return given


def _tried(fields: dict[str, Any], name: str) -> list[FieldError]:
    criteria = {} if fields.keys() & {"rubric", "profile"} else {"eval_crit": "a"}
    body = {"instruct": "a", **criteria, **fields}
    try:
        GenerateAnswer.model_validate(body)
    except ValidationError as error:
        errors = _field_errors_of(error, body, is_given=False)
        return [
            FieldError(f"/{name}{field_error.pointer}", _with_guess(field_error), field_error.code)
            for field_error in errors
        ]
    return []


def _with_guess(error: FieldError) -> str:
    is_unknown = error.code == "extra_forbidden"
    return no_field(error.pointer[1:].replace("/", ".")) if is_unknown else error.detail
