"""Drafts of jobs: a model turns a rough question into a request that the user can edit and send."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import Field, TypeAdapter, ValidationError

from redraft.domain.bodies.fields import FilledText, ModelName, StrictModel, Text
from redraft.domain.checks.shorthand import describe_error, read_check
from redraft.domain.evaluation.json_extraction import Unusable, find_object, may_be_truncated
from redraft.domain.evaluation.rubrics import Criterion, Rubric, evaluated_by_model
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.text.cleaning import clean

DRAFT_CHECK_KINDS = (
    *("max_words", "min_words", "max_chars", "min_chars", "lines", "bullets"),
    *("contains", "not_contains", "starts_with", "ends_with", "language", "is_json", "is_url_free"),
)
"""The kinds of checks in drafts: those with at most one value, because the reply schema has one field for it."""

_ID_CHARS = 40
_NO_OBJECT = "It is not the one JSON object that was asked for."
_ONLY_CHECKS = "`rubric` holds only checks, which do not test the content of an answer: add criteria of kind binary."
_CRITERION: TypeAdapter[Criterion] = TypeAdapter(Criterion)
_RUBRIC: TypeAdapter[Rubric] = TypeAdapter(Rubric)


class RefineQuestion(StrictModel):
    """A rough question, and the model that drafts a job from it."""

    question: FilledText = Field(description="What you want to know, in your own words.")
    model: ModelName | None = Field(default=None, description="provider:name; null: the configured generator.")


class Draft(StrictModel):
    """A drafted job: fields of a request, and the model's reasons for them."""

    instruct: FilledText
    resp_format: Text
    eval_crit: FilledText | None
    rubric: Rubric
    reasoning: Text


def read_draft(text: str, *, finish_reason: str | None = "stop") -> Draft | Unusable:
    """Read the reply to a draft prompt. The message of an unusable reply asks the model for a correction."""
    found = find_object(text, finish_reason, lambda value: "instruct" in value and "rubric" in value)
    if isinstance(found, Unusable):
        is_truncated = found.kind == "truncated" or may_be_truncated(finish_reason)
        return Unusable(
            "truncated" if is_truncated else "invalid_json", "It was cut off." if is_truncated else _NO_OBJECT
        )
    try:
        return _draft(found.value)
    except ValueError as error:
        return Unusable("incomplete", str(error))


def _draft(reply: Mapping[str, Any]) -> Draft:
    """Read a draft from a reply; raises ValueError if it is not valid."""
    lines: Any = reply.get("rubric")
    if not isinstance(lines, list) or not lines:
        raise ValueError("`rubric` must be a list of criteria.")
    rubric: list[Criterion] = []
    for number, line in enumerate(cast("list[Any]", lines), 1):
        criterion = _criterion(line, number)
        # A repeated id is corrected here, because another model call would cost more.
        name = unused_id(criterion.id, (each.id for each in rubric))
        rubric.append(criterion.model_copy(update={"id": name}))
    if not evaluated_by_model(rubric):
        raise ValueError(_ONLY_CHECKS)
    texts = {name: _text(reply, name) for name in ("instruct", "resp_format", "eval_crit", "reasoning")}
    values: dict[str, Any] = {**texts, "eval_crit": texts["eval_crit"] or None}
    try:
        values["rubric"] = _RUBRIC.validate_python(rubric)
        GenerateAnswer.model_validate({name: value for name, value in values.items() if name != "reasoning"})
        return Draft.model_validate(values)
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        raise ValueError(f"`{place[0] if place else 'rubric'}`: {describe_error(error)}.") from None


def _text(fields: Mapping[str, Any], name: str) -> str:
    value: Any = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"`{name}` must be text.")
    return clean(value or "").strip()


def _criterion(line: Any, number: int) -> Criterion:
    place = f"`rubric`, criterion {number}"
    if not isinstance(line, dict):
        raise ValueError(f"{place}: it must be an object.")  # noqa: TRY004 - callers expect ValueError
    fields = cast("dict[str, Any]", line)
    kind = _text(fields, "kind") or "binary"
    anchors = {level: words for level in ("0", "5") if (words := _text(fields, f"level_{level}"))}
    spec: dict[str, Any] = {
        "id": kebab(_text(fields, "id") or f"criterion {number}"),
        "text": _text(fields, "text"),
        "kind": kind,
        "required": fields.get("required", False),
        "anchors": anchors or None if kind == "scale" else None,
    }
    try:
        if kind == "check":
            spec["check"] = _check(fields, place)
        return _CRITERION.validate_python(spec)
    except ValidationError as error:
        field = "".join(f", `{part}`" for part in error.errors()[0]["loc"][:1])
        raise ValueError(f"{place}{field}: {describe_error(error)}.") from None


def _check(fields: Mapping[str, Any], place: str) -> Any:
    kind, value = _text(fields, "check"), fields.get("value")
    if kind not in DRAFT_CHECK_KINDS:
        raise ValueError(f"{place}: a criterion of kind check names in `check` one of {', '.join(DRAFT_CHECK_KINDS)}.")
    # The reply schema has one field for the values of all kinds, so a model may write 60 or "60".
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:g}" if is_number else _text(fields, "value")
    try:
        return read_check(kind, text or None)
    except ValueError as error:
        raise ValueError(f"{place}: check {kind} with this `value`: {error}.") from None


def kebab(text: str) -> str:
    """Make a short id from words: lower-case letters and digits, joined by hyphens."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:_ID_CHARS].strip("-") or "criterion"


def unused_id(wanted: str, taken: Iterable[str]) -> str:
    """Return the wanted id, or the first of `id-2`, `id-3`, … that is not taken."""
    known = set(taken)
    number, name = 2, wanted
    while name in known:
        name, number = f"{wanted}-{number}", number + 1
    return name
