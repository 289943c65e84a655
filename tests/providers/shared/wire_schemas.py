"""Random schemas with a value that fits each, and what a provider bound to the wire schema would write for it."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any, cast

import jsonschema
from hypothesis import strategies as st

from redraft.providers.shared.schemas import WRAPPER, wraps

NAMES = st.sampled_from(["a", "b", "type", "items", "$ref", "x_1", "properties"])
SAYABLE: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, st.text(max_size=5)),
    ({"type": "string", "minLength": 1, "format": "email", "description": "d"}, st.just("a@b.ch")),
    ({"type": "integer", "minimum": 0}, st.integers(0, 9)),
    ({"type": "number"}, st.floats(0, 1)),
    ({"type": "boolean", "title": "T", "default": True}, st.booleans()),
    ({"type": "null"}, st.none()),
    ({"type": ["string", "null"], "pattern": "^a"}, st.none() | st.just("ab")),
    ({"enum": ["a", 1, None]}, st.sampled_from(["a", 1, None])),
    ({"const": {"k": 1}}, st.just({"k": 1})),
    ({"$ref": "#/$defs/node"}, st.sampled_from([{}, {"next": {}}, {"next": {"next": {}}}])),
]
LOOSE: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({}, st.sampled_from([1, "x", [], {"any": 1}, None])),
    ({"not": {"type": "string"}}, st.sampled_from([1, None, {}])),
    ({"type": "object"}, st.dictionaries(NAMES, st.integers(), max_size=2)),
    ({"type": "object", "minProperties": 1}, st.just({"free": 1})),
    ({"type": "array"}, st.lists(st.integers(), max_size=2)),
    ({"$ref": "#/$defs/open"}, st.sampled_from([{}, {"more": 1}])),
]
DEFS = {
    "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": False},
    "open": {"type": "object", "properties": {"known": {"type": "string"}}},
}


@st.composite
def pairs(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """A schema without its definitions, and a value that fits it."""
    makers = (
        [_scalar]
        if depth == 0
        else [_scalar, *[_object] * 4, _array, _array, _any_of, _any_of, _all_of, _if, _tuple, _map]
    )
    return draw(draw(st.sampled_from(makers))(depth))


@st.composite
def _scalar(draw: st.DrawFn, _depth: int) -> tuple[Any, Any]:
    # Mostly what strict dialects can say, so that whole schemas are
    is_loose = draw(st.integers(0, 9)) == 0
    schema, values = draw(st.sampled_from(LOOSE if is_loose else SAYABLE))
    return schema, draw(values)


@st.composite
def _object(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    members = draw(st.dictionaries(NAMES, pairs(depth - 1), max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(members)), unique=True)) if members else []
    left_out = draw(st.sets(st.sampled_from(sorted(members)))) - {*required} if members else set[str]()
    schema: dict[str, Any] = {"type": "object", "properties": {name: pair[0] for name, pair in members.items()}}
    value = {name: pair[1] for name, pair in members.items() if name not in left_out}
    if required or draw(st.booleans()):
        schema["required"] = required
    closing = draw(st.sampled_from(["closed"] * 9 + ["unevaluated", "open", "true", "map", "pattern"]))
    if closing in {"open", "true"}:
        value |= draw(st.sampled_from([{}, {"extra": [1]}]))
        schema |= {"additionalProperties": True} if closing == "true" else {}
    elif closing == "closed":
        schema["additionalProperties"] = False
    elif closing == "map":
        schema["additionalProperties"] = {"type": "integer"}
        value |= draw(st.sampled_from([{}, {"extra": 1}]))
    elif closing == "pattern":
        schema |= {"patternProperties": {"^ex": {"type": "integer"}}, "additionalProperties": False}
        value |= draw(st.sampled_from([{}, {"extra": 1}]))
    else:
        schema["unevaluatedProperties"] = False
    return schema, value


@st.composite
def _array(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    schema, value = draw(pairs(depth - 1))
    return {"type": "array", "items": schema, "maxItems": 2}, [value] * draw(st.integers(0, 2))


@st.composite
def _tuple(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    first, rest = draw(pairs(depth - 1)), draw(pairs(depth - 1))
    is_closed = draw(st.booleans())
    schema = {"type": "array", "prefixItems": [first[0]], "items": False if is_closed else rest[0]}
    return schema, [first[1], *([] if is_closed else [rest[1]])]


@st.composite
def _map(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    schema, value = draw(pairs(depth - 1))
    names: dict[str, Any] = draw(st.sampled_from([{}, {"propertyNames": {"pattern": "^[a-z]+$"}}]))
    return {"type": "object", "additionalProperties": schema, **names}, {"key": value}


@st.composite
def _any_of(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    variants = draw(st.lists(pairs(depth - 1), min_size=1, max_size=3))
    return {"anyOf": [variant[0] for variant in variants]}, draw(st.sampled_from(variants))[1]


@st.composite
def _all_of(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    (first, value), (second, other) = draw(_object(depth)), draw(_object(depth))
    return {"allOf": [first, second]}, draw(st.sampled_from([value, other, {**value, **other}]))


@st.composite
def _if(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    schema, value = draw(_object(depth))
    condition = {"if": {"required": ["a"]}, "then": {"properties": {"b": True}}, "else": {"minProperties": 0}}
    return {**schema, **condition, "dependentRequired": {"zz": ["a"]}}, value


def whole(schema: Any) -> dict[str, Any]:
    """The schema with what it refers to."""
    text = json.dumps(schema)
    return {**schema, "$defs": {name: each for name, each in DEFS.items() if f"#/$defs/{name}" in text}}


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def on_the_wire(value: Any, schema: Mapping[str, Any], *, is_strict: bool) -> Iterator[Any]:
    """The forms in which a bound provider may write a value: wrapped, and in strict dialects with null if left out."""
    written = {WRAPPER: value} if wraps(schema) else value
    return islice(_forms(written, schema, schema), 100) if is_strict else iter([written])


def _forms(value: Any, schema: Any, root: Mapping[str, Any]) -> Iterator[Any]:
    if "$ref" in schema:
        yield from _forms(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    elif "anyOf" in schema:
        for variant in schema["anyOf"]:
            known = {**variant, "$defs": root.get("$defs", {})}
            yield from (each for each in _forms(value, variant, root) if fits(each, known))
    elif isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        for members in product(*(_forms(value.get(name), child, root) for name, child in properties.items())):
            yield {**value, **dict(zip(properties, members, strict=True))}
    elif isinstance(value, list) and "items" in schema:
        items = cast("list[Any]", value)
        yield from map(list, product(*(_forms(item, schema["items"], root) for item in items)))
    else:
        yield value
