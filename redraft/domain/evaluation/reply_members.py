"""Convert members of a model's reply to plain values, even if they are nested, misspelt or paraphrased."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from redraft.domain.evaluation.json_extraction import UnreadableError
from redraft.domain.evaluation.scores import describe
from redraft.domain.text.cleaning import clean, fold

_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NO_SUGGESTION = frozenset({"", "none", "n/a", "null", "nothing", "no suggestions", "false", "-"})
_BULLET = re.compile(r"\A\s*(?:[-*\u2022\u2013]|\d{1,2}[.)])\s+")
_TEXT_DEPTH_MAX = 20
# Longer keys are not cached, because a model can write any key
_SHORT_KEY_CHARS = 40


def strict_flag(name: str, value: object) -> bool:
    """Read a boolean; raises UnreadableError for anything else."""
    flag = flag_of(value) if isinstance(value, bool | str) else None
    if flag is None:
        raise UnreadableError("invalid_score", f"{name} is {describe(value)}, not true or false.")
    return flag


def flag_of(value: object) -> bool | None:
    return _FLAGS.get(text_of(value).strip().lower())


def plain(key: str) -> str:
    return _plain(key) if len(key) <= _SHORT_KEY_CHARS else _plain.__wrapped__(key)


@lru_cache(maxsize=1000)
def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def plain_members(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {}
    return {plain(key): member for key, member in cast("Mapping[str, Any]", value).items()}


def sentence_of(value: object) -> str:
    """Return a value as text. The text is empty for words that mean "nothing", such as "none"."""
    text = text_of(value)
    return "" if fold(text).lower().rstrip(".") in _NO_SUGGESTION else text


def texts_of(value: Any) -> tuple[str, ...]:
    """Return the texts of a list, or of a text with bullets."""
    if isinstance(value, str):
        lines = [line for line in value.splitlines() if line.strip()]
        is_list = len(lines) > 1 and all(map(_BULLET.match, lines))
        value = [_BULLET.sub("", line) for line in lines] if is_list else value
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return tuple(filter(None, map(sentence_of, items)))


def text_of(value: Any, depth_left: int = _TEXT_DEPTH_MAX) -> str:
    """Return a value as plain text. Nested members become lines; those nested too deeply are omitted."""
    if value is None or depth_left == 0:
        return ""
    if isinstance(value, str):
        return _without_controls(value)
    if isinstance(value, list):
        return "\n".join(text_of(item, depth_left - 1) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return "\n".join(f"{clean(key)}: {text_of(member, depth_left - 1)}" for key, member in members.items())
    return describe(value)


def _without_controls(text: str) -> str:
    r"""Restore the LaTeX that JSON decoding breaks: `"\frac"` is valid JSON for a form feed before "rac"."""
    letters = {"\b": r"\b", "\f": r"\f", "\r": r"\r"}
    text = re.sub("[\b\f\r](?=[A-Za-z])", lambda match: letters[match[0]], text.replace("\r\n", "\n"))
    return clean(text.replace("\r", "\n"))
