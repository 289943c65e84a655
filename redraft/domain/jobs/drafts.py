"""Drafts of jobs: a model turns a rough question into a request that the user can edit and send."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from pydantic import Field, TypeAdapter, ValidationError

from redraft.domain.bodies.fields import FilledText, ModelName, StrictModel, Text
from redraft.domain.checks.shorthand import describe_error, read_check
from redraft.domain.evaluation.json_extraction import Unusable, find_object, may_be_cut
from redraft.domain.evaluation.rubrics import Criterion, Rubric, evaluated_by_model
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.text.cleaning import clean

CHECK_KINDS = (
    "max_words",
    "min_words",
    "max_chars",
    "min_chars",
    "lines",
    "bullets",
    "contains",
    "not_contains",
    "starts_with",
    "ends_with",
    "language",
    "is_json",
    "is_url_free",
)
"""The checks that a draft may hold: those that are told by a kind and one value."""

_ID_CHARS = 40
_NO_OBJECT = "It is not the one JSON object that was asked for."
_NO_JUDGED = (
    "`rubric` holds only checks, which say nothing of what an answer says: add criteria of kind binary that do."
)
_CRITERION: TypeAdapter[Criterion] = TypeAdapter(Criterion)
_RUBRIC: TypeAdapter[Rubric] = TypeAdapter(Rubric)


class RefineQuestion(StrictModel):
    """A rough question, and the model that drafts a job from it."""

    question: FilledText = Field(description="What you want to know, in your own words.")
    model: ModelName | None = Field(default=None, description="provider:name; null: the configured generator.")


class Draft(StrictModel):
    """A drafted job. Its first four fields are fields of a request.

    Attributes:
        reasoning: the model's reasons for this draft.
    """

    instruct: FilledText
    resp_format: Text
    eval_crit: FilledText | None
    rubric: Rubric
    reasoning: Text

    def as_request(self) -> dict[str, Any]:
        """The draft as the body of a request."""
        return self.model_dump(mode="json", exclude={"reasoning"}, exclude_none=True)


class Line(NamedTuple):
    """A criterion in the flat form of the draft's reply schema."""

    number: int
    fields: Mapping[str, Any]

    @property
    def place(self) -> str:
        return f"`rubric`, criterion {self.number}"


def read_draft(text: str, *, finish_reason: str | None = "stop") -> Draft | Unusable:
    """The reply to the prompt for drafts. The model is asked to correct its validation errors."""
    found = find_object(text, finish_reason, _is_draft)
    if isinstance(found, Unusable):
        is_cut = found.kind == "truncated" or may_be_cut(finish_reason)
        return Unusable("truncated" if is_cut else "invalid_json", "It was cut off." if is_cut else _NO_OBJECT)
    try:
        return _draft(found.value)
    except ValueError as error:
        return Unusable("incomplete", str(error))


def _is_draft(value: Mapping[str, Any]) -> bool:
    return "instruct" in value and "rubric" in value


def _draft(reply: Mapping[str, Any]) -> Draft:
    """Read a draft from a reply.

    Raises:
        ValueError: the reply is no valid draft; the message is meant for the model.
    """
    lines: Any = reply.get("rubric")
    if not isinstance(lines, list) or not lines:
        raise ValueError("`rubric` must be a list of criteria.")
    rubric = _with_own_ids(
        _criterion(Line(number, _fields(line, number))) for number, line in enumerate(cast("list[Any]", lines), 1)
    )
    if not evaluated_by_model(rubric):
        raise ValueError(_NO_JUDGED)
    request = {
        "instruct": _text(reply, "instruct"),
        "resp_format": _text(reply, "resp_format"),
        "eval_crit": _text(reply, "eval_crit") or None,
    }
    try:
        rubric = _RUBRIC.validate_python(rubric)
        GenerateAnswer.model_validate({**request, "rubric": rubric})
        return Draft.model_validate({**request, "rubric": rubric, "reasoning": _text(reply, "reasoning")})
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        raise ValueError(f"`{place[0] if place else 'rubric'}`: {describe_error(error)}.") from None


def _fields(line: Any, number: int) -> Mapping[str, Any]:
    if not isinstance(line, dict):
        raise ValueError(f"`rubric`, criterion {number}: it must be an object.")  # noqa: TRY004 - one kind of error
    return cast("dict[str, Any]", line)


def _text(reply: Mapping[str, Any], name: str) -> str:
    value: Any = reply.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"`{name}` must be text.")  # noqa: TRY004 - one kind of error
    return clean(value).strip()


def _criterion(line: Line) -> Criterion:
    kind = _text(line.fields, "kind") or "binary"
    spec: dict[str, Any] = {
        "id": kebab(_text(line.fields, "id") or f"criterion {line.number}"),
        "text": _text(line.fields, "text"),
        "kind": kind,
        "required": line.fields.get("required", False),
        "anchors": _anchors(line.fields) if kind == "scale" else None,
    }
    try:
        if kind == "check":
            spec["check"] = _check(line)
        return _CRITERION.validate_python(spec)
    except ValidationError as error:
        field = "".join(f", `{part}`" for part in error.errors()[0]["loc"][:1])
        raise ValueError(f"{line.place}{field}: {describe_error(error)}.") from None


def _check(line: Line) -> Any:
    kind, value = _text(line.fields, "check"), line.fields.get("value")
    if kind not in CHECK_KINDS:
        raise ValueError(f"{line.place}: a criterion of kind check names in `check` one of {', '.join(CHECK_KINDS)}.")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:g}" if is_number else _text(line.fields, "value")
    try:
        return read_check(kind, text or None)
    except ValueError as error:
        raise ValueError(f"{line.place}: check {kind} with this `value`: {error}.") from None


def _anchors(fields: Mapping[str, Any]) -> dict[str, str] | None:
    told_levels = {level: _text(fields, f"level_{level}") for level in ("0", "5")}
    return {level: words for level, words in told_levels.items() if words} or None


def kebab(text: str) -> str:
    """Make a short id from words: lower-case letters and digits, joined by hyphens."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:_ID_CHARS].strip("-") or "criterion"


def free_id(wanted: str, taken: Iterable[str]) -> str:
    """Return the id, or the first of `id-2`, `id-3`, … that no other criterion has."""
    known = set(taken)
    number, name = 2, wanted
    while name in known:
        name, number = f"{wanted}-{number}", number + 1
    return name


def _with_own_ids(criteria: Iterable[Criterion]) -> list[Criterion]:
    """Give criteria with the same id different ids. A repeated id alone is no reason to ask the model again."""
    found: list[Criterion] = []
    for criterion in criteria:
        name = free_id(criterion.id, (each.id for each in found))
        found.append(criterion.model_copy(update={"id": name}))
    return found
