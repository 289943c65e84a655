"""Validate structured answers in code, because not every provider keeps its promise of structured output."""

import json
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jsonschema_rs

from redraft.domain.structured.patterns import pattern_bytes_max
from redraft.domain.structured.schema_costs import TRIES_MAX, is_cheap, referred, tries_too_much, unread_reference
from redraft.domain.text.cleaning import clean_json
from redraft.errors import Invalid
from redraft.sandbox import schemas
from redraft.sandbox.schemas import LimitExceeded, Misplaced

SCHEMA_CHARS_MAX = 100_000
_MISFITS_TOLD = 5
# Of Python, below a second
_STEPS_MAX = 1_000_000
_FENCED = re.compile(r"\A```(?:json)?[ \t]*\r?\n(.*?)\r?\n?```\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The answer's value; it fits the schema."""

    value: Any


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why an answer does not fit the schema: the validation errors with their places, as feedback."""

    message: str


def check_schema(schema: Mapping[str, Any], pointer: str) -> None:
    """Check that a schema can be used.

    Raises:
        Invalid: it is no JSON Schema, names another document, or is too long or too expensive
            (code `invalid_schema`).
    """
    fault = schema_fault(schema)
    if fault is not None:
        raise Invalid.at(pointer, fault, "invalid_schema")


def schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Return why a schema cannot be used, or None."""
    try:
        words = _limit_passed(schema)
        if words is None:
            _is_valid(schema, None, 1, "")
    except LimitExceeded as limit:
        words = f"The schema is too expensive to use: it takes {limit}. Write fewer or smaller patterns."
    except (ValueError, RecursionError) as error:
        reason = str(error).split("\n", 1)[0]
        words = f"This is no usable JSON Schema: {reason}"
    return words


def _limit_passed(schema: Mapping[str, Any]) -> str | None:
    if len(json.dumps(schema)) > SCHEMA_CHARS_MAX:
        return f"The schema has more than {SCHEMA_CHARS_MAX} characters."
    if clean_json(schema) != schema:
        return "The schema holds control characters, numbers or a depth that cannot be stored; remove them."
    if (reference := unread_reference(schema)) is not None:
        return f"The schema's {reference}."
    if tries_too_much(schema):
        return f"The schema tries more than {TRIES_MAX} alternatives on one value, or itself: make it simpler."
    return None


def read_json(answer: str, wanted: str = "value") -> Parsed | Misfit:
    """Parse an answer that is JSON, with or without a fence. Never raises for an answer."""
    text = answer.strip().removeprefix("\ufeff").strip()
    fenced = _FENCED.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return Misfit(f"The answer is not JSON{where}: write one JSON {wanted} and nothing else.")
    return Parsed(value)


def json_kind(schema: Mapping[str, Any]) -> str:
    """What all that fits a schema is, in words: `object`, `array`, else `value`."""
    kind = schema.get("type")
    return kind if kind in ("object", "array") else "value"


def read_answer(answer: str, schema: Mapping[str, Any]) -> Parsed | Misfit:
    """Parse and validate an answer that is JSON, with or without a fence. Never raises for an answer."""
    read = read_json(answer, json_kind(schema))
    if isinstance(read, Misfit):
        return read
    try:
        return _fitted(read.value, schema)
    except (ValueError, RecursionError):
        words = "half characters, nesting without end, or more text than the schema's patterns can search"
        return Misfit(f"The answer holds what cannot be checked: {words}.")


def _fitted(value: Any, schema: Mapping[str, Any]) -> Parsed | Misfit:
    # Half characters fit nowhere, whatever the schema says
    chars = len(json.dumps(value, ensure_ascii=False).encode())
    longest = max(_strings(value), key=len, default="")
    try:
        if _is_valid(schema, value, chars, longest):
            return Parsed(value)
        without_empty = _Nulls(schema).without(value, (schema,))
        if without_empty != value and _is_valid(schema, without_empty, chars, longest):
            return Parsed(without_empty)
    except LimitExceeded as limit:
        return Misfit(f"The answer cannot be checked against its schema, which takes {limit}: make it simpler.")
    try:
        found = schemas.first_errors(schema, value, _MISFITS_TOLD, pattern_bytes_max=pattern_bytes_max(longest))
    except LimitExceeded as limit:
        return Misfit(f"The answer does not fit its schema; to say where takes {limit}: make it simpler.")
    return Misfit("The answer does not fit its schema: " + "; ".join(map(_told, found)))


def _is_valid(schema: Mapping[str, Any], value: Any, chars: int, longest: str) -> bool:
    """Validate in this process only if it is cheap, because the validator blocks all other threads."""
    if is_cheap(schema, chars):
        return bool(jsonschema_rs.validator_for(cast("Any", dict(schema)), offline=True).is_valid(value))
    return schemas.is_valid(schema, value, pattern_bytes_max=pattern_bytes_max(longest))


class _Nulls:
    """Removes the nulls of optional properties: strict dialects know no optional ones, only nullable ones."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._seen: dict[tuple[int, ...], _Members] = {}
        self._steps = 0

    def without(self, value: Any, schemas: Sequence[Any]) -> Any:
        """The value without them, where it may be meant by any of the schemas.

        Raises:
            LimitExceeded: schemas and value together ask for too many steps.
        """
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
        """Read once for each choice of schemas."""
        self._count(len(schemas))
        key = tuple(map(id, schemas))
        if key not in self._seen:
            known: dict[str, list[Any]] = {}
            items: list[Any] = []
            kept: set[str] = set()
            for branch in self._branches(schemas):
                properties, required = _mapping(branch.get("properties")), branch.get("required") or ()
                for name, child in properties.items():
                    known.setdefault(name, []).append(child)
                kept |= {name for name in required if self._takes_null(properties.get(name, True))}
                items += [branch["items"]] if "items" in branch else []
            self._seen[key] = _Members(known, frozenset(kept), items)
        return self._seen[key]

    def _takes_null(self, schema: Any) -> bool:
        """Whether null may be meant by a schema, as far as its types and its values say."""
        if not isinstance(schema, Mapping):
            return schema is True
        for branch in self._branches((cast("Any", schema),)):
            kind: Any = branch.get("type")
            if "null" in (kind or ()) or None in (branch.get("enum") or ()) or branch.get("const", 0) is None:
                return True
        return not schema

    def _branches(self, schemas: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        """Schemas and what they are put together from, each once, references within the document followed."""
        waiting, met = deque(schemas), set[int]()
        while waiting:
            known = _mapping(waiting.popleft())
            if id(known) in met:
                continue
            met.add(id(known))
            self._count(1)
            yield known
            if "$ref" in known:
                waiting.append(referred(str(known["$ref"]), self._root))
            for name in ("allOf", "anyOf", "oneOf"):
                waiting.extend(cast("list[Any]", known.get(name) or []))

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _STEPS_MAX:
            raise LimitExceeded(f"more than {_STEPS_MAX:,} steps")


@dataclass(frozen=True, slots=True)
class _Members:
    """The schemas of properties and items by name, and the properties whose null may be meant."""

    known: Mapping[str, Sequence[Any]]
    kept: frozenset[str]
    items: Sequence[Any]


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


def _told(error: Misplaced) -> str:
    return f"{error.message} (at /{'/'.join(map(str, error.path))})"


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is larger than any number")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")
