"""How much work a schema can ask of a validator: small schemas can ask for billions of steps.

What can be bounded without a validator is bounded here; the rest is validated in a child process with limits.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

TRIES_MAX = 1_000

# Characters of the schema with its references written out, times characters of the value: some 10 ms
_CHEAP_WORK = 10_000_000
_REFERENCE = re.compile(r"#(?:/(?:\$defs|definitions)/[^/%~]+)?")
# They name places that `referred` does not find, so that the work behind them could not be counted
_UNREAD = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
_ASIDE = ("$defs", "definitions")
_COSTLY = {
    *("pattern", "patternProperties", "format", "uniqueItems"),
    *("unevaluatedItems", "unevaluatedProperties"),
    # A tiny divisor of a large number: 0.1 ms for each, and a number has few characters
    "multipleOf",
}

_IN_PLACE_ONE = ("not", "if", "then", "else")
_IN_PLACE_MANY = ("allOf", "anyOf", "oneOf")
_TOO_MANY = TRIES_MAX + 1


def unread_reference(schema: Mapping[str, Any]) -> str | None:
    """What a schema refers by that is refused; None = it uses no other references than those that are followed."""
    for part in _parts(schema):
        for name in _UNREAD:
            if isinstance(part.get(name), str | bool):
                return f"{name} is not supported; remove it, and refer by #/$defs/NAME"
        reference = part.get("$ref")
        if isinstance(reference, str) and not _REFERENCE.fullmatch(reference):
            return f"$ref {reference[:80]!r} is not supported; write #/$defs/NAME, #/definitions/NAME or #"
    return None


def is_cheap(schema: Mapping[str, Any], value_chars: int) -> bool:
    """Whether a value of this length is validated in a moment, whatever it is."""
    # Schemas that were stored before their references were refused are used until their jobs end
    if unread_reference(schema) is not None or any(not _COSTLY.isdisjoint(part) for part in _parts(schema)):
        return False
    most = _CHEAP_WORK // max(1, value_chars)
    return _written_out(schema, schema, most, {}) <= most


def _written_out(part: Any, root: Mapping[str, Any], most: int, known: dict[int, int]) -> int:
    """The length of a part with its references replaced by what they refer to; `most` + 1 when it is longer."""
    if not isinstance(part, Mapping | list):
        return len(part) + 1 if isinstance(part, str) else 1
    if (length := known.get(id(cast("Any", part)))) is not None:
        return length
    # A part that contains itself is met again before its length is known
    known[id(cast("Any", part))] = most + 1
    total = 1
    for each in _contents(cast("Any", part), root):
        total += _written_out(each, root, most, known)
        if total > most:
            return most + 1
    known[id(cast("Any", part))] = total
    return total


def _contents(part: Mapping[str, Any] | list[Any], root: Mapping[str, Any]) -> Iterator[Any]:
    if isinstance(part, list):
        yield from part
        return
    for name, value in part.items():
        yield name
        if name == "$ref" and isinstance(value, str):
            yield referred(value, root)
        elif part is not root or name not in _ASIDE:
            yield value


def tries_too_much(schema: Mapping[str, Any]) -> bool:
    """Whether some part of a schema tries more than `TRIES_MAX` subschemas on one value, or itself without end."""
    costs: dict[int, int] = {}
    return any(_cost(part, schema, costs) > TRIES_MAX for part in _parts(schema))


def _cost(part: Mapping[str, Any], root: Mapping[str, Any], costs: dict[int, int]) -> int:
    known = costs.get(id(part))
    if known is not None:
        return known
    # Whoever meets it again before its cost is known has gone round in a circle
    costs[id(part)] = _TOO_MANY
    cost = 1
    for other in _tried_on_the_same_value(part, root):
        cost = min(_TOO_MANY, cost + _cost(other, root, costs))
    costs[id(part)] = cost
    return cost


def _tried_on_the_same_value(part: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in _IN_PLACE_MANY:
        members = part.get(name)
        yield from _mappings(members if isinstance(members, list) else [])
    yield from _mappings(part.get(name) for name in _IN_PLACE_ONE)
    dependent = part.get("dependentSchemas")
    yield from _mappings(cast("dict[str, Any]", dependent).values() if isinstance(dependent, Mapping) else [])
    for name in ("$ref", "$dynamicRef"):
        if isinstance(part.get(name), str):
            yield from _mappings([referred(str(part[name]), root)])


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    """Everything in a schema that may be a subschema."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        yield members
        for member in members.values():
            yield from _parts(member)
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from _parts(member)


def _mappings(values: Any) -> Iterator[Mapping[str, Any]]:
    return (cast("Mapping[str, Any]", value) for value in values if isinstance(value, Mapping))


def referred(pointer: str, root: Mapping[str, Any]) -> Any:
    """What a reference within a schema points to; None when there is nothing."""
    place: Any = root
    for part in pointer.removeprefix("#").split("/")[1:]:
        place = (
            cast("Mapping[str, Any]", place).get(part.replace("~1", "/").replace("~0", "~"))
            if isinstance(place, Mapping)
            else None
        )
    return place
