"""strict_schema against the rules that both vendors' strict modes share."""

import copy
import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from redraft.providers.schemas import strict_schema
from tests.model_server.validators import schema_flaws

NAMES = st.sampled_from(["score", "minimum", "default", "properties", "$ref", "why", "type", "items"])
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "minimum": st.integers(0, 3),
        "maximum": st.integers(3, 9),
        "minLength": st.integers(0, 3),
        "format": st.just("email"),
        "default": st.none() | st.integers(),
        "description": st.text(max_size=10),
        "title": st.text(max_size=5),
        "examples": st.just([1]),
        "pattern": st.just("^a"),
        "minItems": st.integers(0, 2),
    },
)
LEAVES = st.one_of(
    st.builds(
        lambda kind, limits: {"type": kind, **limits},
        st.sampled_from(["string", "number", "integer", "boolean", ["string", "null"]]),
        LIMITS,
    ),
    st.just({"enum": ["a", "b"]}),
    st.just({"const": 1}),
    st.just({"$ref": "#/$defs/thing", "description": "beside a reference"}),
    st.just({}),
)


def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def make_object(properties: dict[str, Any], required: list[str], limits: dict[str, Any]) -> dict[str, Any]:
        known = [name for name in properties if name in required]
        return {"type": "object", "properties": properties, "required": known, **limits}

    return st.one_of(
        st.builds(make_object, st.dictionaries(NAMES, inner, max_size=4), st.lists(NAMES), LIMITS),
        st.builds(lambda items, limits: {"type": "array", "items": items, **limits}, inner, LIMITS),
        st.builds(lambda variants: {"anyOf": variants}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda variants: {"oneOf": variants}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"allOf": parts}, st.lists(inner, min_size=1, max_size=2)),
    )


SCHEMAS = st.builds(
    lambda schema: {
        **schema,
        "$defs": {"thing": {"type": "object", "properties": {"x": {"type": "number", "minimum": 1}}}},
    },
    st.recursive(LEAVES, nest, max_leaves=12),
)


@given(SCHEMAS)
def test_every_result_passes_the_strict_rules(schema: dict[str, Any]):
    assert list(schema_flaws(strict_schema(schema))) == []


@given(SCHEMAS)
def test_it_is_pure_and_settled(schema: dict[str, Any]):
    before = copy.deepcopy(schema)
    once = strict_schema(schema)
    assert schema == before
    assert strict_schema(once) == once
    jsonschema.Draft202012Validator.check_schema(once)


@given(st.dictionaries(NAMES, st.just({"type": "string"}), max_size=8))
def test_properties_named_like_keywords_survive(properties: dict[str, Any]):
    strict = strict_schema({"type": "object", "properties": properties, "required": list(properties)})
    assert strict["properties"] == properties
    assert strict["required"] == list(properties)


def test_optional_becomes_nullable_and_limits_are_told():
    strict = strict_schema(
        {
            "type": "object",
            "title": "Verdict",
            "properties": {
                "score": {"type": "number", "minimum": 0, "maximum": 1, "description": "How good."},
                "hint": {"type": "string", "default": ""},
                "kind": {"enum": ["a", "b"]},
                "part": {"$ref": "#/$defs/part", "description": "lost"},
                "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            },
            "required": ["score"],
            "$defs": {"part": {"type": "object", "properties": {}}},
        }
    )
    assert strict == {
        "type": "object",
        "properties": {
            "score": {"type": "number", "description": "How good. (minimum 0, maximum 1)"},
            "hint": {"type": ["string", "null"]},
            "kind": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]},
            "part": {"anyOf": [{"$ref": "#/$defs/part"}, {"type": "null"}]},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        },
        "required": ["score", "hint", "kind", "part", "either"],
        "additionalProperties": False,
        "$defs": {"part": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}},
    }


def test_the_order_of_properties_is_kept():
    names = ["evidence", "reasoning", "score"]
    schema = {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": names}
    assert list(json.loads(json.dumps(strict_schema(schema)))["properties"]) == names


def test_all_of_is_merged():
    strict = strict_schema(
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"type": "number"}}, "required": ["b"]},
            ]
        }
    )
    assert strict["required"] == ["a", "b"]
    assert strict["properties"] == {"a": {"type": "string"}, "b": {"type": "number"}}
