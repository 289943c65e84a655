"""Converts the criteria of a rubric to rows of the form, and rows to criteria."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from api.pages.new.job_form_fields import read_object
from api.pages.parts.forms import read_number
from redraft.domain.checks.any_check import CHECK_KINDS, KINDS_WITHOUT_VALUE
from redraft.domain.checks.shorthand import misread_check, read_check
from redraft.domain.jobs.drafts import kebab, unused_id

Row = Mapping[str, str]

_NUMBER_HINT = "A whole number"
_RANGE_HINT = "A number, or a range such as 2..4, 2.. or ..4"
_LIST_HINT = "One text per line"
_LISTS = ("contains_all", "contains_any", "not_contains")
# The hint of the value of each kind of check, and the keyboard of a phone for it
VALUES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("min_words", "max_words", "min_chars", "max_chars"), (_NUMBER_HINT, "numeric")),
    **dict.fromkeys(("lines", "bullets", "numeric_between"), (_RANGE_HINT, "text")),
    **dict.fromkeys(_LISTS, (_LIST_HINT, "text")),
    **dict.fromkeys(("regex", "not_regex"), ("A regular expression", "text")),
    **dict.fromkeys(("contains", "starts_with", "ends_with", "equals"), ("A text", "text")),
    **dict.fromkeys(("http", "package"), ("The name of the check in the settings", "text")),
    "max_grade": ("Years of school", "decimal"),
    "language": ("ISO 639-1, such as en", "text"),
    "json_schema": ("A JSON Schema", "text"),
}
KINDS = [
    ("binary", "yes or no"),
    ("scale", "scale, 0 to 5"),
    *((kind, kind.replace("_", " ")) for kind in CHECK_KINDS),
]
FLAGS = [("", "counts"), ("required", "required"), ("hidden", "hidden"), ("required hidden", "required, hidden")]
_CHECK_ERROR = "{kind}: {error}"


class RowError(ValueError):
    """An error in a part of a row."""

    def __init__(self, part: str, words: str) -> None:
        super().__init__(words)
        self.part = part
        self.words = words


def criterion_of(row: Row, taken: Sequence[str]) -> dict[str, Any]:
    """Convert a row to a criterion. `taken` has the ids of the criteria before it. Raises RowError."""
    kind, text = row["kind"] or "binary", row["text"].strip()
    found: dict[str, Any] = {"id": row["id"].strip() or unused_id(kebab(text or kind), taken)}
    if text:
        found["text"] = text
    if kind in CHECK_KINDS:
        found |= {"kind": "check", "check": _check(kind, row)}
    else:
        found |= {"kind": kind, "text": text}
        if kind == "binary" and (words := misread_check(text)):
            raise RowError("text", words)
    if kind == "scale" and row["anchors"].strip():
        found["anchors"] = _anchors(row["anchors"])
    if row["weight"].strip():
        found["weight"] = read_number(row["weight"])
    return found | {name: True for name in ("required", "hidden") if name in row["flags"].split()}


def _check(kind: str, row: Row) -> dict[str, Any]:
    value = row["value"].strip("\n")
    lines = [line.strip() for line in value.splitlines() if line.strip()]
    more: Any = _more(row["more"])
    if "value" in more:
        return {"kind": kind, **more}
    if kind in _LISTS and len(lines) > 1:
        return {"kind": kind, "value": lines, **more}
    try:
        # If a user has changed the kind of a row, the row can still have the value of the earlier kind
        check = read_check(kind, value if value.strip() and kind not in KINDS_WITHOUT_VALUE else None)
    except ValueError as error:
        raise RowError("value", _CHECK_ERROR.format(kind=kind, error=error)) from None
    return {**check.model_dump(mode="json", exclude_none=True), **more}


def _more(text: str) -> dict[str, Any]:
    try:
        return read_object(text)
    except ValueError as error:
        raise RowError("more", str(error)) from None


def _anchors(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        level, colon, words = line.partition(":")
        if not colon:
            raise RowError("anchors", f"write each line as LEVEL: MEANING, not as {line.strip()[:80]}")
        found[level.strip()] = words.strip()
    return found


def row_of(criterion: Mapping[str, Any]) -> dict[str, str]:
    """Convert a criterion of a request to a row."""
    check: dict[str, Any] = dict(criterion.get("check") or {})
    kind = check.pop("kind", None) or criterion.get("kind", "binary")
    weight = criterion.get("weight", 1)
    flags = [name for name in ("required", "hidden") if criterion.get(name)]
    value = _take_value(kind, check)
    more = {name: each for name, each in check.items() if each not in (None, False)}
    anchors: Mapping[str, str] = criterion.get("anchors") or {}
    return {
        "kind": kind,
        "text": criterion.get("text") or "",
        "value": value,
        "weight": "" if weight == 1 else f"{weight:g}",
        "flags": " ".join(flags),
        "id": criterion.get("id") or "",
        "anchors": "\n".join(f"{level}: {words}" for level, words in anchors.items()),
        "more": json.dumps(more, ensure_ascii=False) if more else "",
    }


def _take_value(kind: str, check: dict[str, Any]) -> str:
    """Remove the value of a check, and return its text. A value that no text can express stays in the check."""
    if check.get("min") is not None or check.get("max") is not None:
        low, high = check.pop("min", None), check.pop("max", None)
        return f"{'' if low is None else f'{low:g}'}..{'' if high is None else f'{high:g}'}"
    value: Any = check.pop("value", None)
    if isinstance(value, list):
        text = "\n".join(cast("list[str]", value))
    elif isinstance(value, dict):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = "" if value is None else str(value)
    probe = {"kind": kind, "value": text, "more": ""}
    try:
        if value is None or _check(kind, probe).get("value") == value:
            return text
    except ValueError:
        pass
    check["value"] = value
    return ""
