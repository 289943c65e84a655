"""The members of a model's reply as plain values, whatever it nests, misspells or says in other words."""

import re
from collections.abc import Mapping
from typing import Any, cast

from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.scores import ScoreError, describe, read_score
from redraft.domain.text.cleaning import clean, fold

_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NO_SUGGESTION = frozenset({"", "none", "n/a", "null", "nothing", "no suggestions", "false", "-"})
_BULLET = re.compile(r"\A\s*(?:[-*\u2022\u2013]|\d{1,2}[.)])\s+")
_TEXT_DEPTH_MAX = 20


class UnreadableError(ValueError):
    """A found object that holds no verdict; carries why."""

    def __init__(self, unusable: Unusable) -> None:
        super().__init__(unusable.message)
        self.unusable = unusable


def strict_flag(what: str, value: object) -> bool:
    flag = flag_of(value) if isinstance(value, bool | str) else None
    if flag is None:
        raise UnreadableError(Unusable("invalid_score", f"{what} is {describe(value)}, not true or false."))
    return flag


def flag_of(value: object) -> bool | None:
    return _FLAGS.get(text_of(value).strip().lower())


def fraction_or_none(value: object) -> float | None:
    try:
        return None if value is None else read_score(value)
    except ScoreError:
        return None


def plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def plain_members(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {}
    return {plain(key): member for key, member in cast("Mapping[str, Any]", value).items()}


def sentence_of(value: object) -> str:
    """A text, or nothing where the words say that there is nothing."""
    text = text_of(value)
    return "" if _says_nothing(text) else text


def _says_nothing(text: str) -> bool:
    return fold(text).lower().rstrip(".") in _NO_SUGGESTION


def texts_of(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = _split_bullets(value)
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    texts = (text_of(item) for item in items)
    return tuple(text for text in texts if not _says_nothing(text))


def _split_bullets(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(_BULLET.match(line) for line in lines):
        return [_BULLET.sub("", line) for line in lines]
    return [text]


def text_of(value: Any, room: int = _TEXT_DEPTH_MAX) -> str:
    """A member as plain text: what models nest becomes lines."""
    if value is None or room == 0:
        return ""
    if isinstance(value, str):
        return _without_controls(value)
    if isinstance(value, list):
        return "\n".join(text_of(item, room - 1) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return "\n".join(f"{clean(key)}: {text_of(member, room - 1)}" for key, member in members.items())
    return describe(value)


def _without_controls(text: str) -> str:
    r"""Undo what JSON makes of LaTeX: `"\frac"` is valid and means a form feed before "rac"."""
    letters = {"\b": r"\b", "\f": r"\f", "\r": r"\r"}
    text = re.sub("[\b\f\r](?=[A-Za-z])", lambda match: letters[match[0]], text.replace("\r\n", "\n"))
    return clean(text.replace("\r", "\n"))
