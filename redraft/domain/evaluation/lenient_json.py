"""Read JSON as models write it: valid, or repaired if it is almost valid. No value is invented."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Self, cast


class JsonObject(dict[str, Any]):
    """A JSON object that records which of its keys were repeated with different values."""

    def __init__(self, members: Any = (), repeated: Iterable[str] = (), times: Counter[str] | None = None) -> None:
        super().__init__(members)
        self.repeated = frozenset(repeated)
        # The number of occurrences of each name in the text, at any depth. Only repaired objects have these counts,
        # because json-repair drops repeated keys.
        self.times = times or Counter[str]()

    @classmethod
    def repaired(cls, members: dict[str, Any], times: Counter[str]) -> Self:
        return cls(members, (key for key in members if times[key.strip()] > 1), times)


def load_json(source: str, *, strict: bool = True) -> Any:
    """Return the JSON value of a text, or None if it is no JSON or nested too deeply."""
    try:
        return json.loads(source, object_pairs_hook=_object_of, parse_int=_integer, strict=strict)
    except (ValueError, RecursionError):
        return None


def _object_of(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = JsonObject(pairs)
    if len(value) < len(pairs):
        value.repeated = frozenset(
            key for key, member in pairs if (type(member), member) != (type(value[key]), value[key])
        )
    return value


def _integer(digits: str) -> float:
    # Python raises ValueError for integers of more than 4300 digits.
    return int(digits) if len(digits) < 400 else float(digits)


_TRIPLE_QUOTED = re.compile(r'"""(?P<text>.*?)"""', re.DOTALL)
# A backslash that begins no JSON escape, as in \alpha.
_ESCAPE = re.compile(r'\\(?P<known>u[0-9a-fA-F]{4}|["\\/bfnrt])|\\')


def repair_json(source: str) -> JsonObject | None:
    """Repair an almost valid text and return its object, or None if the repair fails."""
    source = _TRIPLE_QUOTED.sub(lambda match: json.dumps(match["text"], ensure_ascii=False), source)
    escaped = _ESCAPE.sub(lambda match: match[0] if match["known"] else r"\\", source)
    if isinstance(value := load_json(escaped, strict=False), JsonObject):
        return value
    import json_repair

    try:
        value = json_repair.repair_json(source, return_objects=True, skip_json_loads=True)
        return _verified(value, source) if isinstance(value, dict) else None
    except Exception:  # noqa: BLE001 - a repairer that fails on a text must not fail the job
        return None


_NAMED = re.compile(
    r"""(?:["'“”]|[{,]\s*+)(?P<key>\w[\w -]{0,59}?)["'“”]?\s{0,9}:"""
    r"""(?:\s{0,9}(?P<number>[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?+)"""
    r"""(?=[ \t]{0,9}(?:[,}\]\r\n#]|/[/*]|$)))?"""
)


def _verified(value: dict[str, Any], source: str) -> JsonObject | None:
    """Return the repaired object, or None if it has a number that is not in the source."""
    # json-repair invents numbers: it reads 1/10 as 1.
    members = list(_NAMED.finditer(source))
    written = {(member["key"].strip(), float(member["number"])) for member in members if member["number"]}
    if not written.issuperset(_numbers(value)):
        return None
    return JsonObject.repaired(value, Counter(member["key"].strip() for member in members))


def _numbers(value: Any, key: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, member in cast("dict[str, Any]", value).items():
            yield from _numbers(member, name.strip())
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from _numbers(member)
    elif isinstance(value, int | float) and not isinstance(value, bool) and key:
        yield key, value
