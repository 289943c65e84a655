"""One JSON Schema, made fit for strict structured output. Ranges and lengths are checked in code instead.

Strict dialects (OpenAI's and Anthropic's alike) want every object closed and every property required, and
refuse most keywords of validation. What is taken away is told in the description, so that the model knows.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

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
)
_NULL: dict[str, Any] = {"type": "null"}


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema in strict dialect. Pure; applying it twice changes nothing.

    Optional properties become required and nullable; `oneOf` becomes `anyOf`; `allOf` is merged.
    """
    merged = _merged(schema)
    if "$ref" in merged:
        # Strict dialects allow nothing beside a reference; definitions stand at the root.
        return {"$ref": merged["$ref"], **_definitions(merged)}
    strict = {key: merged[key] for key in _KEPT if key in merged}
    if told := _told(merged):
        strict["description"] = told
    if _is_object(merged):
        strict |= _closed(merged)
    if "items" in merged:
        strict["items"] = _child(merged["items"])
    if variants := merged.get("anyOf") or merged.get("oneOf"):
        strict["anyOf"] = [_child(variant) for variant in variants]
    return strict | _definitions(merged)


def _child(schema: Any) -> dict[str, Any]:
    """A subschema; `true` and `false` are schemas too, and say nothing a strict dialect can."""
    return strict_schema(cast("Mapping[str, Any]", schema)) if isinstance(schema, Mapping) else {}


def _is_object(schema: Mapping[str, Any]) -> bool:
    return "properties" in schema or "object" in _types(schema)


def _types(schema: Mapping[str, Any]) -> list[str]:
    kind: Any = schema.get("type") or []
    return [kind] if isinstance(kind, str) else list(kind)


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: set[str] = set(schema.get("required") or ())
    strict = {name: _child(child) for name, child in properties.items()}
    return {
        "properties": {name: child if name in required else _nullable(child) for name, child in strict.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


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


def _merged(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`allOf` folded into one schema: properties and required add up, the rest is overwritten."""
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema.get("allOf") or ():
        for key, value in _merged(part).items():
            if key == "properties":
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required":
                merged[key] = [*merged.get(key, []), *value]
            else:
                merged.setdefault(key, value)
    return merged


def _told(schema: Mapping[str, Any]) -> str:
    """The description with the limits that strict mode does not take."""
    limits = ", ".join(f"{key} {json.dumps(schema[key])}" for key in _TOLD if key in schema)
    words = str(schema.get("description", ""))
    return f"{words} ({limits})".strip() if limits else words


def _definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {key: {name: _child(child) for name, child in each.items()} for key, each in found.items()}
