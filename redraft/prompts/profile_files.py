"""Reads a profile from the files of a folder, checks that they fit together, and renders each template once."""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from jinja2 import TemplateSyntaxError
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import to_json

from redraft.domain.bodies.fields import FilledText, StrictModel
from redraft.domain.evaluation.rubrics import Criterion
from redraft.domain.evaluation.tunings import EvaluatorExample
from redraft.domain.evaluation.verdict_parsing import ReplyMap
from redraft.domain.jobs.requests import AnyRequest, ProfileName
from redraft.domain.structured.answers import check_schema
from redraft.errors import Invalid
from redraft.prompts.evaluator_context import ALWAYS, RUBRIC_ONLY
from redraft.prompts.samples import SAMPLE_VALUES, SHOWN_ANSWER
from redraft.prompts.templates import (
    STABLE,
    STABLE_PARTS_MAX,
    describe_template_error,
    render_stable_parts,
    unknown_names,
)

PROFILE = "profile.toml"
BUILT_IN = {path.parent.name: path.parent for path in Path(__file__).parent.glob(f"evaluate/*/*/{PROFILE}")}
"""The folders of the built-in profiles, by name. `evaluate/default_profile` has the profile of requests without one."""
REPLY = "reply.json"
_TEMPLATES = {"system": "system.j2", "user": "user.j2"}
_RUBRIC_TEMPLATES = {"rubric_system": "rubric_system.j2", "rubric_user": "rubric_user.j2"}
_FILE_BYTES_MAX = 200_000

ShownField = Literal["instruct", "resp_format", "conversation", "eval_crit", "sources", "reference"]
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class ProfileError(Exception):
    """Raised for an invalid profile. `place` is the invalid file, and `words` describe the error."""

    def __init__(self, place: str, words: str) -> None:
        super().__init__(f"{place}: {words}")
        self.place = place
        self.words = words


class FieldMap(StrictModel):
    """The field of the reply for each field of an evaluation."""

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
class Profile:
    """A named way to evaluate, read from a folder."""

    name: str
    version: str  # A hash of its files; verdicts of different versions are not comparable
    title: str
    description: str
    is_built_in: bool
    needs: Sequence[ShownField]  # The fields that a request must have
    sees: Sequence[ShownField]  # The fields of a request that its prompts show
    source_chars: int | None  # The maximum length of each source; None: no limit
    sources_chars: int | None  # The maximum length of all sources together; None: no limit
    media: bool  # Whether the prompts keep images in the texts
    templates: Mapping[str, str]  # By name; only a profile that accepts rubrics has templates for them
    reply_schema: Mapping[str, Any]  # The JSON Schema of a reply without a rubric
    mapping: Mapping[str, Any]  # The mapping of reply fields in `profile.toml`
    reply: ReplyMap  # The same mapping in the parser's form
    files: Mapping[str, str]  # The SHA-256 of each file, by name
    examples: Sequence[EvaluatorExample] = ()  # Answers with the verdicts of people, from a tuning

    @property
    def takes_rubric(self) -> bool:
        return "rubric_user" in self.templates

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the profile's files, by name."""
        templates = {f"{name}.j2": text for name, text in self.templates.items()}
        mapping = to_json(self.mapping, indent=2).decode()
        texts = {**templates, "reply.json": to_json(self.reply_schema, indent=2).decode(), "mapping": mapping}
        return texts | ({"examples.json": _examples_text(self.examples)} if self.examples else {})

    def with_examples(self, examples: Sequence[EvaluatorExample]) -> "Profile":
        """Return a version of the profile whose prompts show these examples."""
        text = _examples_text(examples)
        files = {**self.files, "examples.json": _sha256(text)}
        return replace(self, version=_sha256(f"{self.version}\0{text}")[:12], examples=examples, files=files)

    def missing(self, request: AnyRequest) -> list[ShownField]:
        """Return the required fields that a request does not have. A rubric replaces the criteria in words."""
        has_rubric = self.takes_rubric and request.rubric is not None
        return [name for name in self.needs if not getattr(request, name) and not (name == "eval_crit" and has_rubric)]


def _examples_text(examples: Sequence[EvaluatorExample]) -> str:
    return to_json([each.model_dump() for each in examples], indent=2).decode()


def folders(root: Path) -> list[Path]:
    """Return the sub-folders by name, without hidden ones."""
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def read(folder: Path, *, is_built_in: bool) -> Profile:
    """Read a profile from its folder.

    Raises:
        ProfileError: if a file is missing or invalid. The message describes only the first error.
    """
    name = folder.name
    try:
        TypeAdapter(ProfileName).validate_python(name)
    except ValidationError:
        words = "is not a profile name: use at most 40 small letters, digits, - and _, and begin with a small letter"
        raise ProfileError(name, words) from None
    if not is_built_in and name in BUILT_IN:
        raise ProfileError(name, "is the name of a built-in profile; rename the folder")
    texts = _texts(folder, is_built_in=is_built_in)
    about = _about(name, texts[PROFILE])
    schema = _schema(name, texts[REPLY])
    reply = _reply_map(name, about.mapping, schema)
    names = _TEMPLATES | (_RUBRIC_TEMPLATES if "rubric_user.j2" in texts else {})
    _try_templates(name, about, texts, names)
    # With the lengths, texts that are divided differently into files give another version
    whole = "".join(f"{file}\0{len(text)}\0{text}" for file, text in sorted(texts.items()))
    return Profile(
        name=name,
        version=_sha256(whole)[:12],
        title=about.title,
        description=about.description,
        is_built_in=is_built_in,
        needs=about.needs,
        sees=about.sees,
        source_chars=about.source_chars,
        sources_chars=about.sources_chars,
        media=about.media,
        templates={template: texts[file] for template, file in names.items()},
        reply_schema=schema,
        mapping=about.mapping.model_dump(exclude_none=True),
        reply=reply,
        files={file: _sha256(text) for file, text in sorted(texts.items())},
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _texts(folder: Path, *, is_built_in: bool) -> dict[str, str]:
    needed = [PROFILE, *_TEMPLATES.values(), REPLY]
    known = needed + (list(_RUBRIC_TEMPLATES.values()) if is_built_in else [])
    root = folder.parent.resolve()
    found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in [folder, *found]:
        if not path.resolve().is_relative_to(root):
            raise ProfileError(_place(folder, path), f"is a link that leads out of {root}; put the file itself there")
    for path in found:
        if path.name not in known:
            words = f"is not a file of a profile; remove it. Known are {', '.join(known)}"
            raise ProfileError(_place(folder, path), words)
    names = {path.name for path in found}
    if missing := [name for name in needed if name not in names]:
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
        raise ProfileError(_place(folder, path), f"is not UTF-8 text: byte {error.start}; save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _about(name: str, text: str) -> About:
    place = f"{name}/{PROFILE}"
    try:
        return About.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(place, f"is not TOML: {error}") from None
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
        if not isinstance(schema, dict):
            raise ProfileError(place, "must be a JSON Schema, an object")
        known = cast("dict[str, Any]", schema)
        if known.get("type") != "object":
            raise ProfileError(place, 'must be of "type": "object"')
        check_schema(known, "")
    except (ValueError, RecursionError) as error:
        raise ProfileError(place, f"is not JSON: {error}") from None
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
    place = f"{name}/{PROFILE}"
    scoring = (mapping.score, mapping.pass_flag, mapping.dimensions, mapping.claims)
    if sum(each is not None for each in scoring) != 1:
        words = "needs exactly one of score (a number), pass_flag (a boolean), dimensions (objects) and claims (a list)"
        raise ProfileError(place, f"mapping: {words}")
    if mapping.all is not None and not dimensions:
        raise ProfileError(place, "mapping.all: makes all dimensions required; name dimensions")
    properties: Mapping[str, Any] = schema.get("properties") or {}
    for role, field in [*fields.items(), *(("dimensions", each) for each in dimensions)]:
        _check_field(name, role, field, properties)
    _check_order(name, mapping, schema)
    criteria = tuple(_dimension(name, each, properties[each], required=bool(mapping.all)) for each in dimensions)
    return ReplyMap(**fields, dimensions=criteria, fields=frozenset(properties))


def _check_field(name: str, role: str, field: str, properties: Mapping[str, Any]) -> None:
    if field not in properties:
        words = f"mapping.{role}: {REPLY} has no field {field!r}; its fields are {', '.join(properties) or 'none'}"
        raise ProfileError(f"{name}/{PROFILE}", words)
    wanted = _TYPES.get(role, ("object",))
    if not set(_types(properties[field])) & set(wanted):
        words = f"the field {field!r} must be of type {' or '.join(wanted)}: it is mapped to {role}"
        raise ProfileError(f"{name}/{REPLY}", words)


def _types(schema: Any) -> list[str]:
    kind: Any = cast("Mapping[str, Any]", schema).get("type") if isinstance(schema, Mapping) else None
    return [kind] if isinstance(kind, str) else list(kind or ())


def _check_order(name: str, mapping: FieldMap, schema: Mapping[str, Any]) -> None:
    """Check that the reasoning comes before the score, because a model that scores first only justifies its score."""
    named = (mapping.score, mapping.pass_flag, mapping.claims, *(mapping.dimensions or ()))
    deciding = [each for each in named if each]
    if missing := [each for each in deciding if each not in (schema.get("required") or ())]:
        raise ProfileError(f"{name}/{REPLY}", f"the score needs the field {missing[0]!r}: list it in required")
    order = list(schema["properties"])
    if mapping.reasoning and not mapping.dimensions and order.index(mapping.reasoning) > order.index(deciding[0]):
        words = f"the field {mapping.reasoning!r} must come before {deciding[0]!r}: reasons before the verdict"
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
    if unseen := [each for each in about.needs if each not in about.sees]:
        raise ProfileError(f"{name}/{PROFILE}", f"needs: {unseen[0]!r} is not in sees; add it there")
    for prefix in ("rubric_", "") if "rubric_user" in names else ("",):
        known = {*about.sees, *ALWAYS, *(RUBRIC_ONLY if prefix else ())}
        system, user = (f"{prefix}{part}.j2" for part in ("system", "user"))
        told = _try_template(f"{name}/{system}", texts[system], known)
        asked = _try_template(f"{name}/{user}", texts[user], known)
        if any(text.count(SHOWN_ANSWER) != 1 for text in asked):
            words = "must show {{ answer }} exactly once for all values of the other variables"
            raise ProfileError(f"{name}/{user}", words)
        for variable in ("frame_start", "frame_end"):
            shown = [f"{first}{second.replace(SHOWN_ANSWER, '')}" for first, second in zip(told, asked, strict=True)]
            if any(SAMPLE_VALUES[0][variable] not in text for text in shown):
                words = f"must say with {{{{ {variable} }}}} where the answer is, and that it is data, or {user} must"
                raise ProfileError(f"{name}/{system}", words)


def _try_template(place: str, source: str, known: AbstractSet[str]) -> list[str]:
    """Render a template with each sample, and return the texts."""
    if source.count(STABLE) > STABLE_PARTS_MAX:
        raise ProfileError(place, f"has more than {STABLE_PARTS_MAX} lines {STABLE.strip()!r}")
    try:
        unknown = unknown_names(source, known)
        samples = [] if unknown else [{name: sample[name] for name in known} for sample in SAMPLE_VALUES]
        shown = [render_stable_parts(source, **sample)[0] for sample in samples]
    except Exception as error:  # noqa: BLE001 - the errors of a template have no common base class
        what = "is not a template" if isinstance(error, TemplateSyntaxError) else "cannot be rendered"
        raise ProfileError(place, f"{what}: {describe_template_error(error)}") from None
    if unknown:
        words = f"uses the unknown variable {unknown[0]!r}; known by its sees are {', '.join(sorted(known))}"
        raise ProfileError(place, words)
    return shown
