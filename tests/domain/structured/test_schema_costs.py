"""Small schemas that would cause billions of steps are refused, and ordinary schemas are not."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.structured.answers import Parsed, read_answer, schema_error
from redraft.domain.structured.schema_costs import tries_too_much


def chain(width: int) -> dict[str, Any]:
    names = "abcdef"
    defs: dict[str, Any] = {name: {"anyOf": [{"$ref": f"#/$defs/{after}"}] * width} for name, after in pairwise(names)}
    return {"$ref": "#/$defs/a", "$defs": {**defs, "f": {"type": "string"}}}


TREE = {
    "type": "object",
    "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "name": {"type": ["string", "null"]}},
}


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"$ref": "#"}] * 100},
        {"$ref": "#"},
        {"allOf": [{"not": {"$ref": "#"}}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "properties": {"x": {"$ref": "#/$defs/a"}}},
        chain(30),
        {"properties": {"deep": {"items": {"oneOf": [{"type": "string"}] * 2000}}}},
    ],
)
def test_schemas_that_explode_are_refused(schema: dict[str, Any]):
    assert "alternatives" in (schema_error(schema) or "")


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        chain(3),
        {"anyOf": [{"const": n} for n in range(900)]},
        {"if": {"type": "string"}, "then": {"minLength": 1}},
    ],
)
def test_schemas_of_people_are_not(schema: dict[str, Any]):
    assert schema_error(schema) is None


def test_a_tree_is_read_and_loses_its_nulls_only_where_it_must():
    assert read_answer('{"name": null, "kids": [{"name": "x"}]}', TREE) == Parsed(
        {"name": None, "kids": [{"name": "x"}]}
    )
    strict = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert read_answer('{"a": null}', strict) == Parsed({})


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_the_cost_of_any_schema_is_computed(value: Any):
    assert tries_too_much({"anyOf": value, "$ref": value, "items": value}) in {True, False}
