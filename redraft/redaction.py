"""Secrets are taken out of whatever is written down: known ones by their value, others by their look.

For log lines, and for what other programs say: they like to repeat the key or the address that they were given.
From users' texts and models' answers only the known ones are taken; what merely looks like a key is theirs.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

MARK = "[secret]"
# A shorter value stands in too many words to be taken out of them.
_KNOWN_CHARS_MIN = 8
# No deeper: the ledger cuts there too.
_NESTING_MAX = 200

# Ours, OpenAI's and Anthropic's, webhooks', Google's; providers show keys with stars or dots in the middle.
_KEY = r"(?:\brd_|\bsk-|\b(?:pk|key)-(?=\S*\d)|\bwhsec_)[\w*.…+/=\-]{4,}|\bAIza[\w*.…\-]{20,}"
_QUOTE = r"\\?[\"']"
_HEADER = (
    rf"(?i:\b(?:proxy-)?authorization|\b(?:x-)?api[-_]?key|\b(?:set-)?cookie)(?:{_QUOTE})?\s*[:=,]\s*(?:b?{_QUOTE})?"
)
_SCHEME = r"(?i:(?:bearer|basic|token)\s+)?"
_BEARER = r"\b(?i:bearer)\s+(?=[\w.~+/=*\-]{8})(?=\S*\d)"
# Up to the last @ of the run: passwords hold all kinds of characters. A number before a slash is a port.
_ADDRESS = r"\b[a-zA-Z][\w+.\-]{0,30}://[^\s:/?#@\"'<>]{0,200}:(?!\d+(?:[/?#]|$))"
_NAME = rf"(?i:\b(?:password|passwd|pwd|secret|access_token)(?:{_QUOTE})?\s*[:=]\s*(?:{_QUOTE})?)"

_SECRET_PATTERNS = re.compile(
    rf"(?P<address>{_ADDRESS})[^\s\"'<>]{{1,500}}(?=@)"
    rf"|(?P<header>{_HEADER}{_SCHEME})[^\s\"',;\\]{{4,}}"
    rf"|(?P<bearer>{_BEARER})[^\s\"',;\\]+"
    rf"|(?P<name>{_NAME})[^\s\"',;&\\]+"
    rf"|{_KEY}"
)
# One of these is in every text that `_SECRET_PATTERNS` finds something in; most texts have none, and are not searched.
_HINTS = (
    "@",
    "rd_",
    "sk-",
    "pk-",
    "key",
    "whsec_",
    "aiza",
    "authorization",
    "cookie",
    "bearer",
    "passw",
    "pwd",
    "secret",
    "token",
)
_KEPT = ("address", "header", "bearer", "name")
_SECRET_NAME = re.compile(r"(?i)(?:.*[_-])?(?:authorization|api[-_]?key|password|secret|cookie)")

_known: set[str] = set()


def remember(secrets: Iterable[str]) -> None:
    """Values that this process must never write, whatever they look like; a process has one log, hence one list."""
    _known.update(secret for secret in secrets if len(secret) >= _KNOWN_CHARS_MIN)


def redact_known(text: str) -> str:
    """The text without the values that were remembered, the longest first: one may hold another."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, MARK)
    return text


def redact(text: str) -> str:
    """The text without secrets, known ones and what looks like one."""
    text = redact_known(text)
    folded = text.lower()
    return _SECRET_PATTERNS.sub(_mark, text) if any(hint in folded for hint in _HINTS) else text


def _mark(found: re.Match[str]) -> str:
    return "".join(found[name] or "" for name in _KEPT) + MARK


def redact_known_values(value: Any) -> Any:
    """JSON values without the values that were remembered."""
    return _walk(value, redact_known, _NESTING_MAX)


def redact_values(value: Any) -> Any:
    """Nested values without secrets; under the name of a secret nothing is left. Other objects become their words."""
    return _walk(value, redact, _NESTING_MAX, hides_named=True)


def _walk(value: Any, change: Callable[[str], str], room: int, *, hides_named: bool = False) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping | list | tuple):
        return _walk_members(cast("Any", value), change, room - 1, hides_named=hides_named) if room else None
    if isinstance(value, bytes):
        return change(value.decode("utf-8", "replace"))
    return change(value if isinstance(value, str) else repr(value))


def _walk_members(value: Any, change: Callable[[str], str], room: int, *, hides_named: bool) -> Any:
    if not isinstance(value, Mapping):
        return [_walk(each, change, room, hides_named=hides_named) for each in value]
    members = cast("Mapping[Any, Any]", value)
    return {
        change(name) if isinstance(name, str) else name: MARK
        if hides_named and _is_secret(name, each)
        else _walk(each, change, room, hides_named=hides_named)
        for name, each in members.items()
    }


def _is_secret(name: Any, value: Any) -> bool:
    return isinstance(name, str) and bool(value) and _SECRET_NAME.fullmatch(name) is not None
