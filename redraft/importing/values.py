"""Narrows the types of untrusted values of JSON and YAML."""

import math
from collections.abc import Mapping
from typing import Any, cast

Fields = Mapping[str, Any]


def as_object(value: Any) -> dict[str, Any]:
    """Return an object, or an empty one for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list, or an empty one for any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def one_or_many(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value as a list of one."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
