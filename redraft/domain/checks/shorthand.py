"""Parse checks that are written as a kind and a value in text, such as `max_words` and `60`."""

import json
import math
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError

from redraft.domain.bodies.validation_errors import message_of
from redraft.domain.checks.any_check import CHECK_KINDS, KINDS_WITHOUT_VALUE, Check

_CHECK: TypeAdapter[Check] = TypeAdapter(Check)
# `max_wrds=60`, `max_words(60)`, `max_words 60`, `is_jsn`
_MEANT = re.compile(
    r"(?P<name>[a-z]+(?:[_-][a-z]+)*)"
    r"(?:(?P<equals>\s*=\s*)(?P<value>.*)|\((?P<argument>[^()]*)\)?|\s+(?P<number>[\d.]+))?",
    re.IGNORECASE | re.DOTALL,
)
_NAME_CHARS_MIN = 3
_NEAR = 0.75
_SHOWN_CHARS = 60
_ELSE = "If a model should evaluate it, write a sentence"


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


def misread_check(statement: str) -> str | None:
    """Return an error for a statement that is a check, or a misspelled check, and not a sentence. Else return None.

    A model would evaluate such a text as a criterion, at a cost, and nothing would show that the check is missing. A
    sentence that contains `=` is a statement.
    """
    found = _MEANT.fullmatch(statement.strip())
    if found is None:
        return None
    name = found["name"].lower().replace("-", "_")
    near = [name] if name in CHECK_KINDS else get_close_matches(name, CHECK_KINDS, 1, _NEAR)
    value = next((found[part] for part in ("value", "argument", "number") if found[part] is not None), None)
    if value is None:
        # A single word, such as `Contains`, is a check only if it is written like `is_json`
        is_meant = bool(near) and "_" in found["name"]
    elif not near:
        is_one_word = found["equals"] is not None and not re.search(r"\s", statement.strip())
        is_meant = is_one_word and len(name) >= _NAME_CHARS_MIN
    else:
        # `line = a row of text` is a definition in words
        has_words = bool(found["equals"]) and found["equals"] != "=" and " " in value.strip()
        is_meant = name in CHECK_KINDS or not has_words
    return _describe_misread(statement.strip(), name, near, value) if is_meant else None


def _describe_misread(statement: str, name: str, near: list[str], value: str | None) -> str:
    shown = ascii(statement[:_SHOWN_CHARS])
    if not near:
        words = f"{shown} is no check: the kinds are {', '.join(CHECK_KINDS)}"
    else:
        has_value = near[0] not in KINDS_WITHOUT_VALUE
        written = near[0] + (f"={ascii((value or '').strip()[:_SHOWN_CHARS])[1:-1]}" if has_value else "")
        words = f"{shown} is a check, not a statement: write it as a criterion of kind 'check', {written}"
        if name != near[0]:
            return f"{shown} is no check; did you mean {written}? {_ELSE}"
    return f"{words}. {_ELSE}"


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
