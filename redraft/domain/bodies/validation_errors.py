"""Convert pydantic's validation errors to JSON Pointers (RFC 6901) and plain words.

Errors of our own validators may have `field` in their context. It names the field below the error's location that the
user has to change.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

_PLAIN = {
    "extra_forbidden": "Unknown field",
    "missing": "This is required",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing"),
        "must be a date, or a time with its zone, such as 2026-11-28 or 2026-11-28T12:00:00Z",
    ),
    "timezone_aware": "must name its time zone, such as 2026-11-28T12:00:00Z",
    "string_type": "must be a text",
    "list_type": "must be a list",
}
# pydantic reports the length of an annotated text like that of a list
_OF_LENGTH = frozenset({"too_short", "too_long"})
_ID_CHARS_MAX = 64
_NO_OBJECT = frozenset({"model_type", "model_attributes_type", "dict_type"})


def pointer_of(error: Mapping[str, Any], body: Any) -> str:
    """Return the pointer of an error, without the names of union branches that pydantic adds.

    The pointer has only the parts that exist in the body, and at the end the name of a missing field.
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


def message_of(error: Mapping[str, Any], body: Any = None) -> str:
    """Return the message of an error, without the value that was sent. With `body`, it names criteria by their ids."""
    kind, words = str(error["type"]), str(error["msg"])
    if kind in _OF_LENGTH and isinstance(error.get("input"), str):
        kind = f"string_{kind}"
    if kind in _NO_OBJECT and words.startswith("Input should be"):
        words = "must be an object"
    else:
        words = _plain(kind, error.get("ctx", {})) or words
    criterion = _criterion_id(error["loc"], body)
    return words if criterion is None else f"criterion {criterion!r}: {words[:1].lower()}{words[1:]}"


def _criterion_id(location: Sequence[str | int], body: Any) -> str | None:
    """Return the id of the criterion that has the error, or None."""
    if not isinstance(body, dict) or len(location) < 2 or location[0] != "rubric":
        return None
    rubric = cast("dict[str, Any]", body).get("rubric")
    entry: Any = cast("list[Any]", rubric)[int(location[1])] if can_follow(rubric, location[1]) else None
    found: Any = cast("dict[str, Any]", entry).get("id") if isinstance(entry, dict) else None
    return found if isinstance(found, str) and len(found) <= _ID_CHARS_MAX else None


def _plain(kind: str, facts: Mapping[str, Any]) -> str | None:
    try:
        # pydantic gives bounds of floats as floats, and "at most 1.0" would read badly.
        return _PLAIN[kind].format_map(
            {name: int(v) if isinstance(v, float) and v.is_integer() else v for name, v in facts.items()}
        )
    except KeyError:
        return None


def can_follow(value: Any, part: str | int) -> bool:
    """Return whether a value has a member of this name or index."""
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(cast("list[Any]", value))
