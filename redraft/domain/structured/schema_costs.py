"""Estimate the work of validation by a schema, because a small schema can cause billions of steps.

Cheap schemas are validated in this process, and all others in a child process with limits.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

TRIES_MAX = 1_000

# Work is the length of the schema with expanded references, times the length of the value. This much takes about 10 ms.
_CHEAP_WORK = 10_000_000
_REFERENCE = re.compile(r"#(?:/(?:\$defs|definitions)/[^/%~]+)?")
# `referred` does not follow these references, so their work could not be estimated.
_UNREAD = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
_ASIDE = ("$defs", "definitions")
_COSTLY = {
    *("pattern", "patternProperties", "format", "uniqueItems"),
    *("unevaluatedItems", "unevaluatedProperties"),
    # A tiny divisor of a large number takes 0.1 ms, and numbers have few characters.
    "multipleOf",
}


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty object."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def unread_reference(schema: Mapping[str, Any]) -> str | None:
    """Return why a reference in a schema is refused, or None."""
    for part in _parts(schema):
        for name in _UNREAD:
            if isinstance(part.get(name), str | bool):
                return f"{name} is not supported; remove it, and refer by #/$defs/NAME"
        reference = part.get("$ref")
        if isinstance(reference, str) and not _REFERENCE.fullmatch(reference):
            return f"$ref {reference[:80]!r} is not supported; write #/$defs/NAME, #/definitions/NAME or #"
    return None


def is_cheap(schema: Mapping[str, Any], value_chars: int) -> bool:
    """Return whether any value of this length is validated within milliseconds."""
    # Jobs may still use schemas that were stored before such references were refused.
    if unread_reference(schema) is not None or any(not _COSTLY.isdisjoint(part) for part in _parts(schema)):
        return False
    most = _CHEAP_WORK // max(1, value_chars)
    return _length(schema, schema, most, {}) <= most


def _length(part: Any, root: Mapping[str, Any], most: int, known: dict[int, int]) -> int:
    """Return the length of a part with its references expanded, or `most` + 1 if it is longer."""
    if isinstance(part, str):
        return len(part) + 1
    key = id(part)
    if key in known:
        return known[key]
    # If this part is reached again before its length is known, it contains itself. Then this value counts.
    known[key] = most + 1
    total = 1
    for each in _contents(part, root):
        total += _length(each, root, most, known)
        if total > most:
            return most + 1
    known[key] = total
    return total


def _contents(part: Any, root: Mapping[str, Any]) -> Iterator[Any]:
    yield from as_list(part)
    for name, value in as_mapping(part).items():
        yield name
        if name == "$ref" and isinstance(value, str):
            yield referred(value, root)
        elif part is not root or name not in _ASIDE:
            yield value


def tries_too_much(schema: Mapping[str, Any]) -> bool:
    """Return whether a part of a schema tries more than `TRIES_MAX` subschemas on one value, or refers to itself."""
    costs: dict[int, int] = {}
    return any(_cost(part, schema, costs) > TRIES_MAX for part in _parts(schema))


def _cost(part: Mapping[str, Any], root: Mapping[str, Any], costs: dict[int, int]) -> int:
    if id(part) not in costs:
        # If this part is reached again before its cost is known, it refers to itself. Then this value counts.
        costs[id(part)] = TRIES_MAX + 1
        cost = 1
        for other in _tried_on_the_same_value(part, root):
            cost = min(TRIES_MAX + 1, cost + _cost(other, root, costs))
        costs[id(part)] = cost
    return costs[id(part)]


def _tried_on_the_same_value(part: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    tried = [part.get(name) for name in ("not", "if", "then", "else")]
    tried += [member for name in ("allOf", "anyOf", "oneOf") for member in as_list(part.get(name))]
    tried += as_mapping(part.get("dependentSchemas")).values()
    tried += [referred(part[name], root) for name in ("$ref", "$dynamicRef") if isinstance(part.get(name), str)]
    return (cast("Mapping[str, Any]", each) for each in tried if isinstance(each, Mapping))


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield everything in a schema that may be a subschema."""
    if isinstance(value, Mapping):
        yield cast("Mapping[str, Any]", value)
    for member in (*as_mapping(value).values(), *as_list(value)):
        yield from _parts(member)


def referred(pointer: str, root: Mapping[str, Any]) -> Any:
    """Return the target of a reference within a schema, or None if the target does not exist."""
    target: Any = root
    for part in pointer.removeprefix("#").split("/")[1:]:
        target = as_mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
    return target
