r"""Regular expressions of users, on texts of models: by an engine whose time is that of pattern times text.

Both are bounded together: a pattern of some size may only search texts up to some length.

The dialect is that of JSON Schema without look-around and back-references: a search, `^` and `$` for the whole text
unless `(?m)` stands in front, `\w` and `\d` for ASCII, `\p{L}` for letters.
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


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern cannot be used; None = it can."""
    try:
        holds_match(pattern, "")
    except (ValueError, LimitExceeded):
        return f"is no pattern that can be used: {_reason(pattern)}"
    return None


def _reason(pattern: str) -> str:
    """Return why a pattern cannot be used. The engine gives no reason, and parses some unusable patterns."""
    bare = _ESCAPED.sub("", pattern)
    if _LOOK_AROUND.search(bare):
        return "it has look-around, such as (?=…) or (?<!…), which this engine does not know"
    if _BACK_REFERENCE.search(pattern.replace(r"\\", "")) or "(?P=" in bare:
        return r"it has a back-reference, such as \1, which this engine does not know"
    try:
        is_readable = schemas.is_valid({"format": "regex"}, pattern, with_formats=True)
    except (ValueError, LimitExceeded):
        is_readable = True
    if not is_readable or not all(map(_is_usable, _CLASS.findall(pattern))):
        return "it is malformed"
    return "it is too large when compiled; write smaller repetitions"


def _is_usable(pattern: str) -> bool:
    return is_searchable(pattern, "")


def pattern_bytes_max(text: str) -> int:
    """How large a pattern may be, when compiled, that is to search this text or a part of it."""
    return min(PATTERN_BYTES_MAX, _WORK_MAX // max(1, 2 * len(text)))


def is_searchable(pattern: str, text: str) -> bool:
    """Whether a pattern that can be used can be searched for in a text this long, within the limits of a child."""
    try:
        holds_match(pattern, text)
    except (ValueError, LimitExceeded):
        return False
    return True


def holds_match(pattern: str, text: str) -> bool:
    """Whether a pattern matches somewhere in a text.

    Raises:
        ValueError: the pattern is invalid.
        LimitExceeded: the search would need too much time or memory.
    """
    return schemas.is_valid({"pattern": pattern}, text, pattern_bytes_max=pattern_bytes_max(text))


def first_matching_line(pattern: str, text: str) -> int | None:
    """The index of the first line that matches on its own; None also where that takes too long to find."""
    schema = {"items": {"not": {"pattern": pattern}}}
    try:
        found = schemas.first_errors(schema, text.split("\n"), 1, pattern_bytes_max=pattern_bytes_max(text))
    except LimitExceeded:
        return None
    return int(found[0].path[0]) if found else None
