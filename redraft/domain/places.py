"""Where a body is wrong, and in what words: from pydantic's errors to JSON Pointers (RFC 6901).

An error of our own may name in its context, as `field`, the field below its location that would mend it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

_WORDS = {"extra_forbidden": "Unknown field", "missing": "This is required"}
_NO_OBJECT = frozenset({"model_type", "model_attributes_type", "dict_type"})


def place_of(error: Mapping[str, Any], body: Any) -> str:
    """The pointer for one of pydantic's errors, without the names of union branches that it mixes in.

    Only what can be followed into the body is kept, and the name of a field that is missing at its end.
    """
    field: str | Sequence[str | int] = error.get("ctx", {}).get("field", ())
    below = (field,) if isinstance(field, str) else field
    path = (*error["loc"], *below)
    may_be_absent = bool(below) or error["type"] == "missing"
    parts: list[str] = []
    here: Any = body
    for depth, part in enumerate(path):
        is_absent_name = may_be_absent and depth == len(path) - 1 and isinstance(here, dict)
        if can_follow(here, part):
            here = cast("Any", here)[part]
        elif not is_absent_name:
            continue
        parts.append(str(part).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{part}" for part in parts)


def words_of(error: Mapping[str, Any]) -> str:
    """What one of pydantic's errors says to a person, without what was sent."""
    kind, words = str(error["type"]), str(error["msg"])
    if kind in _NO_OBJECT and words.startswith("Input should be"):
        return "must be an object"
    return _WORDS.get(kind, words)


def can_follow(value: Any, part: str | int) -> bool:
    """Whether a value has such a part."""
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(cast("list[Any]", value))
