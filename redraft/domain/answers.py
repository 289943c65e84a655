"""Structured answers: does an answer hold the JSON that its job asked for? Decided in code, whoever promised it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import jsonschema_rs

from redraft.errors import Invalid

SCHEMA_CHARS_MAX = 100_000
_MISFITS_TOLD = 5
_FENCED = re.compile(r"\A```(?:json)?[ \t]*\n(.*?)\n?```\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The answer's value; it fits the schema."""

    value: Any


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why an answer does not fit, for whoever writes the next one: what is wrong, and where."""

    message: str


def check_schema(schema: Mapping[str, Any], pointer: str) -> None:
    """Refuse a schema that nothing could be checked with.

    Raises:
        Invalid: it is no JSON Schema, names another document, is too long, or describes no object
            (code `invalid_schema`).
    """
    if len(json.dumps(schema)) > SCHEMA_CHARS_MAX:
        raise Invalid.at(pointer, f"The schema has more than {SCHEMA_CHARS_MAX} characters.", "invalid_schema")
    if schema.get("type") != "object":
        raise Invalid.at(pointer, 'The schema must be of "type": "object": providers take no other.', "invalid_schema")
    try:
        _validator(schema)
    except (ValueError, RecursionError) as error:
        words = str(error).split("\n", 1)[0]
        raise Invalid.at(pointer, f"This is no usable JSON Schema: {words}", "invalid_schema") from error


def read_answer(answer: str, schema: Mapping[str, Any]) -> Parsed | Misfit:
    """The value of an answer that is JSON, bare or in one fence, and fits. Never raises for an answer."""
    text = answer.strip().removeprefix("\ufeff").strip()
    fenced = _FENCED.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return Misfit(f"The answer is not JSON{where}: write one JSON object and nothing else.")
    validator = _validator(schema)
    fitting = next((each for each in (value, _without_empty(value, schema, schema)) if validator.is_valid(each)), None)
    if fitting is not None:
        return Parsed(fitting)
    wrong = [_told(error) for error in islice(validator.iter_errors(value), _MISFITS_TOLD)]
    return Misfit("The answer does not fit its schema: " + "; ".join(wrong))


def _without_empty(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """Without the nulls of optional properties: strict dialects know no optional ones, only nullable ones."""
    schema = _resolved(schema, root)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        known: Mapping[str, Any] = schema.get("properties") or {}
        required: Sequence[str] = schema.get("required") or ()
        return {
            name: _without_empty(member, known.get(name), root)
            for name, member in members.items()
            if member is not None or name in required or name not in known
        }
    if isinstance(value, list):
        return [_without_empty(member, schema.get("items"), root) for member in cast("list[Any]", value)]
    return value


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, or the definition of the same document that it refers to."""
    if not isinstance(schema, Mapping):
        return {}
    known = cast("Mapping[str, Any]", schema)
    _, _, name = str(known.get("$ref", "")).rpartition("/")
    definitions: Mapping[str, Any] = root.get("$defs") or root.get("definitions") or {}
    return definitions.get(name, known) if name else known


def _validator(schema: Mapping[str, Any]) -> Any:
    """Patterns by an engine of linear time, and no document from anywhere else."""
    options = jsonschema_rs.RegexOptions()
    return jsonschema_rs.validator_for(cast("Any", dict(schema)), offline=True, pattern_options=options)


def _told(error: jsonschema_rs.ValidationError) -> str:
    place = "/" + "/".join(str(part) for part in error.instance_path)
    return f"{error.message[:200]} (at {place})"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")
