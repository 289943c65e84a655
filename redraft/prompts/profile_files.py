"""Read the files of a profile's folder, check them against each other, and render each template once."""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from jinja2 import TemplateSyntaxError
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from redraft.domain.bodies.fields import FilledText, StrictModel
from redraft.domain.evaluation.rubrics import Criterion
from redraft.domain.evaluation.verdict_parsing import ReplyMap
from redraft.domain.jobs.requests import ProfileName
from redraft.domain.structured.answers import check_schema
from redraft.errors import Invalid
from redraft.prompts.samples import SAMPLE_VALUES, SHOWN_ANSWER, TemplateValues
from redraft.prompts.templates import describe_template_error, render_template, unknown_names

PROFILE = "profile.toml"
REPLY = "reply.json"
_TEMPLATES = {"system": "system.j2", "user": "user.j2"}
_RUBRIC_TEMPLATES = {"rubric_system": "rubric_system.j2", "rubric_user": "rubric_user.j2"}
_FILE_BYTES_MAX = 200_000

ShownField = Literal["instruct", "resp_format", "conversation", "eval_crit", "sources", "reference"]
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class ProfileError(Exception):
    """An invalid profile: the file and the error."""

    def __init__(self, place: str, words: str) -> None:
        super().__init__(f"{place}: {words}")
        self.place = place
        self.words = words


class FieldMap(StrictModel):
    """The mapping of the reply's fields to those of an evaluation."""

    score: FieldName | None = None
    pass_flag: FieldName | None = None
    dimensions: list[FieldName] | None = Field(default=None, min_length=1, max_length=20)
    all: bool | None = None
    claims: Literal["claims"] | None = None
    reasoning: FieldName | None = None
    suggestions: FieldName | None = None
    issues: FieldName | None = None
    improvement_hint: FieldName | None = None
    confidence: FieldName | None = None
    meets_criteria: FieldName | None = None


class About(StrictModel):
    """The content of `profile.toml`. The name of the folder is the name of the profile."""

    title: FilledText
    description: FilledText
    needs: list[ShownField] = Field(default=[])
    sees: list[ShownField]
    source_chars: int | None = Field(default=None, ge=1)
    sources_chars: int | None = Field(default=None, ge=1)
    media: bool = True
    mapping: FieldMap


@dataclass(frozen=True, slots=True)
class ProfileFiles:
    """The validated content of a profile's folder."""

    about: About
    version: str
    templates: Mapping[Any, str]
    reply_schema: Mapping[str, Any]
    reply: ReplyMap
    hashes: Mapping[str, str]


def folders(root: Path) -> list[Path]:
    """Return the sub-folders by name, without hidden ones."""
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def read(folder: Path, *, may_take_rubric: bool) -> ProfileFiles:
    """Read a profile's folder.

    Raises:
        ProfileError: a file is missing or invalid; only the first error is reported.
    """
    try:
        TypeAdapter(ProfileName).validate_python(folder.name)
    except ValidationError:
        words = (
            "is no name of a profile: it begins with a small letter, then small letters, digits, - and _, 40 at most"
        )
        raise ProfileError(folder.name, words) from None
    texts = _texts(folder, may_take_rubric=may_take_rubric)
    about = _about(folder.name, texts[PROFILE])
    schema = _schema(folder.name, texts[REPLY])
    reply = _reply_map(folder.name, about.mapping, schema)
    names = {**_TEMPLATES, **(_RUBRIC_TEMPLATES if "rubric_user.j2" in texts else {})}
    _try_templates(folder.name, about, texts, names)
    return ProfileFiles(
        about=about,
        version=_version(texts),
        templates={name: texts[file] for name, file in names.items()},
        reply_schema=schema,
        reply=reply,
        hashes={file: hashlib.sha256(text.encode()).hexdigest() for file, text in sorted(texts.items())},
    )


def _version(texts: Mapping[str, str]) -> str:
    whole = "".join(f"{name}\0{len(text)}\0{text}" for name, text in sorted(texts.items()))
    return hashlib.sha256(whole.encode()).hexdigest()[:12]


def _texts(folder: Path, *, may_take_rubric: bool) -> dict[str, str]:
    needed = [PROFILE, *_TEMPLATES.values(), REPLY]
    known = needed + (list(_RUBRIC_TEMPLATES.values()) if may_take_rubric else [])
    root = folder.parent.resolve()
    found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in [folder, *found]:
        if not path.resolve().is_relative_to(root):
            raise ProfileError(_place(folder, path), f"is a link that leads out of {root}; put the file itself there")
    for path in found:
        if path.name not in known:
            raise ProfileError(
                _place(folder, path), f"is no file of a profile; remove it. Known are {', '.join(known)}"
            )
    names = {path.name for path in found}
    missing = [name for name in needed if name not in names]
    if missing:
        raise ProfileError(f"{folder.name}/{missing[0]}", "is missing; a profile needs " + ", ".join(needed))
    return {path.name: _text(folder, path) for path in found}


def _place(folder: Path, path: Path) -> str:
    return folder.name if path == folder else f"{folder.name}/{path.name}"


def _text(folder: Path, path: Path) -> str:
    try:
        content = path.read_bytes()
        if len(content) > _FILE_BYTES_MAX:
            raise ProfileError(_place(folder, path), f"has more than {_FILE_BYTES_MAX:,} bytes")
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ProfileError(_place(folder, path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ProfileError(_place(folder, path), f"is no UTF-8 text: byte {error.start}; save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _about(name: str, text: str) -> About:
    place = f"{name}/{PROFILE}"
    try:
        return About.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(place, f"is no TOML: {error}") from None
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        words = "; ".join(f"{'.'.join(map(str, each['loc']))}: {_said(each)}" for each in found)
        raise ProfileError(place, words) from None


def _said(found: Any) -> str:
    if found["type"] == "extra_forbidden":
        keys = About.model_fields if len(found["loc"]) == 1 else FieldMap.model_fields
        return f"there is no such key; known are {', '.join(keys)}"
    return "is missing" if found["type"] == "missing" else found["msg"]


def _schema(name: str, text: str) -> dict[str, Any]:
    place = f"{name}/{REPLY}"
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(place, f"is no JSON: {error}") from None
    if not isinstance(schema, dict):
        raise ProfileError(place, "must be a JSON Schema, an object")
    known = cast("dict[str, Any]", schema)
    if known.get("type") != "object":
        raise ProfileError(place, 'must be of "type": "object"')
    try:
        check_schema(known, "")
    except Invalid as error:
        raise ProfileError(place, error.message) from None
    return known


_TYPES = {
    "score": ("number", "integer"),
    "pass_flag": ("boolean",),
    "claims": ("array",),
    "reasoning": ("string",),
    "suggestions": ("array", "string"),
    "issues": ("array", "string"),
    "improvement_hint": ("string",),
    "confidence": ("number", "integer"),
    "meets_criteria": ("boolean",),
}


def _reply_map(name: str, mapping: FieldMap, schema: Mapping[str, Any]) -> ReplyMap:
    fields = {role: field for role in _TYPES if (field := getattr(mapping, role)) is not None}
    dimensions = mapping.dimensions or []
    scoring = (mapping.score, mapping.pass_flag, mapping.dimensions, mapping.claims)
    if sum(each is not None for each in scoring) != 1:
        words = (
            "mapping: needs exactly one of score (a number), pass_flag (a boolean), dimensions (objects)"
            " and claims (a list)"
        )
        raise ProfileError(f"{name}/{PROFILE}", words)
    if mapping.all is not None and not dimensions:
        raise ProfileError(f"{name}/{PROFILE}", "mapping.all: says that all dimensions are required; name dimensions")
    properties: Mapping[str, Any] = schema.get("properties") or {}
    for role, field in [*fields.items(), *(("dimensions", each) for each in dimensions)]:
        _check_field(name, role, field, properties)
    _check_order(name, mapping, schema)
    criteria = tuple(_dimension(name, each, properties[each], required=bool(mapping.all)) for each in dimensions)
    return ReplyMap(**fields, dimensions=criteria, fields=frozenset(properties))


def _check_field(name: str, role: str, field: str, properties: Mapping[str, Any]) -> None:
    if field not in properties:
        there = ", ".join(properties) or "none"
        words = f"mapping.{role}: {REPLY} has no field {field!r}; its fields are {there}"
        raise ProfileError(f"{name}/{PROFILE}", words)
    wanted = _TYPES.get(role, ("object",))
    if not set(_types(properties[field])) & set(wanted):
        words = f"the field {field!r} must be of type {' or '.join(wanted)}: it is mapped to {role}"
        raise ProfileError(f"{name}/{REPLY}", words)


def _types(schema: Any) -> list[str]:
    kind: Any = cast("Mapping[str, Any]", schema).get("type") if isinstance(schema, Mapping) else None
    return [kind] if isinstance(kind, str) else list(kind or ())


def _check_order(name: str, mapping: FieldMap, schema: Mapping[str, Any]) -> None:
    """Check that the reasoning comes before the score, since a model that has named a score argues for it."""
    named = (mapping.score, mapping.pass_flag, mapping.claims, *(mapping.dimensions or ()))
    deciding = [each for each in named if each]
    missing = [each for each in deciding if each not in (schema.get("required") or ())]
    if missing:
        raise ProfileError(f"{name}/{REPLY}", f"the field {missing[0]!r} makes the score: list it in required")
    order = list(schema["properties"])
    if mapping.reasoning and not mapping.dimensions and order.index(mapping.reasoning) > order.index(deciding[0]):
        words = f"the field {mapping.reasoning!r} must stand before {deciding[0]!r}: reasons come before the verdict"
        raise ProfileError(f"{name}/{REPLY}", words)


def _dimension(name: str, field: str, schema: Mapping[str, Any], *, required: bool) -> Criterion:
    inner: Mapping[str, Any] = schema.get("properties") or {}
    if not set(_types(inner.get("score"))) & {"number", "integer"} or "score" not in (schema.get("required") or ()):
        words = f"the field {field!r} is a dimension: it needs a number 'score' among its properties and in required"
        raise ProfileError(f"{name}/{REPLY}", words)
    try:
        return Criterion(id=field, text=str(schema.get("description") or field), kind="scale", required=required)
    except ValidationError:
        words = f"the field {field!r} is a dimension: its name begins with a letter or digit, then also . _ and -"
        raise ProfileError(f"{name}/{REPLY}", words) from None


def _try_templates(name: str, about: About, texts: Mapping[str, str], names: Mapping[str, str]) -> None:
    unseen = [each for each in about.needs if each not in about.sees]
    if unseen:
        raise ProfileError(f"{name}/{PROFILE}", f"needs: {unseen[0]!r} is not in sees; add it there")
    for template, file in names.items():
        samples = [each.of(about.sees, has_criteria=template.startswith("rubric")) for each in SAMPLE_VALUES]
        _try_template(f"{name}/{file}", texts[file], samples, is_system=template.endswith("system"))


def _try_template(place: str, source: str, samples: Sequence[TemplateValues], *, is_system: bool) -> None:
    known = frozenset(samples[0].values)
    try:
        unknown = unknown_names(source, known)
        shown = [] if unknown else [render_template(source, **sample.values) for sample in samples]
    except Exception as error:  # noqa: BLE001 - what a template can run into has no common kind
        what = "is no template" if isinstance(error, TemplateSyntaxError) else "cannot be rendered"
        raise ProfileError(place, f"{what}: {describe_template_error(error)}") from None
    if unknown:
        words = f"uses the unknown variable {unknown[0]!r}; known by its sees are {', '.join(sorted(known))}"
        raise ProfileError(place, words)
    if is_system:
        _check_system(place, shown)
    elif any(text.count(SHOWN_ANSWER) != 1 for text in shown):
        raise ProfileError(place, "must show {{ answer }} exactly once, whatever else is there")


def _check_system(place: str, shown: Sequence[str]) -> None:
    for variable in ("frame_start", "frame_end"):
        if any(SAMPLE_VALUES[0].values[variable] not in text for text in shown):
            words = f"must say by {{{{ {variable} }}}} where the answer stands, and that it is data"
            raise ProfileError(place, words)
