"""Converts the JSON Schema of a reply to the form that a provider accepts.

The strict dialects of OpenAI and Anthropic require an object at the root, closed objects and only required properties.
They refuse most validation keywords. The converted schema never excludes a value that the requested schema allows. If
that is not possible, the requested schema is sent unchanged to providers that accept it. In all cases, code validates
the reply by the requested schema.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

WRAPPER = "wrapped_answer"
"""The only property of a wrapper: an object around a reply that is not an object itself."""

_WRAPPED = re.compile(
    r"\A\s*(?:```(?:json)?\s*)?\{\s*\"" + WRAPPER + r"\"\s*:(.*)\}\s*(?:```\s*)?\Z", re.DOTALL | re.IGNORECASE
)
_KEPT_KEYWORDS = ("type", "enum", "const", "description", "$ref")
_STATED_LIMITS = (
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
# JSON Schema: the properties that these keywords describe are not "unevaluated", like those in `properties`
_EVALUATING = frozenset({"$ref", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "patternProperties"})
_NULL: dict[str, Any] = {"type": "null"}


class NotStrict(ValueError):  # noqa: N818 - a property of a schema, not a fault
    """Raised for a schema whose strict form would exclude values that the schema allows."""

    def __init__(self, pointer: str, why: str) -> None:
        super().__init__(f"{why} (at {pointer or '/'})")


@dataclass(frozen=True, slots=True)
class WireSchema:
    """The schema that is sent: in the strict dialect, or as requested."""

    schema: dict[str, Any]
    is_strict: bool


def named_schema(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with a name, in the form of both APIs of OpenAI.

    Raises:
        ValueError: if the schema can only be described in the prompt.
    """
    wire = wire_schema(schema)
    if wire is None:
        raise ValueError("A schema that only a prompt can hold has no response format.")
    plain_name = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "reply"
    return {"name": plain_name, "strict": wire.is_strict, "schema": wire.schema}


def wire_schema(schema: Mapping[str, Any]) -> WireSchema | None:
    """Return the schema in the form that is sent, or None if it can only be described in the prompt.

    A schema is converted once for all calls, so callers must not change the result.
    """
    return _wire_schema(json.dumps(schema))


@lru_cache(maxsize=100)
def _wire_schema(schema: str) -> WireSchema | None:
    rooted = _of_object(json.loads(schema))
    if rooted is None:
        return None
    try:
        return WireSchema(strict_schema(rooted), is_strict=True)
    except NotStrict:
        return WireSchema(rooted, is_strict=False)


def why_not_strict(schema: Mapping[str, Any]) -> str | None:
    """Return which part of a schema a strict dialect cannot express, with its JSON pointer, or None."""
    rooted = _of_object(schema)
    if rooted is None:
        return "its root is no object, and references point to the root"
    try:
        strict_schema(rooted)
    except NotStrict as obstacle:
        return str(obstacle)
    return None


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a schema to the strict dialect. A strict schema is not changed.

    Optional properties become required and nullable. `oneOf` becomes `anyOf`. The parts of `allOf` are merged. A
    keyword is removed only if the schema then allows more values. The description then states the removed limit.

    Raises:
        NotStrict: if the strict schema would exclude values that the schema allows.
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
        raise NotStrict("", "the root is a combination of other schemas")
    return strict | beside


def wraps(schema: Any) -> bool:
    """Whether a schema in a request asks for a reply in a wrapper."""
    return isinstance(schema, Mapping) and list(cast("Mapping[str, Any]", schema).get("properties") or ()) == [WRAPPER]


def unwrapped(text: str) -> str:
    """Remove the wrapper of a wrapped reply. Any other text is returned unchanged."""
    found = _WRAPPED.match(text)
    inner = found[1].strip() if found else ""
    try:
        json.loads(inner)
    except (ValueError, RecursionError):
        return text
    return inner


def is_of_object(schema: Mapping[str, Any]) -> bool:
    """Whether a schema allows only objects."""
    return schema.get("type") == "object"


def _of_object(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema if it allows only objects, a schema that wraps it, or None if neither is possible."""
    # In a wrapper, a reference to the root would point to the wrapper
    rooted = _without_root_reference(schema)
    if is_of_object(rooted):
        return dict(rooted)
    if any(each == "#" for each in _references(schema)):
        return None
    definitions = {key: schema[key] for key in ("$schema", *_DEFINITIONS) if key in schema}
    inner = {key: value for key, value in schema.items() if key not in definitions}
    return {
        "type": "object",
        "properties": {WRAPPER: inner},
        "required": [WRAPPER],
        "additionalProperties": False,
    } | definitions


def _without_root_reference(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace a root that is only a reference by the target of the reference, as in schemas of recursive models."""
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


def _strict(schema: Any, pointer: str) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise NotStrict(pointer, "it is true or false instead of a schema")
    merged = _merged(cast("Mapping[str, Any]", schema), pointer)
    if "$ref" in merged:
        # Strict dialects allow no other keyword next to a reference
        return {"$ref": merged["$ref"]}
    strict = {key: merged[key] for key in _KEPT_KEYWORDS if key in merged}
    if words := _described(merged):
        strict["description"] = words
    types = _types(merged)
    if "object" in types:
        strict |= _closed(merged, pointer)
    if "array" in types:
        strict["items"] = _items(merged, pointer)
    # Alternatives beside a type are omitted, which only allows more values
    if types or {"enum", "const"} & merged.keys():
        return strict
    variants: Any = merged.get("anyOf") or merged.get("oneOf")
    if not variants:
        raise NotStrict(pointer, "any value is allowed")
    return strict | {"anyOf": [_strict(variant, f"{pointer}/anyOf/{n}") for n, variant in enumerate(variants)]}


def _types(schema: Mapping[str, Any]) -> list[str]:
    kind: Any = schema.get("type") or []
    return [kind] if isinstance(kind, str) else list(kind)


def _closed(schema: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    if not _is_closed(schema):
        raise NotStrict(pointer, "the object may have properties that are not listed")
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: set[str] = set(schema.get("required") or ())
    strict = {name: _strict(child, f"{pointer}/properties/{name}") for name, child in properties.items()}
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


def _items(schema: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    if "prefixItems" in schema or not isinstance(schema.get("items"), Mapping):
        raise NotStrict(pointer, "the items of the array have no common schema")
    return _strict(schema["items"], f"{pointer}/items")


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


def _merged(schema: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """Merge the parts of `allOf`: unite `properties` and `required`, and keep the first value of other keywords."""
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema.get("allOf") or ():
        if not isinstance(part, Mapping):
            raise NotStrict(pointer, "a part of it is true or false")
        for key, value in _merged(cast("Mapping[str, Any]", part), pointer).items():
            if key == "properties":
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required":
                merged[key] = [*merged.get(key, []), *value]
            else:
                merged.setdefault(key, value)
    return merged


def _described(schema: Mapping[str, Any]) -> str:
    """Return the description with the limits that a strict dialect does not accept as keywords."""
    limits = ", ".join(f"{key} {json.dumps(schema[key])}" for key in _STATED_LIMITS if key in schema)
    words = str(schema.get("description", ""))
    return f"{words} ({limits})".strip() if limits else words


def schema_in(body: Mapping[str, Any]) -> Any:
    """Return the schema in a request body of either wire format, or None if the body has no schema."""
    places = (
        ("response_format", "json_schema", "schema"),
        ("output_config", "format", "schema"),
        ("text", "format", "schema"),
    )
    for place in places:
        value: Any = body
        for name in place:
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def format_in(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the format of the reply in a request body of OpenAI's APIs; empty if the body has no format."""
    of_response: Mapping[str, Any] = body.get("text") or {}
    return body.get("response_format") or of_response.get("format") or {}
