"""Structured answers: does an answer hold the JSON that its job asked for? Decided in code, whoever promised it."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import jsonschema_rs

from redraft.domain.patterns import pattern_options
from redraft.domain.schema_costs import TRIES_MAX, referred, tries_too_much
from redraft.domain.texts import clean_json
from redraft.errors import Invalid

SCHEMA_CHARS_MAX = 100_000
_MISFITS_TOLD = 5
_FENCED = re.compile(r"\A```(?:json)?[ \t]*\r?\n(.*?)\r?\n?```\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The answer's value; it fits the schema."""

    value: Any


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why an answer does not fit, for whoever writes the next one: what is wrong, and where."""

    message: str


def check_schema(schema: Mapping[str, Any], pointer: str) -> None:
    """Refuse a schema that nothing could be checked with, or no provider asked by.

    Raises:
        Invalid: it is no JSON Schema, names another document, is too long, or describes no object
            (code `invalid_schema`).
    """
    is_of_objects = schema.get("type") == "object"
    fault = (
        schema_fault(schema) if is_of_objects else 'The schema must be of "type": "object": providers take no other.'
    )
    if fault is not None:
        raise Invalid.at(pointer, fault, "invalid_schema")


def schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Why nothing could be checked with a schema; None = it can be used."""
    try:
        if len(json.dumps(schema)) > SCHEMA_CHARS_MAX:
            return f"The schema has more than {SCHEMA_CHARS_MAX} characters."
        if clean_json(schema) != schema:
            return "The schema holds control characters, numbers or a depth that cannot be stored; remove them."
        if tries_too_much(schema):
            return f"The schema tries more than {TRIES_MAX} alternatives on one value, or itself: make it simpler."
        _validator(schema, "")
    except (ValueError, RecursionError) as error:
        words = str(error).split("\n", 1)[0]
        return f"This is no usable JSON Schema: {words}"
    return None


def read_json(answer: str, wanted: str = "value") -> Parsed | Misfit:
    """The value of an answer that is JSON, bare or in one fence. Never raises for an answer."""
    text = answer.strip().removeprefix("\ufeff").strip()
    fenced = _FENCED.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return Misfit(f"The answer is not JSON{where}: write one JSON {wanted} and nothing else.")
    return Parsed(value)


def read_answer(answer: str, schema: Mapping[str, Any]) -> Parsed | Misfit:
    """The value of an answer that is JSON, bare or in one fence, and fits. Never raises for an answer."""
    kind = schema.get("type")
    read = read_json(answer, kind if kind in ("object", "array") else "value")
    if isinstance(read, Misfit):
        return read
    try:
        return _fitted(read.value, schema)
    except (ValueError, RecursionError):
        words = "half characters, nesting without end, or more text than the schema's patterns can search"
        return Misfit(f"The answer holds what cannot be checked: {words}.")


def _fitted(value: Any, schema: Mapping[str, Any]) -> Parsed | Misfit:
    json.dumps(value, ensure_ascii=False).encode()  # half characters fit nowhere, whatever the schema says
    validator = _validator(schema, max(_strings(value), key=len, default=""))
    if validator.is_valid(value):
        return Parsed(value)
    without_empty = _without_empty(value, schema, schema)
    if validator.is_valid(without_empty):
        return Parsed(without_empty)
    wrong = [_told(error) for error in islice(validator.iter_errors(value), _MISFITS_TOLD)]
    return Misfit("The answer does not fit its schema: " + "; ".join(wrong))


def _without_empty(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """Without the nulls of optional properties: strict dialects know no optional ones, only nullable ones."""
    branches = list(_branches(schema, root))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        known: dict[str, Any] = {}
        for branch in branches:
            known |= _mapping(branch.get("properties"))
        required = {name for branch in branches[:1] for name in branch.get("required") or ()}
        return {
            name: _without_empty(member, known.get(name), root)
            for name, member in members.items()
            if member is not None or name in required or name not in known
        }
    if isinstance(value, list):
        inner = next((branch["items"] for branch in branches if "items" in branch), None)
        return [_without_empty(member, inner, root) for member in cast("list[Any]", value)]
    return value


def _branches(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A schema and what it is put together from, each once, references within the document followed."""
    waiting, met = [schema], set[int]()
    while waiting:
        known = _mapping(waiting.pop(0))
        if id(known) in met:
            continue
        met.add(id(known))
        yield known
        if "$ref" in known:
            waiting.append(referred(str(known["$ref"]), root))
        for name in ("allOf", "anyOf", "oneOf"):
            waiting.extend(cast("list[Any]", known.get(name) or []))


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    members: list[Any] = []
    if isinstance(value, Mapping):
        members = [*_mapping(value), *_mapping(value).values()]
    elif isinstance(value, list):
        members = cast("list[Any]", value)
    for member in members:
        yield from _strings(member)


def _validator(schema: Mapping[str, Any], longest: str) -> Any:
    """Patterns that cannot take long, and no document from anywhere else."""
    return jsonschema_rs.validator_for(
        cast("Any", dict(schema)), offline=True, pattern_options=pattern_options(longest)
    )


def _told(error: jsonschema_rs.ValidationError) -> str:
    place = "/" + "/".join(str(part) for part in error.instance_path)
    return f"{error.message[:200]} (at {place})"


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is larger than any number")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")
