"""Clean texts and JSON values for storage, fold white space, and cut texts at visible characters."""

import math
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, cast

import unicode_segmentation_rs as segmentation
from pydantic_core import to_jsonable_python

# Deeper JSON is cut off, because neither `json` nor the databases read it back safely.
NESTING_MAX = 200
# Python refuses to format integers of more than 4300 digits. Integers of 14,000 bits have fewer digits.
_INTEGER_BITS_MAX = 14_000
# The longest visible character that a cut keeps whole, in code points. An emoji of a family has about ten.
_CHARACTER_MAX = 100

_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]")
_OTHER_BLANKS = str.maketrans("\v\f", "  ")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """Return a text that the databases can store. PostgreSQL rejects U+0000, and UTF-8 cannot encode lone surrogates.

    This removes the C0 controls except tab, newline and carriage return. Vertical tab and form feed become spaces,
    because they separate words. Lone surrogates become U+FFFD, and split pairs are joined.
    """
    if text.isascii() and text.isprintable():
        return text  # the fast path for nearly all texts of a row
    text = _CONTROLS.sub("", text.translate(_OTHER_BLANKS))
    if _SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_json(value: Any) -> Any:
    """Make a JSON value storable, keys included. The result is strict JSON.

    Numbers that JSON cannot represent (NaN, infinities, integers of thousands of digits) become None, as do values
    nested deeper than `NESTING_MAX`. Other objects become what `to_json` writes for them, or else their text.
    """
    return _clean_value(value, NESTING_MAX)


def _clean_value(value: Any, levels: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _INTEGER_BITS_MAX else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value).items()
        return {_clean_key(key): _clean_value(member, levels - 1) for key, member in members} if levels else None
    if isinstance(value, list | tuple):
        return [_clean_value(member, levels - 1) for member in cast("list[Any]", value)] if levels else None
    # `str.__str__` returns the value of an enumeration, and not its name
    is_text = isinstance(value, str)
    return clean(str.__str__(value)) if is_text else _clean_value(_as_json(value, str(value)), levels)


def _clean_key(key: Any) -> str:
    if isinstance(key, str):
        return clean(str.__str__(key))
    return clean(next(iter(_as_json({key: None}, {str(key): None}))))


def _as_json(value: Any, otherwise: Any) -> Any:
    try:
        return to_jsonable_python(value, inf_nan_mode="null")
    except (TypeError, ValueError):
        return otherwise


def fold(text: str) -> str:
    """Replace each run of white space by one space and strip the ends, for the comparison of answers."""
    return " ".join(text.split())


def preview(text: str, chars: int) -> str:
    """Return the first `chars` characters and `…`, or the whole text if it is short enough.

    The cut never splits a grapheme, such as a letter with an accent.
    """
    if len(text) <= chars:
        return text
    # The library rejects surrogates. So a first half is replaced by a sign that joins the next character, and a second
    # half by a sign that joins the previous one.
    head = _SURROGATES.sub(
        lambda half: "\u0600" if half[0] < "\udc00" else "\u0301", text[: max(chars, 0) + _CHARACTER_MAX]
    )
    ends = accumulate(map(len, segmentation.graphemes(head, True)), initial=0)
    return text[: max(end for end in ends if end <= max(chars, 0))] + "…"
