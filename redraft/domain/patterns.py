r"""Regular expressions of users, on texts of models: by an engine whose time is that of pattern times text.

Both are bounded together: a pattern of some size may only search texts up to some length.

The dialect is that of JSON Schema without look-around and back-references: a search, `^` and `$` for the whole text
unless `(?m)` stands in front, `\w` and `\d` for ASCII, `\p{L}` for letters.
"""

from typing import Any, cast

import jsonschema_rs

# Bytes of a compiled pattern times bytes of a text: some ten seconds at worst.
_WORK_MAX = 10**11
_SIZE_MAX = 10_000_000


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern cannot be used; None = it can."""
    try:
        _schema_validator({"pattern": pattern}, "")
    except ValueError:
        return "is no pattern that can be used: malformed, too large, or with look-around or back-references"
    return None


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
