r"""Search texts of models for regular expressions of users, by an engine with linear time.

The product of the sizes of pattern and text is limited: the larger the pattern, the shorter the text may be.

The dialect is that of JSON Schema without look-around and back-references: a search, `^` and `$` for the whole text
unless it begins with `(?m)`, `\w` and `\d` for ASCII, `\p{L}` for letters.
"""

import re

from redraft.sandbox import schemas
from redraft.sandbox.schemas import PATTERN_BYTES_MAX, LimitExceeded

# Bytes of a compiled pattern times bytes of a text: half a second at worst.
_WORK_MAX = 5 * 10**9

_ESCAPED = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_LOOK_AROUND = re.compile(r"\(\?<?[=!]")
_BACK_REFERENCE = re.compile(r"\\(?:[1-9]|k[<{'])")
_CLASS = re.compile(r"\\[pP]\{[^{}]*\}")


def pattern_error(pattern: str) -> str | None:
    """Return why a pattern cannot be used, or None."""
    return None if is_searchable(pattern, "") else f"is no pattern that can be used: {_reason(pattern)}"


def _reason(pattern: str) -> str:
    """Guess why a pattern cannot be used, because the engine gives no reason."""
    bare = _ESCAPED.sub("", pattern)
    if _LOOK_AROUND.search(bare):
        return "it has look-around, such as (?=…) or (?<!…), which this engine does not know"
    if _BACK_REFERENCE.search(pattern.replace(r"\\", "")) or "(?P=" in bare:
        return r"it has a back-reference, such as \1, which this engine does not know"
    try:
        is_readable = schemas.is_valid({"format": "regex"}, pattern, with_formats=True)
    except (ValueError, LimitExceeded):
        is_readable = True
    if not is_readable or not all(is_searchable(each, "") for each in _CLASS.findall(pattern)):
        return "it is malformed"
    return "it is too large when compiled; write smaller repetitions"


def pattern_bytes_max(text: str) -> int:
    """Return the maximum size of a compiled pattern that may search this text."""
    return min(PATTERN_BYTES_MAX, _WORK_MAX // max(1, 2 * len(text)))


def is_searchable(pattern: str, text: str) -> bool:
    """Return whether a pattern is valid and can search a text of this length within the limits."""
    try:
        holds_match(pattern, text)
    except (ValueError, LimitExceeded):
        return False
    return True


def holds_match(pattern: str, text: str) -> bool:
    """Return whether a pattern matches somewhere in a text.

    Raises:
        ValueError: the pattern is invalid.
        LimitExceeded: the search would need too much time or memory.
    """
    return schemas.is_valid({"pattern": pattern}, text, pattern_bytes_max=pattern_bytes_max(text))


def first_matching_line(pattern: str, text: str) -> int | None:
    """Return the index of the first line that matches alone, or None if no line does or the search takes too long."""
    schema = {"items": {"not": {"pattern": pattern}}}
    try:
        found = schemas.first_errors(schema, text.split("\n"), 1, pattern_bytes_max=pattern_bytes_max(text))
    except LimitExceeded:
        return None
    return int(found[0].path[0]) if found else None
