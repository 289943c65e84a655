"""The form in which the JSON Schema of a reply is sent. It never admits less than the requested schema.

Strict dialects (OpenAI's and Anthropic's alike) want an object at the root, every object closed and every property
required, and refuse most keywords of validation. A schema that cannot be said so without narrowing it is sent as it
is, where the dialect takes that. Whatever is sent, the reply is checked in code.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

WRAPPER = "wrapped_answer"
"""The one property of an object that stands for a reply that is no object."""

_WRAPPED = re.compile(
    r"\A\s*(?:```(?:json)?\s*)?\{\s*\"" + WRAPPER + r"\"\s*:(.*)\}\s*(?:```\s*)?\Z", re.DOTALL | re.IGNORECASE
)
_KEPT = ("type", "enum", "const", "description", "$ref")
_TOLD = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
_ANNOTATIONS = frozenset({"$schema", "$comment", "title", "description", "default", "examples", "deprecated"})
_DEFINITIONS = ("$defs", "definitions")
# The keywords beside `properties` that decide which properties are "unevaluated".
_EVALUATING = frozenset({"$ref", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "patternProperties"})
_NULL: dict[str, Any] = {"type": "null"}


class NotStrict(ValueError):  # noqa: N818 - a property of a schema, not a fault
    """A schema says something that strict dialects can only say more narrowly."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{why} (at {place or '/'})")


@dataclass(frozen=True, slots=True)
class WireSchema:
    """A schema of an object, in strict dialect or as it was asked for."""

    schema: dict[str, Any]
    is_strict: bool


def wire_schema(schema: Mapping[str, Any]) -> WireSchema | None:
    """Return the schema in the form that is sent, or None if only words in the prompt can express it. Pure."""
    rooted = _of_object(schema)
    if rooted is None:
        return None
    try:
        return WireSchema(strict_schema(rooted), is_strict=True)
    except NotStrict:
        return WireSchema(rooted, is_strict=False)


def why_not_strict(schema: Mapping[str, Any]) -> str | None:
    """Return the part of a schema that strict dialects would narrow, and its place; None if there is none. Pure."""
    rooted = _of_object(schema)
    if rooted is None:
        return "its root is no object and is referred to"
    try:
        strict_schema(rooted)
    except NotStrict as obstacle:
        return str(obstacle)
    return None


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema in strict dialect. Pure and idempotent.

    Optional properties become required and nullable; `oneOf` becomes `anyOf`; `allOf` is merged. Keywords are removed
    only if the schema then admits more; the description states the removed limits.

    Raises:
        NotStrict: the dialect would admit less.
    """
    definitions: dict[str, Any] = {key: schema[key] for key in _DEFINITIONS if key in schema}
    try:
        strict = _strict(schema, "")
        beside = {
            key: {name: _strict(child, f"/{key}/{name}") for name, child in each.items()}
            for key, each in definitions.items()
        }
    except RecursionError:
        raise NotStrict("", "it is nested too deeply") from None
    if not is_of_object(strict):
        raise NotStrict("", "the root is put together from other schemas")
    return strict | beside


def wraps(schema: Any) -> bool:
    """Whether a schema that was sent asks for a wrapped reply."""
    return isinstance(schema, Mapping) and list(cast("Mapping[str, Any]", schema).get("properties") or ()) == [WRAPPER]


def unwrapped(text: str) -> str:
    """Remove the wrapper of a wrapped reply, without other changes. Any other text is returned unchanged."""
    found = _WRAPPED.match(text)
    inner = found[1].strip() if found else ""
    try:
        json.loads(inner)
    except (ValueError, RecursionError):
        return text
    return inner


def is_of_object(schema: Mapping[str, Any]) -> bool:
    """Whether all that fits a schema is an object. Pure."""
    return schema.get("type") == "object"


def _of_object(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema if its root is one of objects, else its wrapper; None where a reference to the root would break."""
    rooted = _without_root_reference(schema)
    if is_of_object(rooted):
        return dict(rooted)
    if any(each == "#" for each in _references(schema)):
        return None
    aside = {key: schema[key] for key in ("$schema", *_DEFINITIONS) if key in schema}
    inner = {key: value for key, value in schema.items() if key not in aside}
    return {
        "type": "object",
        "properties": {WRAPPER: inner},
        "required": [WRAPPER],
        "additionalProperties": False,
    } | aside


def _without_root_reference(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace a root that is only a reference by its target. Schemas of recursive models have such roots."""
    names = str(schema.get("$ref", "")).split("/")
    beside = schema.keys() - _ANNOTATIONS - {"$ref", *_DEFINITIONS}
    if len(names) != 3 or beside:
        return schema
    target: Any = cast("Mapping[str, Any]", schema.get(names[1]) or {}).get(names[2])
    if not isinstance(target, Mapping):
        return schema
    return {**cast("Mapping[str, Any]", target), **{key: schema[key] for key in _DEFINITIONS if key in schema}}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        if isinstance(members.get("$ref"), str):
            yield members["$ref"]
        for member in members.values():
            yield from _references(member)
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from _references(member)


def _strict(schema: Any, place: str) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise NotStrict(place, "any value, or none, may stand there")
    merged = _merged(cast("Mapping[str, Any]", schema), place)
    if "$ref" in merged:
        # Strict dialects allow nothing beside a reference
        return {"$ref": merged["$ref"]}
    strict = {key: merged[key] for key in _KEPT if key in merged}
    if words := _in_words(merged):
        strict["description"] = words
    types = _types(merged)
    if "object" in types:
        strict |= _closed(merged, place)
    if "array" in types:
        strict["items"] = _items(merged, place)
    if types or {"enum", "const"} & merged.keys():
        return strict
    variants: Any = merged.get("anyOf") or merged.get("oneOf")
    if not variants:
        raise NotStrict(place, "any value may stand there")
    return strict | {"anyOf": [_strict(variant, f"{place}/anyOf/{n}") for n, variant in enumerate(variants)]}


def _types(schema: Mapping[str, Any]) -> list[str]:
    kind: Any = schema.get("type") or []
    return [kind] if isinstance(kind, str) else list(kind)


def _closed(schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    if not _is_closed(schema):
        raise NotStrict(place, "the object may have properties that are not listed")
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: set[str] = set(schema.get("required") or ())
    strict = {name: _strict(child, f"{place}/properties/{name}") for name, child in properties.items()}
    return {
        "properties": {name: child if name in required else _nullable(child) for name, child in strict.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _is_closed(schema: Mapping[str, Any]) -> bool:
    if schema.get("patternProperties"):
        return False
    if "additionalProperties" in schema:
        return schema["additionalProperties"] is False
    return schema.get("unevaluatedProperties") is False and _EVALUATING.isdisjoint(schema)


def _items(schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    if "prefixItems" in schema or not isinstance(schema.get("items"), Mapping):
        raise NotStrict(place, "the items of the array are not all of one schema")
    return _strict(schema["items"], f"{place}/items")


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        variants: list[dict[str, Any]] = schema["anyOf"]
        return schema if _NULL in variants else {**schema, "anyOf": [*variants, _NULL]}
    types = _types(schema)
    if "null" in types:
        return schema
    if types and not {"enum", "const"} & schema.keys():
        return {**schema, "type": [*types, "null"]}
    return {"anyOf": [schema, _NULL]}


def _merged(schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Merge `allOf` into one schema: unite `properties` and `required`, keep the first of each other keyword."""
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema.get("allOf") or ():
        if not isinstance(part, Mapping):
            raise NotStrict(place, "a part of it is true or false")
        for key, value in _merged(cast("Mapping[str, Any]", part), place).items():
            if key == "properties":
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required":
                merged[key] = [*merged.get(key, []), *value]
            else:
                merged.setdefault(key, value)
    return merged


def _in_words(schema: Mapping[str, Any]) -> str:
    """The description with the limits that strict mode does not take."""
    limits = ", ".join(f"{key} {json.dumps(schema[key])}" for key in _TOLD if key in schema)
    words = str(schema.get("description", ""))
    return f"{words} ({limits})".strip() if limits else words
