"""Parse checks that are written as a kind and a value in text, such as `max_words` and `60`."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from redraft.domain.bodies.validation_errors import message_of
from redraft.domain.checks.any_check import CHECK_KINDS, KINDS_WITHOUT_VALUE, Check

_CHECK: TypeAdapter[Check] = TypeAdapter(Check)


def read_check(kind: str, text: str | None) -> Check:
    """Parse a check. A range is `2..4`, `2..` or `..4`; a list and a schema are JSON; `text` is None without a value.

    Raises:
        ValueError: the kind is unknown, or the value does not fit it; the message is the rest of a sentence after the
            kind.
    """
    if text is not None and kind in KINDS_WITHOUT_VALUE:
        raise ValueError(f"{kind} takes no value")
    if text is None and kind in CHECK_KINDS and kind not in KINDS_WITHOUT_VALUE:
        raise ValueError("needs a value")
    spec = {"kind": kind, **_values(kind, text)}
    try:
        return _CHECK.validate_python(spec)
    except ValidationError as error:
        raise ValueError(describe_error(error)) from None


def describe_error(error: ValidationError) -> str:
    """Return the message of the first validation error, without the input."""
    return message_of(error.errors(include_url=False, include_input=False)[0])


def _values(kind: str, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    value: Any = text.strip()
    match kind:
        case "lines" | "bullets" | "numeric_between" if ".." in value or kind == "numeric_between":
            return _bounds(value, _number if kind == "numeric_between" else _whole)
        case "lines" | "bullets" | "min_words" | "max_words" | "min_chars" | "max_chars":
            value = _whole(value)
        case "max_grade":
            value = _number(value)
        case "contains_all" | "contains_any":
            value = _json(value, "a JSON list of texts") if value.startswith("[") else [value]
        case "json_schema":
            value = _json(value, "a JSON Schema")
        case _:
            # White space at the ends of a text or pattern may be significant.
            value = text
    return {"value": value}


def _whole(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise ValueError("needs a whole number")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("needs a number")
    return number


def _bounds(text: str, read: Callable[[str], float]) -> dict[str, Any]:
    low, dots, high = (part.strip() for part in text.partition(".."))
    if not dots or not (low or high):
        raise ValueError("needs a range, such as 2..4, 2.. or ..4")
    return {name: read(bound) for name, bound in (("min", low), ("max", high)) if bound}


def _json(text: str, wanted: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"needs {wanted}") from None
