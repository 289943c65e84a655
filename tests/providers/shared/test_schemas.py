"""What is sent for a schema: never less than it admits, and in strict dialect only by the dialect's rules."""

import copy
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from redraft.domain.structured.answers import Parsed, read_answer
from redraft.providers.shared.schemas import WRAPPER, NotStrict, strict_schema, unwrapped, why_not_strict, wire_schema
from tests.model_server.validators import schema_errors
from tests.providers.shared.wire_schemas import fits, on_the_wire, pairs, whole

CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}


@given(pairs())
def test_what_is_sent_admits_every_value_that_fits(pair: tuple[Any, Any]):
    schema, value = whole(pair[0]), pair[1]
    assume(fits(value, schema))
    wire = wire_schema(schema)
    assert wire is not None
    # A variant of `anyOf` whose parts contradict each other admits a form that no reader accepts, so try all forms
    forms = [each for each in on_the_wire(value, wire.schema, is_strict=wire.is_strict) if fits(each, wire.schema)]
    assert any(isinstance(read_answer(unwrapped(json.dumps(each)), schema), Parsed) for each in forms)


# Case B14
@given(pairs())
def test_whatever_is_strict_keeps_the_strict_rules(pair: tuple[Any, Any]):
    schema = whole(pair[0])
    before = copy.deepcopy(schema)
    wire = wire_schema(schema)
    assert schema == before
    assert wire is not None
    jsonschema.Draft202012Validator.check_schema(wire.schema)
    assert wire.schema["type"] == "object"
    assert (why_not_strict(schema) is None) == wire.is_strict
    if wire.is_strict:
        assert list(schema_errors(wire.schema)) == []
        assert strict_schema(wire.schema) == wire.schema


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "object"}, "/"),
        ({"type": "object", "properties": {"name": {"type": "string"}}}, "/"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "/"),
        ({**CLOSED, "patternProperties": {"^x": {}}}, "/"),
        ({**CLOSED, "properties": {"map": {"type": "object", "additionalProperties": True}}}, "/properties/map"),
        ({**CLOSED, "properties": {"any": {}}}, "/properties/any"),
        ({**CLOSED, "properties": {"any": True}}, "/properties/any"),
        ({**CLOSED, "properties": {"never": False}}, "/properties/never"),
        ({**CLOSED, "properties": {"list": {"type": "array"}}}, "/properties/list"),
        ({**CLOSED, "properties": {"t": {"type": "array", "prefixItems": [{"type": "string"}]}}}, "/properties/t"),
        ({**CLOSED, "properties": {"l": {"type": "array", "items": {"type": "object"}}}}, "/properties/l/items"),
        ({**CLOSED, "properties": {"o": {"oneOf": [{"type": "object"}]}}}, "/properties/o/anyOf/0"),
        ({**CLOSED, "properties": {"n": {"not": {"type": "string"}}}}, "/properties/n"),
        ({"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}}]}, "/"),
        ({"type": "object", "unevaluatedProperties": False, "anyOf": [{"properties": {"a": True}}]}, "/"),
        ({**CLOSED, "$defs": {"open": {"type": "object"}}}, "/$defs/open"),
        ({"type": "object", "$ref": "#/$defs/x", "$defs": {"x": CLOSED}}, "/"),
    ],
)
def test_what_strict_mode_would_narrow_is_sent_as_it_is(schema: dict[str, Any], place: str):
    wire = wire_schema(schema)
    assert wire is not None
    assert (wire.schema, wire.is_strict) == (schema, False)
    assert f"(at {place})" in (why_not_strict(schema) or "")
    with pytest.raises(NotStrict):
        strict_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "integer"},
        {"anyOf": [{"type": "string"}, CLOSED]},
        {"type": ["object", "null"], "additionalProperties": False},
        {"enum": ["yes", "no"]},
        {"$ref": "#/$defs/name", "$defs": {"name": {"type": "string"}}},
    ],
)
def test_a_root_that_is_no_object_is_wrapped(schema: dict[str, Any]):
    wire = wire_schema(schema)
    assert wire is not None
    assert wire.is_strict
    assert list(wire.schema["properties"]) == [WRAPPER]
    assert list(schema_errors(wire.schema)) == []


def test_a_root_that_only_refers_becomes_what_it_refers_to():
    node = {**CLOSED, "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
    wire = wire_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}, "title": "Tree"})
    assert wire is not None
    assert wire.schema == {**node, "$defs": {"Node": node}}


def test_a_wrapped_root_that_is_referred_to_is_told_in_words():
    assert wire_schema({"type": "array", "items": {"$ref": "#"}}) is None
    assert "root" in (why_not_strict({"type": "array", "items": {"$ref": "#"}}) or "")
    assert wire_schema({"type": "object", "properties": {"again": {"$ref": "#"}}}) is not None


@pytest.mark.parametrize("inner", ["[1, 2.50, 1e400]", '"text"', "null", '{"a": "}"}', " [] "])
def test_a_wrapped_reply_is_unwrapped_to_the_letter(inner: str):
    assert unwrapped(f' {{"{WRAPPER}":{inner}}}\n') == inner.strip()
    assert unwrapped(f'```json\n{{"{WRAPPER}": {inner}}}\n```') == inner.strip()


@pytest.mark.parametrize("text", ["[1]", f'{{"{WRAPPER}": 1, "more": 2}}', f'{{"{WRAPPER}": }}', "{}", "", "x"])
def test_what_is_not_wrapped_stays_as_it_is(text: str):
    assert unwrapped(text) == text


@given(st.text())
def test_any_text_can_be_unwrapped(text: str):
    assert unwrapped(text) == text


@given(
    st.dictionaries(st.sampled_from(["minimum", "default", "properties", "$ref", "type"]), st.just({"type": "null"}))
)
def test_properties_named_like_keywords_survive(properties: dict[str, Any]):
    strict = strict_schema({**CLOSED, "properties": properties, "required": list(properties)})
    assert strict["properties"] == properties
    assert strict["required"] == list(properties)


def test_optional_becomes_nullable_and_limits_are_told():
    strict = strict_schema(
        {
            **CLOSED,
            "title": "Verdict",
            "properties": {
                "score": {"type": "number", "minimum": 0, "maximum": 1, "description": "How good."},
                "hint": {"type": "string", "default": ""},
                "kind": {"enum": ["a", "b"]},
                "part": {"$ref": "#/$defs/part", "description": "lost"},
                "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "short": {"type": "string", "anyOf": [{"maxLength": 3}, {"format": "uri"}]},
            },
            "required": ["score"],
            "$defs": {"part": {**CLOSED, "properties": {}}},
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
            "short": {"type": ["string", "null"]},
        },
        "required": ["score", "hint", "kind", "part", "either", "short"],
        "additionalProperties": False,
        "$defs": {"part": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}},
    }


def test_the_order_of_properties_is_kept():
    names = ["evidence", "reasoning", "score"]
    schema = {**CLOSED, "properties": {n: {"type": "string"} for n in names}, "required": names}
    assert list(json.loads(json.dumps(strict_schema(schema)))["properties"]) == names


def test_all_of_is_merged():
    strict = strict_schema(
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {**CLOSED, "properties": {"b": {"type": "number"}}, "required": ["b"]},
            ]
        }
    )
    assert strict["required"] == ["a", "b"]
    assert strict["properties"] == {"a": {"type": "string"}, "b": {"type": "number"}}
