"""The form for a job: from what a browser sends to a request's plain values, and back."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast, get_args

from pydantic import ValidationError

from api.pages.parts.forms import Form
from redraft.domain.bodies.pointers import place_of, words_of
from redraft.domain.jobs.requests import GenerateAnswer, GroundingOptions, dump
from redraft.domain.jobs.rubric_lines import read_rubric, write_rubric
from redraft.domain.structured.named_schemas import StructureName
from redraft.errors import FieldError

_OWN_WORDS = {"nothing_to_evaluate_by": "Say what makes an answer good, here or in a rubric"}
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_SOURCE_PARTS: tuple[str, ...] = ("title", "content", "more")


LABELS: dict[str, str] = {
    "instruct": "Instruction",
    "resp_format": "Response format",
    "eval_crit": "Criteria",
    "rubric": "Rubric",
    "iter_max": "Iterations at most",
    "score_threshold": "Threshold",
    "model": "Generator",
    "evaluator_model": "Evaluator",
    "profile": "Profile",
    "candidates": "Candidates",
    "strategy": "After a low score",
    "answer_schema": "Schema of the answer",
    "temperature": "Temperature",
    "max_output_tokens": "Tokens of one answer at most",
    "deadline_s": "Seconds for the whole job",
    "max_cost_usd": "USD for the whole job",
    "max_tokens": "Tokens for the whole job",
    "stream": "Show the answer while it is written",
    "cache": "Identical earlier calls",
    "system_instructions": "System instructions",
    "reference": "Reference",
    "metadata": "Metadata",
    "more": "Further fields",
}


@dataclass(frozen=True, slots=True)
class FormError:
    """What is wrong, and the id of the field where it is; empty: of the request as a whole."""

    field: str
    words: str

    @property
    def label(self) -> str:
        """What the field is called."""
        if self.field.startswith("source_"):
            _, part, number = self.field.split("_")
            return f"Source {number}, {part}"
        return LABELS.get(self.field, "The request")


@dataclass(frozen=True, slots=True)
class _Field:
    """One field: its name in the form, its place in the request, and how its text is read and written."""

    name: str
    path: tuple[str, ...]
    read: Callable[[str], Any]
    write: Callable[[Any], str]


def _read_number(text: str) -> Any:
    """What is no number stays text: the request's own words say what is wanted."""
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _write_number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _read_models(text: str) -> Any:
    names = [line.strip() for line in text.splitlines() if line.strip()]
    return names[0] if len(names) == 1 else names


def _write_models(value: Any) -> str:
    return value if isinstance(value, str) else "\n".join(value)


def _read_schema(text: str) -> Any:
    return text.strip() if text.strip() in get_args(StructureName) else _read_json(text)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no JSON: {error}") from None


def _write_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _read_pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"write each line as KEY=VALUE; this is none: {line.strip()[:80]}")
        found[key.strip()] = value.strip()
    return found


def _write_pairs(value: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={each}" for key, each in value.items())


def _plain(name: str, *path: str) -> _Field:
    return _Field(name, path or (name,), str, str)


def _number(name: str, *path: str) -> _Field:
    return _Field(name, path or (name,), _read_number, _write_number)


_FIELDS = (
    _plain("instruct"),
    _plain("resp_format"),
    _plain("eval_crit"),
    _Field("rubric", ("rubric",), read_rubric, write_rubric),
    _number("iter_max"),
    _number("score_threshold"),
    _Field("model", ("model",), _read_models, _write_models),
    _Field("evaluator_model", ("evaluator_model",), str.strip, str),
    _Field("profile", ("profile",), str.strip, str),
    _number("candidates"),
    _plain("strategy", "revision", "strategy"),
    _Field("answer_schema", ("answer_schema",), _read_schema, _write_json),
    _number("temperature", "sampling", "temperature"),
    _number("max_output_tokens", "sampling", "max_output_tokens"),
    _number("deadline_s", "limits", "deadline_s"),
    _number("max_cost_usd", "limits", "max_cost_usd"),
    _number("max_tokens", "limits", "max_tokens"),
    _Field("stream", ("stream",), bool, lambda value: "on" if value else ""),
    _plain("cache"),
    _plain("system_instructions"),
    _plain("reference"),
    _Field("metadata", ("metadata",), _read_pairs, _write_pairs),
)
_BY_PATH = {each.path: each for each in _FIELDS}
_NAMES = (*(each.name for each in _FIELDS), "more")
# What the form begins with, so that one sees what will happen.
_SHOWN_DEFAULTS = ("iter_max", "score_threshold", "profile", "candidates", "strategy", "deadline_s", "cache")


@lru_cache(maxsize=1)
def _defaults() -> dict[str, Any]:
    return dump(GenerateAnswer(instruct="-", eval_crit="-")) | {"instruct": None, "eval_crit": None}


@dataclass
class JobForm:
    """What is written in the form, each field as its text.

    Attributes:
        texts: by the field's name; all names are there.
        sources: their title, content and the rest as JSON.
    """

    texts: dict[str, str]
    sources: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    @classmethod
    def blank(cls) -> "JobForm":
        return cls.of_request({})

    @classmethod
    def sent(cls, form: Form) -> "JobForm":
        """As a browser sent it; sources without a word are left out."""
        texts = {name: (form.texts(name) or [""])[0] for name in _NAMES}
        columns = [form.texts(f"source_{part}") for part in _SOURCE_PARTS]
        rows = [dict(zip(_SOURCE_PARTS, row, strict=True)) for row in zip(*columns, strict=False)]
        return cls(texts, [row for row in rows if any(map(str.strip, row.values()))])

    @classmethod
    def of_request(cls, request: Mapping[str, Any]) -> "JobForm":
        """As it has to be filled in for this request, of whatever kind of job; what has no field is in `more`."""
        left = minimal(request)
        texts = dict.fromkeys(_NAMES, "")
        for each in _FIELDS:
            value = _take(left, each.path)
            if value is None and each.name in _SHOWN_DEFAULTS:
                value = _look(_defaults(), each.path)
            texts[each.name] = "" if value is None else each.write(value)
        sources = [_source_texts(source) for source in left.pop("sources", ())]
        for name in ("answer", "job_id", "iterations"):
            left.pop(name, None)
        rest = {name: value for name, value in left.items() if value not in ({}, None)}
        texts["more"] = _write_json(rest) if rest else ""
        return cls(texts, sources)

    def fill(self, **fields: Any) -> None:
        """Write values of a request into the form; what is None is left as it was."""
        for each in _FIELDS:
            if fields.get(each.name) is not None:
                self.texts[each.name] = each.write(fields[each.name])

    @property
    def first_model(self) -> str | None:
        return next(iter(self.texts["model"].split("\n")), "").strip() or None

    def body(self) -> tuple[dict[str, Any], list[FormError]]:
        """The request as the API takes it, and what cannot even be read."""
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
        return body | ({"sources": sources} if sources else {}), errors

    def _more(self, errors: list[FormError]) -> dict[str, Any]:
        if not self.texts["more"].strip():
            return {}
        try:
            value = _read_json(self.texts["more"])
        except ValueError as error:
            errors.append(FormError("more", str(error)))
            return {}
        if not isinstance(value, dict):
            errors.append(FormError("more", "this is no JSON object"))
            return {}
        return cast("dict[str, Any]", value)


def _source(number: int, row: Mapping[str, str], errors: list[FormError]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        found = dict(_read_json(row["more"]) if row["more"].strip() else {})
    except (TypeError, ValueError):
        errors.append(FormError(f"source_more_{number}", "this is no JSON object"))
    title = {"title": row["title"].strip()} if row["title"].strip() else {}
    return {**found, **title, "content": row["content"]}


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
    """A request without what is so anyway."""
    usual = {"grounding": dump(GroundingOptions())} if request.get("sources") else {}
    return _beside(request, {**_defaults(), **usual})


def _beside(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        known: Any = usual.get(name)
        new = _beside_object(value, known) if _is_filled(known) else value
        if new is not None and new != ({} if _is_filled(known) else known):
            found[name] = new
    return found


def _is_filled(known: Any) -> bool:
    return isinstance(known, dict) and bool(cast("dict[str, Any]", known))


def _beside_object(value: Any, known: Mapping[str, Any]) -> Any:
    return _beside(cast("dict[str, Any]", value), known) if isinstance(value, dict) else value


def _take(values: dict[str, Any], path: Sequence[str]) -> Any:
    *parents, last = path
    for name in parents:
        values = values.get(name, {})
    return values.pop(last, None)


def _look(values: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = values
    for name in path:
        found = found[name]
    return found


def _put(body: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *parents, last = path
    for name in parents:
        below = body.get(name)
        body[name] = dict(cast("dict[str, Any]", below)) if isinstance(below, dict) else {}
        body = body[name]
    body[last] = value


def validate(body: Mapping[str, Any]) -> tuple[GenerateAnswer | None, list[FormError]]:
    """The request, or what is wrong with it, field by field."""
    try:
        return GenerateAnswer.model_validate(body), []
    except ValidationError as error:
        return None, located([*_field_errors(error, body), *_lack_of_criteria(body)])


def _field_errors(error: ValidationError, body: Mapping[str, Any]) -> list[FieldError]:
    return [
        FieldError(place_of(each, body), _OWN_WORDS.get(each["type"]) or words_of(each), str(each["type"]))
        for each in error.errors(include_url=False)
    ]


def _lack_of_criteria(body: Mapping[str, Any]) -> list[FieldError]:
    """What is looked for only where no field is wrong in itself: it is told in the same round."""
    known = {name: body[name] for name in ("profile", "eval_crit", "rubric") if name in body}
    try:
        GenerateAnswer.model_validate({"instruct": "-", **known})
    except ValidationError as error:
        return [field_error for field_error in _field_errors(error, body) if field_error.code in _OWN_WORDS]
    return []


def located(errors: Iterable[FieldError]) -> list[FormError]:
    """Field errors of a request at the fields of the form."""
    return list(dict.fromkeys(_located(error) for error in errors))


def _located(error: FieldError) -> FormError:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in error.pointer.split("/")[1:]]
    if not parts:
        return FormError("", error.detail)
    if parts[0] == "sources" and len(parts) > 2 and parts[1].isdecimal():
        part = parts[2] if parts[2] in _SOURCE_PARTS else "more"
        return FormError(f"source_{part}_{int(parts[1]) + 1}", error.detail)
    for length in range(len(parts), 0, -1):
        if found := _BY_PATH.get(tuple(parts[:length])):
            return FormError(found.name, _below(found.name, parts[length:]) + error.detail)
    return FormError("more", f"{'.'.join(parts)}: {error.detail}")


def _below(name: str, parts: Sequence[str]) -> str:
    """Where in the field, in words."""
    if not parts:
        return ""
    if not parts[0].isdecimal():
        return f"{'.'.join(parts)}: "
    noun = {"rubric": "criterion", "model": "line"}.get(name, "item")
    return f"{noun} {int(parts[0]) + 1}{''.join(f', {part}' for part in parts[1:])}: "
