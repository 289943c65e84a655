"""Small schemas and answers that ask for hours of native code: each ends within its limit, and other threads go on."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from redraft.domain.structured.answers import Mismatch, read_answer, schema_error
from tests.support.waiting import cpu_bound, patient

# The CPU limit and its rounding, the start of a child, and a machine that does other things meanwhile
_ENDS_WITHIN_S = patient(10.0)
_OTHERS_WAIT_S = patient(1.0)
# Of this thread's own computing; without a bound it takes hours
_STEPS_TAKE_S = 2.5

_REPEATED: dict[str, Any] = {"properties": {"a": {"$ref": "#/$defs/n"}}}
DOUBLING: dict[str, Any] = {
    "type": "object",
    "$ref": "#/$defs/n",
    "$defs": {"n": {"anyOf": [{"type": "string"}, {"type": "object", "allOf": [_REPEATED, _REPEATED]}]}},
}


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def watched(compute: Callable[[], Any]) -> Any:
    """The result of a computation, while which no other thread was kept waiting."""
    done, gaps = threading.Event(), [0.0]

    def tick() -> None:
        last = time.monotonic()
        while not done.wait(0.01):
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    ticker = threading.Thread(target=tick)
    ticker.start()
    started_at = time.monotonic()
    try:
        result = compute()
    finally:
        took_s = time.monotonic() - started_at
        done.set()
        ticker.join()
    assert took_s < _ENDS_WITHIN_S
    assert max(gaps) < _OTHERS_WAIT_S
    return result


def test_a_nested_value_in_a_schema_that_names_it_twice_fits_not_within_the_limits():
    """Optional nulls are searched in Python, where neither a child process nor the deadline ends the search."""
    with cpu_bound(_STEPS_TAKE_S):
        read = watched(lambda: read_answer(nested(60), DOUBLING))
    assert isinstance(read, Mismatch)
    assert "to say where takes more than 1 s" in read.message
    assert schema_error(DOUBLING) is None


def test_optional_nulls_of_many_required_properties_with_many_alternatives_are_searched_in_bounded_steps():
    names = [f"p{n}" for n in range(2000)]
    schema = {
        "type": "object",
        "required": names,
        "properties": {name: {"$ref": "#/$defs/b"} for name in names},
        "$defs": {"b": {"anyOf": [{"const": n} for n in range(900)]}},
    }
    assert schema_error(schema) is None
    read = read_answer('{"p1": null}', schema)
    assert isinstance(read, Mismatch)
    assert "takes more than 1,000,000 steps" in read.message


def test_a_long_enum_against_a_long_list_is_a_validation_error_that_names_the_limit():
    schema = {
        "type": "object",
        "properties": {
            "l": {
                "items": {"enum": [[n, n] for n in range(6000)]},
            }
        },
    }
    answer = json.dumps({"l": [[-1, -1]] * 50_000})
    assert schema_error(schema) is None
    read = watched(lambda: read_answer(answer, schema))
    assert isinstance(read, Mismatch)
    assert "takes more than 1 s of computing" in read.message


def test_many_patterns_that_are_large_when_compiled_are_refused():
    schema = {"properties": {f"p{n}": {"pattern": rf"\pL{{60}}{n}"} for n in range(2000)}}
    fault = watched(lambda: schema_error(schema))
    assert "too expensive" in (fault or "")
    started_at = time.monotonic()
    assert schema_error(schema) == fault
    assert time.monotonic() - started_at < patient(0.25), "what was too expensive is computed again"


def test_tiny_divisors_of_many_large_numbers_keep_no_other_thread_waiting():
    schema: dict[str, Any] = {"type": "array", "items": {"multipleOf": 5e-324}}
    assert schema_error(schema) is None
    watched(lambda: read_answer(json.dumps([1e308] * 30_000), schema))


@pytest.mark.parametrize("name", ["$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_references_by_other_names_are_refused(name: str, is_nested: bool):  # noqa: FBT001 - a parameter
    part = {name: "a", "type": "object"}
    schema = {"type": "object", "$defs": {"b": part}} if is_nested else part
    assert name in (schema_error(schema) or "")


@pytest.mark.parametrize(
    "reference",
    [
        "#/%24defs/a",
        "#a",
        "a",
        "#/allOf/0",
        "#/$defs/a/anyOf/0",
        "#/properties/a",
        "#/$defs/a~1b",
        "#/$defs/%61",
        "http://x/y",
    ],
)
def test_references_in_other_spellings_are_refused(reference: str):
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"items": {"$ref": reference}}}, "$defs": {"a": {}}}
    assert "$ref" in (schema_error(schema) or "")


@pytest.mark.parametrize("reference", ["#", "#/$defs/a", "#/definitions/a"])
def test_references_to_definitions_are_followed(reference: str):
    schema = {
        "type": "object",
        "properties": {"x": {"items": {"$ref": reference}}, "$id": {"type": "string"}, "$ref": {"type": "string"}},
        "$defs": {"a": {"type": "integer"}},
        "definitions": {"a": {"type": "integer"}},
    }
    assert schema_error(schema) is None


@pytest.mark.parametrize("name", ["$ref", "$dynamicRef"])
def test_a_stored_schema_with_other_references_is_still_within_the_limits(name: str):
    """As it may have been stored by an earlier version."""
    both = [{name: "#/%24defs/a"}, {name: "#b"}]
    schema = {
        "type": "object",
        "allOf": both,
        "$defs": {"a": {"type": "object"}, "b": {"$anchor": "b", "$dynamicAnchor": "c"}},
    }
    read_answer("{}", schema)
