"""A check in a few words: its kind and, where it has one, a value as text, such as `max_words` and `60`."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from redraft.domain.bodies.pointers import words_of
from redraft.domain.checks.kinds import CHECK_KINDS, KINDS_WITHOUT_VALUE, Check

_CHECK: TypeAdapter[Check] = TypeAdapter(Check)


def read_check(kind: str, text: str | None) -> Check:
    """Read a check from its kind and its value as text.

    Args:
        kind: one of the kinds of checks.
        text: its value; a range is `2..4`, `2..` or `..4`, a list and a schema are JSON. None: it has none.

    Raises:
        ValueError: there is no such check; the message continues after the kind.
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
    """Word the first validation error without its input."""
    return words_of(error.errors(include_url=False, include_input=False)[0])


def _values(kind: str, text: str | None) -> dict[str, Any]:
    read = _READERS.get(kind)
    if read is None:
        return {} if text is None else {"value": text}
    return read((text or "").strip())


def _count(text: str) -> dict[str, Any]:
    return {"value": _whole(text)}


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


def _grade(text: str) -> dict[str, Any]:
    return {"value": _number(text)}


def _amount(text: str) -> dict[str, Any]:
    return _bounds(text, _whole) if ".." in text else _count(text)


def _between(text: str) -> dict[str, Any]:
    return _bounds(text, _number)


def _bounds(text: str, read: Callable[[str], float]) -> dict[str, Any]:
    least, dots, most = (part.strip() for part in text.partition(".."))
    if not dots or not (least or most):
        raise ValueError("needs a range, such as 2..4, 2.. or ..4")
    named = {"min": least, "max": most}
    return {name: read(bound) for name, bound in named.items() if bound}


def _texts(text: str) -> dict[str, Any]:
    return {"value": _json(text, "a JSON list of texts") if text.startswith("[") else [text]}


def _schema(text: str) -> dict[str, Any]:
    return {"value": _json(text, "a JSON Schema")}


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"needs {what}") from None


_READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    **dict.fromkeys(("min_words", "max_words", "min_chars", "max_chars"), _count),
    **dict.fromkeys(("lines", "bullets"), _amount),
    **dict.fromkeys(("contains_all", "contains_any"), _texts),
    "max_grade": _grade,
    "numeric_between": _between,
    "json_schema": _schema,
}
