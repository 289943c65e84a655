"""Parse and write the text form of rubrics: one criterion per line, or JSON if lines cannot express the rubric.

A line is a statement that is true of a good answer: `Names the river.` It may begin with prefixes, in this order: `!`
for a required criterion, `#name` for its id, `*2` for its weight, `scale:` for levels from 0 to 5. A check is written
as its kind and value, `max_words=60` or `is_json`, optionally with ` -- ` and a statement after it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from redraft.domain.checks.any_check import CHECK_KINDS, KINDS_WITHOUT_VALUE, Check
from redraft.domain.checks.shorthand import misread_check, read_check
from redraft.domain.evaluation.rubrics import CRITERIA_MAX, Criterion, Rubric
from redraft.domain.jobs.drafts import kebab, unused_id

_RUBRIC: TypeAdapter[list[Criterion]] = TypeAdapter(Rubric)
_BULLET = re.compile(r"^[-•]\s+")
_LINE = re.compile(
    r"(?P<required>!\s*)?(?:#(?P<id>\S+)\s+)?(?:\*\s?(?P<weight>-?\d+(?:\.\d+)?)\s+)?(?P<scale>scale:\s*)?(?P<statement>.*)",
    re.DOTALL,
)
_SHOWN_CHARS = 80
_CHECK = re.compile(r"(?P<kind>[a-z_-]+)\s*(?:(?P<equals>=)(?P<value>.*?))?(?:\s--\s+(?P<text>.*))?", re.DOTALL)


def read_rubric(text: str) -> list[Any] | None:
    """Read criteria as plain values; the request validates them. Return None for an empty text.

    Raises:
        ValueError: a line or the JSON cannot be read; the message names the place.
    """
    text = text.strip()
    if text[:1] in {"[", "{"}:
        return _read_json(text)
    lines = _lines(text)
    # The limit comes before the parsing, because each new id is compared with all earlier ids.
    if len(lines) > CRITERIA_MAX:
        raise ValueError(f"{len(lines):,} lines are {len(lines):,} criteria; {CRITERIA_MAX} at most")
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(_criterion(line, [each["id"] for each in found]))
        except ValueError as error:
            raise ValueError(f"criterion {number}, {line[:_SHOWN_CHARS]!r}: {error}") from None
    return found or None


def _lines(text: str) -> list[str]:
    return [_BULLET.sub("", line.strip()) for line in text.splitlines() if line.strip()]


def _read_json(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not JSON: {error}") from None
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _criterion(line: str, taken: Sequence[str]) -> dict[str, Any]:
    parts = _LINE.fullmatch(line)
    if parts is None:
        raise ValueError("it cannot be read")
    statement = parts["statement"].strip()
    if not statement:
        raise ValueError("it has no statement about the answer")
    check = None if parts["scale"] else _check(statement)
    if check is None and not parts["scale"] and (misread := misread_check(statement)):
        raise ValueError(misread)
    own = check or {"text": statement, "kind": "scale" if parts["scale"] else "binary"}
    name = parts["id"] or unused_id(kebab(own.get("text") or own["check"]["kind"]), taken)
    marks: dict[str, Any] = {"required": True} if parts["required"] else {}
    if parts["weight"]:
        marks["weight"] = float(parts["weight"])
    return {"id": name, **own, **marks}


def _check(statement: str) -> dict[str, Any] | None:
    """Return the check that a line names, or None."""
    found = _CHECK.fullmatch(statement)
    kind = found["kind"].replace("-", "_") if found else ""
    if found is None or kind not in CHECK_KINDS or (not found["equals"] and kind not in KINDS_WITHOUT_VALUE):
        return None
    check = read_check(kind, found["value"] if found["equals"] else None)
    text = {"text": found["text"].strip()} if found["text"] else {}
    return {**text, "kind": "check", "check": check.model_dump(mode="json", exclude_none=True)}


def write_rubric(rubric: Sequence[Any]) -> str:
    """Write a rubric as lines if they can express all of it, else as JSON."""
    try:
        criteria = _RUBRIC.validate_python(list(rubric))
        lines = "\n".join(_line(criterion) for criterion in criteria)
        # A text may look like a prefix or a check, so only reading the lines shows whether they mean the same rubric
        if _RUBRIC.validate_python(read_rubric(lines)) == criteria:
            return lines
    except (ValidationError, ValueError):
        criteria = []
    plain = [each.model_dump(mode="json", exclude_defaults=True, exclude_none=True) for each in criteria]
    return json.dumps(plain or list(rubric), ensure_ascii=False, indent=2)


def _line(criterion: Criterion) -> str:
    statement = criterion.text if criterion.check is None else _written(criterion.check, criterion.text)
    usual_id = kebab(criterion.text or (criterion.check.kind if criterion.check else ""))
    shown = [
        "!" if criterion.required else "",
        "" if criterion.id == usual_id else f"#{criterion.id}",
        f"*{criterion.weight:g}" if criterion.weight != 1 else "",
        f"scale: {statement}" if criterion.kind == "scale" else statement,
    ]
    return " ".join(part for part in shown if part)


def _written(check: Check, text: str) -> str:
    fields: Mapping[str, Any] = check.model_dump(mode="json", exclude_none=True)
    words = f" -- {text}" if text else ""
    if "min" in fields or "max" in fields:
        return f"{fields['kind']}={fields.get('min', '')}..{fields.get('max', '')}{words}"
    if "value" not in fields:
        return f"{fields['kind']}{words}"
    value = fields["value"]
    return f"{fields['kind']}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}{words}"
