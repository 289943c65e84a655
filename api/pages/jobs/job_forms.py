"""Converts the form for a new job to a request, and a request to the form."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import getitem
from typing import Any, cast, get_args

from pydantic import ValidationError

from api.http.bodies import parse_json
from api.http.problems import HttpProblem
from api.pages.parts.forms import Form, read_names, read_number
from api.pages.parts.multipart import FormPart
from redraft.domain.bodies.validation_errors import message_of, pointer_of
from redraft.domain.jobs.attachments import MEDIA_TYPES, media_type_of
from redraft.domain.jobs.requests import GenerateAnswer, GroundingOptions, dump
from redraft.domain.jobs.rubric_lines import read_rubric, write_rubric
from redraft.domain.structured.named_schemas import StructureName
from redraft.errors import FieldError

_OWN_WORDS = {"nothing_to_evaluate_by": "Enter criteria here or in a rubric"}
_TITLE_CHARS = 200
_SOURCE_PARTS: tuple[str, ...] = ("title", "content", "more")


@dataclass(frozen=True, slots=True)
class FormError:
    """An error, and the id of its form field. The id is empty if the error concerns the whole request."""

    field: str
    words: str

    @property
    def label(self) -> str:
        if self.field.startswith("source_"):
            _, part, number = self.field.split("_")
            return f"Source {number}, {part}"
        return LABELS.get(self.field, "The request")


def _read_schema(text: str) -> Any:
    return text.strip() if text.strip() in get_args(StructureName) else _read_json(text)


def _read_json(text: str) -> Any:
    try:
        return parse_json(text.encode("utf-8", "replace"))
    except HttpProblem as problem:
        raise ValueError(problem.detail.replace("The body", "this").rstrip(".")) from None


def _write_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _read_pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"write each line as KEY=VALUE, not as {line.strip()[:80]}")
        found[key.strip()] = value.strip()
    return found


@dataclass(frozen=True, slots=True)
class _Field:
    """A form field, the group of its request field, and functions that convert between text and value.

    The prefix of a name distinguishes fields that have the same name in two groups.
    """

    name: str
    label: str
    group: str = ""
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    prefix: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        own = self.name.removeprefix(self.prefix)
        return (self.group, own) if self.group else (own,)


def _number(name: str, label: str, group: str = "", prefix: str = "") -> _Field:
    return _Field(
        name, label, group, read_number, lambda value: str(int(value) if value == int(value) else value), prefix
    )


_EVALUATOR = "evaluator_"
_OF_EVALUATOR = "evaluator_sampling"


_FIELDS = (
    _Field("instruct", "Instruction"),
    _Field("resp_format", "Response format"),
    _Field("eval_crit", "Criteria"),
    _Field("rubric", "Rubric", "", read_rubric, write_rubric),
    _number("iter_max", "Maximum iterations"),
    _number("score_threshold", "Threshold"),
    _Field("model", "Generator", "", read_names, lambda names: names if isinstance(names, str) else "\n".join(names)),
    _Field("evaluator_model", "Evaluator", "", str.strip),
    _Field("profile", "Profile", "", str.strip),
    _number("candidates", "Candidates"),
    _Field("strategy", "After a low score", "revision"),
    _Field("answer_schema", "Schema of the answer", "", _read_schema, _write_json),
    _number("temperature", "Temperature", "sampling"),
    _number("max_output_tokens", "Maximum tokens of one answer", "sampling"),
    _number("top_p", "Top p", "sampling"),
    _number("seed", "Seed", "sampling"),
    _Field("reasoning_effort", "Reasoning effort", "sampling", str.strip),
    _number("evaluator_temperature", "Evaluator temperature", _OF_EVALUATOR, _EVALUATOR),
    _number("evaluator_max_output_tokens", "Maximum tokens of one verdict", _OF_EVALUATOR, _EVALUATOR),
    _number("evaluator_top_p", "Evaluator top p", _OF_EVALUATOR, _EVALUATOR),
    _number("evaluator_seed", "Evaluator seed", _OF_EVALUATOR, _EVALUATOR),
    _Field("evaluator_reasoning_effort", "Evaluator reasoning effort", _OF_EVALUATOR, str.strip, str, _EVALUATOR),
    _number("deadline_s", "Time limit of the job, in seconds", "limits"),
    _number("max_cost_usd", "Maximum cost of the job, in USD", "limits"),
    _number("max_tokens", "Maximum tokens of the job", "limits"),
    _Field("stream", "Show the answer while it is generated", "", bool, lambda value: "on" if value else ""),
    _Field("cache", "Identical earlier calls"),
    _Field("when", "The answer is evaluated", "evaluation"),
    _number("sample", "Sample", "evaluation"),
    _Field("system_instructions", "System instructions"),
    _Field("reference", "Reference"),
    _Field("generator_template", "Prompt template", "", str.strip),
    _Field("vars", "Variables", "", _read_json, _write_json),
    _Field("metadata", "Metadata", "", _read_pairs, lambda pairs: "\n".join(map("=".join, pairs.items()))),
)
LABELS = {each.name: each.label for each in _FIELDS} | {"more": "Further fields", "attachments": "Images and PDFs"}
_BY_PATH = {each.path: each for each in _FIELDS}
# An empty form shows these defaults, so that users see how the job will run
_SHOWN_DEFAULTS = ("iter_max", "score_threshold", "profile", "candidates", "strategy", "deadline_s", "cache", "when")


@lru_cache(maxsize=1)
def _defaults() -> dict[str, Any]:
    return dump(GenerateAnswer(instruct="-", eval_crit="-")) | {"instruct": None, "eval_crit": None}


@dataclass
class JobForm:
    """The texts of all form fields, and files. A source has a title, a content, and further fields as JSON."""

    texts: dict[str, str]
    sources: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    files: list[FormPart] = field(default_factory=list[FormPart])

    @classmethod
    def sent(cls, form: Form) -> "JobForm":
        """Read the form that a browser sent. Empty sources are dropped."""
        texts = {name: (form.texts(name) or [""])[0] for name in LABELS}
        columns = [form.texts(f"source_{part}") for part in _SOURCE_PARTS]
        rows = [dict(zip(_SOURCE_PARTS, row, strict=True)) for row in zip(*columns, strict=False)]
        return cls(texts, [row for row in rows if any(map(str.strip, row.values()))], form.files("attachments"))

    @classmethod
    def of_request(cls, request: Mapping[str, Any]) -> "JobForm":
        """Fill in the form with the request of any job. Values without a form field become the JSON in `more`."""
        left = minimal(request)
        texts = dict.fromkeys(LABELS, "")
        for each in _FIELDS:
            value = _take(left, each.path)
            if value is None and each.name in _SHOWN_DEFAULTS:
                value = reduce(getitem, each.path, _defaults())
            texts[each.name] = "" if value is None else each.write(value)
        sources = [_source_texts(source) for source in left.pop("sources", ())]
        for name in ("answer", "job_id", "iterations", "attachments"):
            left.pop(name, None)
        rest = {name: value for name, value in left.items() if value not in ({}, None)}
        texts["more"] = _write_json(rest) if rest else ""
        return cls(texts, sources)

    def fill(self, **fields: Any) -> None:
        """Write values of a request into the form. A field keeps its text if its value is None."""
        for each in _FIELDS:
            if fields.get(each.name) is not None:
                self.texts[each.name] = each.write(fields[each.name])

    def body(self) -> tuple[dict[str, Any], list[FormError]]:
        """Return the request body of the API, and errors for fields that cannot be parsed."""
        errors: list[FormError] = []
        body: dict[str, Any] = self._more(errors)
        for each in _FIELDS:
            if not self.texts[each.name].strip():
                continue
            try:
                _put(body, each.path, each.read(self.texts[each.name]))
            except ValueError as error:
                errors.append(FormError(each.name, str(error)))
        sources = [_source(number, row, errors) for number, row in enumerate(self.sources, 1)]
        files = [_attachment(file, errors) for file in self.files]
        lists = {"sources": sources, "attachments": files}
        return body | {name: value for name, value in lists.items() if value}, errors

    def _more(self, errors: list[FormError]) -> dict[str, Any]:
        if not self.texts["more"].strip():
            return {}
        try:
            value = _read_json(self.texts["more"])
        except ValueError as error:
            errors.append(FormError("more", str(error)))
            return {}
        if not isinstance(value, dict):
            errors.append(FormError("more", "this is not a JSON object"))
            return {}
        return cast("dict[str, Any]", value)


def _source(number: int, row: Mapping[str, str], errors: list[FormError]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        found = dict(_read_json(row["more"]) if row["more"].strip() else {})
    except (TypeError, ValueError):
        errors.append(FormError(f"source_more_{number}", "this is not a JSON object"))
    title = {"title": row["title"].strip()} if row["title"].strip() else {}
    return {**found, **title, "content": row["content"]}


def _attachment(file: FormPart, errors: list[FormError]) -> dict[str, Any]:
    name = file.file_name or "file"
    media_type = media_type_of(file.content)
    if media_type is None:
        errors.append(FormError("attachments", f"{name[:_TITLE_CHARS]} is none of the types {', '.join(MEDIA_TYPES)}"))
    return {"media_type": media_type, "data": b64encode(file.content).decode(), "title": name[:_TITLE_CHARS]}


def _source_texts(source: Mapping[str, Any]) -> dict[str, str]:
    more = {
        name: value for name, value in source.items() if name not in {"title", "content"} and value not in (None, {})
    }
    return {
        "title": source.get("title") or "",
        "content": source.get("content", ""),
        "more": json.dumps(more, ensure_ascii=False) if more else "",
    }


def minimal(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request without its default values."""
    grounding = {"grounding": dump(GroundingOptions())} if request.get("sources") else {}
    return _without(_defaults() | grounding, request)


def _without(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        default: Any = defaults.get(name)
        # If the default is an empty object (metadata), there are no nested defaults
        if isinstance(value, dict) and isinstance(default, dict) and default:
            value = _without(cast("dict[str, Any]", default), cast("dict[str, Any]", value)) or None  # noqa: PLW2901
        if value is not None and value != default:
            found[name] = value
    return found


def _take(values: dict[str, Any], path: Sequence[str]) -> Any:
    *parents, last = path
    for name in parents:
        values = values.get(name, {})
    return values.pop(last, None)


def _put(body: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *parents, last = path
    for name in parents:
        below = body.get(name)
        body[name] = dict(cast("dict[str, Any]", below)) if isinstance(below, dict) else {}
        body = body[name]
    body[last] = value


def validate(body: Mapping[str, Any]) -> tuple[GenerateAnswer | None, list[FormError]]:
    """Return the request, or its errors by field."""
    try:
        return GenerateAnswer.model_validate(body), []
    except ValidationError as error:
        return None, located([*_field_errors(error, body), *_lack_of_criteria(body)])


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
    if parts[0] == "sources" and len(parts) > 2 and parts[1].isdecimal():
        part = parts[2] if parts[2] in _SOURCE_PARTS else "more"
        return FormError(f"source_{part}_{int(parts[1]) + 1}", field_error.detail)
    if parts[0] == "attachments":
        return FormError("attachments", _below("attachments", parts[1:]) + field_error.detail)
    for length in range(len(parts), 0, -1):
        if found := _BY_PATH.get(tuple(parts[:length])):
            return FormError(found.name, _below(found.name, parts[length:]) + field_error.detail)
    return FormError("more", f"{'.'.join(parts)}: {field_error.detail}")


def _below(name: str, parts: Sequence[str]) -> str:
    if not parts:
        return ""
    if not parts[0].isdecimal():
        return f"{'.'.join(parts)}: "
    noun = {"rubric": "criterion", "model": "line", "attachments": "file"}.get(name, "item")
    return f"{noun} {int(parts[0]) + 1}{''.join(f', {part}' for part in parts[1:])}: "
