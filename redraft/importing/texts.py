"""Fills in the plain variables of templates. Nothing is executed: other parts of a template are refused."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from redraft.domain.bodies.fields import MAX_TEXT

_VARIABLE = re.compile(r"\{\{([^{}]*)\}\}")
_PATH = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*|\[\s*(?:\d+|'[^']*'|\"[^\"]*\")\s*\])*")
_STEP = re.compile(r"[A-Za-z_$][\w$]*|\d+|'[^']*'|\"[^\"]*\"")
_OTHER = re.compile(r"\{%|\{#|\{\{")

Path = tuple[str | int, ...]


class NotCarried(Exception):  # noqa: N818 - it says what happens to a part of the source
    """A part of the source cannot be carried over. The message says why."""


def fill(template: str, value_of: Callable[[Path, str], str]) -> str:
    """Replace each `{{ variable }}`. `value_of` gets the variable's path, such as `("item", "tags", 0)`, and its text.

    Raises NotCarried if the template has filters, blocks or expressions, or if the text becomes too long.
    """
    pieces: list[str] = []
    at = 0
    for found in _VARIABLE.finditer(template):
        _ensure_plain(template[at : found.start()])
        inner = found[1].strip()
        if not _PATH.fullmatch(inner):
            raise NotCarried(f"the template has an expression that is no plain variable: {_shown(found[0])}")
        pieces += [template[at : found.start()], value_of(_path(inner), inner)]
        at = found.end()
    # Variables are found without a parser of templates, so the text around them must contain no other tags
    _ensure_plain(template[at:])
    text = "".join([*pieces, template[at:]])
    if len(text) > MAX_TEXT:
        raise NotCarried(f"the text has more than {MAX_TEXT:,} characters")
    return text


def paths_in(template: str) -> list[Path]:
    """Return the plain variables of a template. Raises NotCarried like `fill`."""
    found: list[Path] = []

    def note(path: Path, _: str) -> str:
        found.append(path)
        return ""

    fill(template, note)
    return found


def look_up(values: Any, path: Path) -> Any:
    """Return the value at a path, or None if the path does not exist."""
    for step in path:
        if isinstance(values, Mapping):
            values = cast("Mapping[Any, Any]", values).get(step)
        elif isinstance(values, list) and isinstance(step, int):
            rows = cast("list[Any]", values)
            values = rows[step] if step < len(rows) else None
        else:
            return None
    return values


def in_words(value: Any) -> str:
    """Return a value as text, as a JavaScript template would show it. Objects and lists become JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    # JavaScript has one type for all numbers, and writes 3.0 as 3
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def _path(text: str) -> Path:
    steps = _STEP.findall(text)
    return tuple(int(step) if step.isdigit() else step.strip("'\"") for step in steps)


def _ensure_plain(text: str) -> None:
    if found := _OTHER.search(text):
        raise NotCarried(f"the template has more than plain variables: {_shown(text[found.start() :])}")


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:60] + "…"
