r"""Regular expressions of users, on texts of models: by an engine whose time grows with the text, never faster.

The dialect is that of JSON Schema without look-around and back-references: a search, `^` and `$` for the whole text
unless `(?m)` stands in front, `\w` and `\d` for ASCII, `\p{L}` for letters.
"""

from typing import Any, cast

import jsonschema_rs

# A compiled pattern's bytes: with the text's length they bound the time of a search.
_SIZE_MAX = 1_000_000


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern cannot be used; None = it can."""
    try:
        _schema_validator({"pattern": pattern})
    except ValueError:
        return "is no pattern that can be used: malformed, too large, or with look-around or back-references"
    return None


def holds_match(pattern: str, text: str) -> bool:
    return bool(_schema_validator({"pattern": pattern}).is_valid(text))


def first_matching_line(pattern: str, lines: list[str]) -> int | None:
    """The index of the first line that matches on its own."""
    validator = _schema_validator({"items": {"not": {"pattern": pattern}}})
    error = next(iter(validator.iter_errors(lines)), None)
    return int(error.instance_path[0]) if error is not None else None


def _schema_validator(schema: dict[str, Any]) -> Any:
    options = jsonschema_rs.RegexOptions(size_limit=_SIZE_MAX)
    return jsonschema_rs.validator_for(cast("Any", schema), offline=True, pattern_options=options)
