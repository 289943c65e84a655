"""Structured answers: valid and invalid ones, messages, and harmless treatment of hostile answers and schemas."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.structured.answers import SCHEMA_CHARS_MAX, Mismatch, Parsed, check_schema, read_answer
from redraft.errors import Invalid

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "people": {"type": "integer", "minimum": 0},
        "mayor": {"type": "string"},
        "twins": {"type": "array", "items": {"$ref": "#/$defs/twin"}},
    },
    "required": ["name", "people"],
    "additionalProperties": False,
    "$defs": {
        "twin": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "since": {"type": "integer"}},
            "required": ["name"],
        }
    },
}
BERN = {"name": "Bern", "people": 134_000}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(BERN),
        f"\n\ufeff {json.dumps(BERN)} \n",
        f"```json\n{json.dumps(BERN, indent=2)}\n```",
        f"```\n{json.dumps(BERN)}\n```",
    ],
)
def test_json_is_taken_bare_or_in_one_fence(text: str):
    assert read_answer(text, CITY) == Parsed(BERN)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Bern has 134,000 people.", "is not JSON at line 1, column 1"),
        (f"Here it is: {json.dumps(BERN)}", "is not JSON"),
        (f"{json.dumps(BERN)}{json.dumps(BERN)}", "is not JSON"),
        ('{"name": "Bern", "people": 1', "is not JSON"),
        ('{"name": "Bern", "people": NaN}', "is not JSON"),
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"name": "Bern"}', '"people" is a required property (at /)'),
        ('{"name": "Bern", "people": -1}', "less than the minimum of 0 (at /people)"),
        ('{"name": "", "people": 1}', "(at /name)"),
        ('{"name": "Bern", "people": "many"}', "(at /people)"),
        ('{"name": "Bern", "people": 1, "river": "Aare"}', "river"),
        ('{"name": "Bern", "people": 1, "twins": [{"since": 3}]}', "(at /twins/0)"),
        ("[]", "(at /)"),
        ("null", "(at /)"),
    ],
)
def test_a_mismatch_is_reported_with_its_place(text: str, told: str):
    read = read_answer(text, CITY)
    assert isinstance(read, Mismatch)
    assert told in read.message


def test_at_most_five_mismatches_are_reported_together():
    schema = {"type": "object", "required": [f"field{n}" for n in range(50)]}
    read = read_answer("{}", schema)
    assert isinstance(read, Mismatch)
    assert read.message.count("required property") == 5


def test_nulls_of_optional_properties_are_as_good_as_left_out():
    """Strict dialects make every property required, and the optional ones nullable."""
    text = json.dumps({**BERN, "mayor": None, "twins": [{"name": "Riga", "since": None}]})
    assert read_answer(text, CITY) == Parsed({**BERN, "twins": [{"name": "Riga"}]})
    read = read_answer('{"name": null, "people": 1}', CITY)
    assert isinstance(read, Mismatch)


def test_a_null_that_the_schema_allows_stays():
    schema = {"type": "object", "properties": {"mayor": {"type": ["string", "null"]}}}
    assert read_answer('{"mayor": null}', schema) == Parsed({"mayor": None})


@given(text=st.text() | JSON.map(json.dumps))
def test_no_answer_raises(text: str):
    assert isinstance(read_answer(text, CITY), Parsed | Mismatch)


@given(value=st.dictionaries(st.text(max_size=8), JSON, max_size=6))
def test_valid_json_comes_through_untouched(value: dict[str, Any]):
    assert read_answer(json.dumps(value), {"type": "object"}) == Parsed(value)


def test_a_pattern_of_exponential_cost_takes_linear_time():
    schema = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}
    assert isinstance(read_answer(json.dumps({"name": "a" * 5000 + "!"}), schema), Mismatch)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, "strin"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "regex"),
        ({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/secret"}}}, "127.0.0.1"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "passwd"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}}, "nowhere"),
        ({"type": "object", "description": "x" * SCHEMA_CHARS_MAX}, "characters"),
    ],
)
def test_a_schema_that_checks_nothing_is_refused(schema: dict[str, Any], told: str):
    with pytest.raises(Invalid) as caught:
        check_schema(schema, "/answer_schema")
    (error,) = caught.value.errors
    assert (error.pointer, error.code) == ("/answer_schema", "invalid_schema")
    assert told in error.detail


@pytest.mark.parametrize("schema", [CITY, {"type": "array"}, {"type": "string"}, {"anyOf": [{"type": "null"}]}, {}])
def test_a_schema_of_any_value_is_taken(schema: dict[str, Any]):
    check_schema(schema, "/answer_schema")


NULLABLE = {
    "anyOf": [
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "kind": {"const": 1}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string"}, "kind": {"const": 2}}},
    ]
}


@pytest.mark.parametrize(
    ("answer", "parsed"),
    [
        ({"a": None, "kind": 1}, {"a": None, "kind": 1}),
        ({"a": "x", "kind": None}, {"a": "x"}),
        ({"a": None, "kind": None}, {"a": None}),
    ],
)
def test_nulls_that_may_be_meant_are_kept(answer: dict[str, Any], parsed: dict[str, Any]):
    assert read_answer(json.dumps([answer]), {"type": "array", "items": NULLABLE}) == Parsed([parsed])


def test_nulls_are_left_out_whichever_alternative_knows_them():
    inner = {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": False}
    either = {"anyOf": [{"properties": {"a": inner}}, {"properties": {"a": {"type": "string"}}}], "type": "object"}
    assert read_answer('{"a": {"b": null}}', either) == Parsed({"a": {}})


@pytest.mark.parametrize(
    "text",
    ['{"\\ud800": 1}', '{"name": "\\udfff", "people": 1}', '{"name": ' * 900 + "1" + "}" * 900, '{"people": 1e999}'],
)
def test_an_answer_that_cannot_be_checked_does_not_fit(text: str):
    assert isinstance(read_answer(text, CITY), Mismatch)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (
            {"type": "object", "properties": {"v": {"type": "string"}, "next": {"$ref": "#"}}, "required": ["v"]},
            '{"v": "a", "next": {"v": "b", "next": null}}',
            {"v": "a", "next": {"v": "b"}},
        ),
        (
            {
                "type": "object",
                "properties": {"x": {"anyOf": [{"$ref": "#/$defs/a~1b"}]}},
                "$defs": {"a/b": {"type": "object", "properties": {"y": {"type": "string"}}}},
            },
            '{"x": {"y": null}}',
            {"x": {}},
        ),
        ({"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": True}}, '{"x": 1}', {"x": 1}),
    ],
)
def test_optional_nulls_are_found_through_references(schema: dict[str, Any], text: str, value: dict[str, Any]):
    assert read_answer(text, schema) == Parsed(value)


def test_a_fence_may_have_the_line_ends_of_windows():
    assert read_answer(f"```json\r\n{json.dumps(BERN)}\r\n```", CITY) == Parsed(BERN)
