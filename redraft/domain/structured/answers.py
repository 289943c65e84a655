"""Validate structured answers in code, because some providers return answers that do not fit the requested schema."""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jsonschema_rs

from redraft.domain.bodies.strict_json import finite
from redraft.domain.structured.patterns import pattern_bytes_max
from redraft.domain.structured.schema_costs import (
    TRIES_MAX,
    as_list,
    as_mapping,
    is_cheap,
    referred,
    tries_too_much,
    unread_reference,
)
from redraft.domain.text.cleaning import clean_json
from redraft.errors import Invalid
from redraft.sandbox import schemas
from redraft.sandbox.schemas import LimitExceeded

SCHEMA_CHARS_MAX = 100_000
_MISMATCHES_SHOWN = 5
# These steps take less than a second.
_STEPS_MAX = 1_000_000
_FENCED = re.compile(r"\A```(?:json)?[ \t]*\r?\n(.*?)\r?\n?```\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The value of an answer that fits its schema."""

    value: Any


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The validation errors of an answer with their positions, as feedback for the generator."""

    message: str


def check_schema(schema: Mapping[str, Any], pointer: str) -> None:
    """Check that a schema can be used.

    Raises:
        Invalid: the value is no JSON Schema, refers to another document, or is too long or too expensive to use
            (code `invalid_schema`).
    """
    message = schema_error(schema)
    if message is not None:
        raise Invalid.at(pointer, message, "invalid_schema")


def schema_error(schema: Mapping[str, Any]) -> str | None:
    """Return why a schema cannot be used, or None."""
    try:
        message = _exceeded_limit(schema)
        if message is None:
            # The validation of one value compiles the schema and its patterns, so it finds their errors.
            _is_valid(schema, None, 1, "")
    except LimitExceeded as limit:
        return f"The schema is too expensive to use: it takes {limit}. Write fewer or smaller patterns."
    except (ValueError, RecursionError) as error:
        return f"This is no usable JSON Schema: {str(error).partition(chr(10))[0]}"
    return message


def _exceeded_limit(schema: Mapping[str, Any]) -> str | None:
    if len(json.dumps(schema)) > SCHEMA_CHARS_MAX:
        return f"The schema has more than {SCHEMA_CHARS_MAX} characters."
    if clean_json(schema) != schema:
        return "The schema holds control characters, numbers or a depth that cannot be stored; remove them."
    if (reference := unread_reference(schema)) is not None:
        return f"The schema's {reference}."
    if tries_too_much(schema):
        return f"The schema tries more than {TRIES_MAX} alternatives on one value, or itself: make it simpler."
    return None


def read_json(answer: str, wanted: str = "value") -> Parsed | Mismatch:
    """Parse an answer that is JSON, with or without a fence. Never raises for an answer."""
    text = answer.strip().removeprefix("\ufeff").strip()
    fenced = _FENCED.match(text)
    try:
        # `finite` refuses NaN and Infinity, which are no JSON, and numbers such as 1e999, which cannot be stored.
        value = json.loads(fenced[1] if fenced else text, parse_constant=finite, parse_float=finite)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return Mismatch(f"The answer is not JSON{where}: write one JSON {wanted} and nothing else.")
    return Parsed(value)


def json_kind(schema: Mapping[str, Any]) -> str:
    """Return the kind of value that a schema asks for: `object`, `array`, else `value`."""
    kind = schema.get("type")
    return kind if kind in ("object", "array") else "value"


def read_answer(answer: str, schema: Mapping[str, Any]) -> Parsed | Mismatch:
    """Parse and validate an answer that is JSON, with or without a fence. Never raises for an answer."""
    read = read_json(answer, json_kind(schema))
    if isinstance(read, Mismatch):
        return read
    try:
        return _fitted(read.value, schema)
    except (ValueError, RecursionError):
        words = "half characters, nesting without end, or more text than the schema's patterns can search"
        return Mismatch(f"The answer holds what cannot be checked: {words}.")


def _fitted(value: Any, schema: Mapping[str, Any]) -> Parsed | Mismatch:
    # Raises UnicodeEncodeError for half a surrogate pair, which no database can store.
    chars = len(json.dumps(value, ensure_ascii=False).encode())
    longest = max(_strings(value), key=len, default="")
    try:
        if _is_valid(schema, value, chars, longest):
            return Parsed(value)
        without_empty = _Nulls(schema).without(value, (schema,))
        if without_empty != value and _is_valid(schema, without_empty, chars, longest):
            return Parsed(without_empty)
    except LimitExceeded as limit:
        return Mismatch(f"The answer cannot be checked against its schema, which takes {limit}: make it simpler.")
    try:
        found = schemas.first_errors(schema, value, _MISMATCHES_SHOWN, pattern_bytes_max=pattern_bytes_max(longest))
    except LimitExceeded as limit:
        return Mismatch(f"The answer does not fit its schema; to say where takes {limit}: make it simpler.")
    errors = (f"{error.message} (at /{'/'.join(map(str, error.path))})" for error in found)
    return Mismatch(f"The answer does not fit its schema: {'; '.join(errors)}")


def _is_valid(schema: Mapping[str, Any], value: Any, chars: int, longest: str) -> bool:
    """Validate a value: in this process only if that is cheap, because the validator blocks all other threads."""
    if is_cheap(schema, chars):
        return bool(jsonschema_rs.validator_for(cast("Any", dict(schema)), offline=True).is_valid(value))
    return schemas.is_valid(schema, value, pattern_bytes_max=pattern_bytes_max(longest))


class _Nulls:
    """Removes the nulls of optional properties.

    In strict structured output every property is required, so the request makes optional properties nullable.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._seen: dict[tuple[int, ...], _Members] = {}
        self._steps = 0

    def without(self, value: Any, schemas: Sequence[Any]) -> Any:
        """Return the value without the nulls of optional properties. Raises LimitExceeded after too many steps."""
        if not isinstance(value, dict | list):
            return value
        members = self._members(schemas)
        if isinstance(value, list):
            return [self.without(member, members.items) for member in cast("list[Any]", value)]
        return {
            name: self.without(member, members.known.get(name, ()))
            for name, member in cast("dict[str, Any]", value).items()
            if member is not None or name in members.kept or name not in members.known
        }

    def _members(self, schemas: Sequence[Any]) -> "_Members":
        self._count(len(schemas))
        key = tuple(map(id, schemas))
        if key not in self._seen:
            known: dict[str, list[Any]] = {}
            items: list[Any] = []
            kept: set[str] = set()
            for branch in self._branches(schemas):
                properties, required = as_mapping(branch.get("properties")), branch.get("required") or ()
                for name, child in properties.items():
                    known.setdefault(name, []).append(child)
                kept |= {name for name in required if self._takes_null(properties.get(name, True))}
                items += [branch["items"]] if "items" in branch else []
            self._seen[key] = _Members(known, frozenset(kept), items)
        return self._seen[key]

    def _takes_null(self, schema: Any) -> bool:
        """Return whether a schema allows null, by `type`, `enum` or `const`."""
        if not isinstance(schema, Mapping):
            return schema is True
        for branch in self._branches((cast("Any", schema),)):
            kind: Any = branch.get("type")
            if "null" in (kind or ()) or None in (branch.get("enum") or ()) or branch.get("const", 0) is None:
                return True
        return not schema

    def _branches(self, schemas: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        """Yield these schemas, and all schemas that they combine or refer to. Each schema is yielded once."""
        waiting, met = deque(schemas), set[int]()
        while waiting:
            known = as_mapping(waiting.popleft())
            if id(known) in met:
                continue
            met.add(id(known))
            self._count(1)
            yield known
            if "$ref" in known:
                waiting.append(referred(str(known["$ref"]), self._root))
            for name in ("allOf", "anyOf", "oneOf"):
                waiting.extend(as_list(known.get(name)))

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _STEPS_MAX:
            raise LimitExceeded(f"more than {_STEPS_MAX:,} steps")


@dataclass(frozen=True, slots=True)
class _Members:
    """The schemas of properties by name and of items, and the properties whose null is kept."""

    known: Mapping[str, Sequence[Any]]
    kept: frozenset[str]
    items: Sequence[Any]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    members = as_mapping(value)
    for member in (*members, *members.values(), *as_list(value)):
        yield from _strings(member)
