"""Where a request is wrong: from pydantic's locations to JSON Pointers (RFC 6901)."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from fastapi.exceptions import RequestValidationError

from redraft.errors import Flaw

_POINTER_MAX = 500
_ABSENT = frozenset({"missing", "nothing_to_evaluate_by"})
_WORDS = {"extra_forbidden": "Unknown field", "missing": "This is required"}


def flaws_of(error: RequestValidationError, limit: int) -> list[Flaw]:
    """One flaw per wrong place and code, `limit` at most; none repeats what was sent."""
    flaws = (_flaw(each, error.body) for each in error.errors())
    return list(dict.fromkeys(flaws))[:limit]


def _flaw(error: Mapping[str, Any], body: Any) -> Flaw:
    place, *path = cast("Sequence[str | int]", error["loc"])
    kind = str(error["type"])
    is_in_body = place == "body"
    path = path or _field_at_fault(error)
    pointer = body_pointer(path, body, is_missing=kind in _ABSENT) if is_in_body else "/".join(map(str, (place, *path)))
    detail = _WORDS.get(kind, str(error["msg"])) if is_in_body else str(error["msg"])
    return Flaw(pointer[:_POINTER_MAX], detail, kind)


def _field_at_fault(error: Mapping[str, Any]) -> list[str | int]:
    """What is wrong with a body as a whole is told at the field that would mend it."""
    field = error.get("ctx", {}).get("field")
    return [field] if field else []


def body_pointer(path: Sequence[str | int], body: Any, *, is_missing: bool) -> str:
    """The pointer for a location, without the names of union branches that pydantic mixes in.

    Only what can be followed into the body is kept, and the name of a field that is missing at its end.
    """
    parts: list[str] = []
    here: Any = body
    for depth, part in enumerate(path):
        is_absent_name = is_missing and depth == len(path) - 1 and isinstance(here, dict)
        if can_follow(here, part):
            here = cast("Any", here)[part]
        elif not is_absent_name:
            continue
        parts.append(str(part).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{part}" for part in parts)


def can_follow(value: Any, part: str | int) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(cast("list[Any]", value))
