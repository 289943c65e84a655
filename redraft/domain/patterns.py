r"""Regular expressions of users, on texts of models: by an engine whose time is that of pattern times text.

Both are bounded together: a pattern of some size may only search texts up to some length.

The dialect is that of JSON Schema without look-around and back-references: a search, `^` and `$` for the whole text
unless `(?m)` stands in front, `\w` and `\d` for ASCII, `\p{L}` for letters.
"""

import re
from typing import Any, cast

import jsonschema_rs

# Bytes of a compiled pattern times bytes of a text: half a second at worst, in which no other thread runs.
_WORK_MAX = 5 * 10**9
_SIZE_MAX = 10_000_000

_ESCAPED = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_LOOK_AROUND = re.compile(r"\(\?<?[=!]")
_BACK_REFERENCE = re.compile(r"\\(?:[1-9]|k[<{'])")
_CLASS = re.compile(r"\\[pP]\{[^{}]*\}")
_READABLE: Any = cast("Any", jsonschema_rs).validator_for({"format": "regex"}, validate_formats=True, offline=True)


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern cannot be used; None = it can."""
    try:
        _schema_validator({"pattern": pattern}, "")
    except ValueError:
        return f"is no pattern that can be used: {_reason(pattern)}"
    return None


def _reason(pattern: str) -> str:
    """The engine does not tell: it reads some patterns that it cannot use."""
    bare = _ESCAPED.sub("", pattern)
    if _LOOK_AROUND.search(bare):
        return "it has look-around, such as (?=…) or (?<!…), which this engine does not know"
    if _BACK_REFERENCE.search(pattern.replace(r"\\", "")) or "(?P=" in bare:
        return r"it has a back-reference, such as \1, which this engine does not know"
    if not _READABLE.is_valid(pattern) or not all(map(_is_usable, _CLASS.findall(pattern))):
        return "it is malformed"
    return "it is too large when compiled; write smaller repetitions"


def _is_usable(pattern: str) -> bool:
    return is_searchable(pattern, "")


def pattern_options(text: str) -> jsonschema_rs.RegexOptions:
    """For patterns that are to search this text, or a part of it; a larger one is refused with ValueError."""
    return jsonschema_rs.RegexOptions(size_limit=min(_SIZE_MAX, _WORK_MAX // max(1, 2 * len(text))))


def is_searchable(pattern: str, text: str) -> bool:
    """Whether a pattern that can be used is small enough for a text this long."""
    try:
        _schema_validator({"pattern": pattern}, text)
    except ValueError:
        return False
    return True


def holds_match(pattern: str, text: str) -> bool:
    """Raises ValueError if the pattern is not searchable in the text."""
    return bool(_schema_validator({"pattern": pattern}, text).is_valid(text))


def first_matching_line(pattern: str, text: str) -> int | None:
    """The index of the first line that matches on its own."""
    validator = _schema_validator({"items": {"not": {"pattern": pattern}}}, text)
    lines = text.split("\n")
    error = next(iter(validator.iter_errors(lines)), None)
    return int(error.instance_path[0]) if error is not None else None


def _schema_validator(schema: dict[str, Any], text: str) -> Any:
    return jsonschema_rs.validator_for(cast("Any", schema), offline=True, pattern_options=pattern_options(text))
