"""How many subschemas a validator may have to try on one value: small schemas can ask for billions."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

TRIES_MAX = 1_000

_IN_PLACE_ONE = ("not", "if", "then", "else")
_IN_PLACE_MANY = ("allOf", "anyOf", "oneOf")
_TOO_MANY = TRIES_MAX + 1


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
