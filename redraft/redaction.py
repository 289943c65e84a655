"""Removes secrets from log lines and from messages of other programs. Unknown secrets are found by patterns.

Other programs often repeat a key or a URL with a password in their messages. From texts of users and models only known
secrets are removed, since such a text may be about keys.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from pydantic_core import to_json

MARK = "[secret]"
# Ordinary words could contain a shorter secret
_KNOWN_CHARS_MIN = 8
# Deeper values become null, as in the ledger
_NESTING_MAX = 200

# Keys of Redraft, OpenAI, Anthropic, webhooks and Google. Providers show keys with stars or dots in the middle
_KEY = r"(?:\brd_|\bsk-|\b(?:pk|key)-(?=\S*\d)|\bwhsec_)[\w*.…+/=\-]{4,}|\bAIza[\w*.…\-]{20,}"
_QUOTE = r"\\?[\"']"
_HEADER = (
    rf"(?i:\b(?:proxy-)?authorization|\b(?:x-)?api[-_]?key|\b(?:set-)?cookie)(?:{_QUOTE})?\s*[:=,]\s*(?:b?{_QUOTE})?"
)
_SCHEME = r"(?i:(?:bearer|basic|token)\s+)?"
_BEARER = r"\b(?i:bearer)\s+(?=[\w.~+/=*\-]{8})(?=\S*\d)"
# The match ends at the last @, because a password may contain an @. A number before a slash is a port
_ADDRESS = r"\b[a-zA-Z][\w+.\-]{0,30}://[^\s:/?#@\"'<>]{0,200}:(?!\d+(?:[/?#]|$))"
_NAME = rf"(?i:\b(?:password|passwd|pwd|secret|access_token)(?:{_QUOTE})?\s*[:=]\s*(?:{_QUOTE})?)"

_SECRET_PATTERNS = re.compile(
    rf"(?P<address>{_ADDRESS})[^\s\"'<>]{{1,500}}(?=@)"
    rf"|(?P<header>{_HEADER}{_SCHEME})[^\s\"',;\\]{{4,}}"
    rf"|(?P<bearer>{_BEARER})[^\s\"',;\\]+"
    rf"|(?P<name>{_NAME})[^\s\"',;&\\]+"
    rf"|{_KEY}"
)
# Each match of `_SECRET_PATTERNS` contains a hint. A search for hints is faster, and most texts contain none
_HINTS = (
    *("@", "rd_", "sk-", "pk-", "key", "whsec_", "aiza"),
    *("authorization", "cookie", "bearer", "passw", "pwd", "secret", "token"),
)
_KEPT = ("address", "header", "bearer", "name")
_SECRET_NAME = re.compile(r"(?i)(?:.*[_-])?(?:authorization|api[-_]?key|password|secret|cookie)")

# Longer secrets come first, because they may contain shorter ones
_known: tuple[str, ...] = ()
_known_in_json: tuple[bytes, ...] = ()


def remember(secrets: Iterable[str]) -> None:
    """Add values that this process must never write. The list is global, because a process has one log."""
    global _known, _known_in_json  # noqa: PLW0603 - one log per process
    found = {*_known, *(secret for secret in secrets if len(secret) >= _KNOWN_CHARS_MIN)}
    _known = tuple(sorted(found, key=len, reverse=True))
    # A secret with lone surrogates (a setting that is not UTF-8) is left out: `to_json` refuses values that contain it
    _known_in_json = tuple(to_json(each)[1:-1] for each in _known if each == each.encode("utf-8", "ignore").decode())


def redact_known(text: str) -> str:
    """Return the text without known secrets."""
    for secret in _known:
        text = text.replace(secret, MARK)
    return text


def redact(text: str) -> str:
    """Return the text without known secrets, and without parts that look like a secret."""
    text = redact_known(text)
    folded = text.lower()
    if not any(hint in folded for hint in _HINTS):
        return text
    return _SECRET_PATTERNS.sub(lambda found: "".join(found[name] or "" for name in _KEPT) + MARK, text)


def redact_known_values(value: Any) -> Any:
    """Return JSON values without known secrets. Most values contain no secret, and are returned unchanged."""
    try:
        text = to_json(value)
    except ValueError:
        return _walk(value, redact_known, _NESTING_MAX)
    if not any(secret in text for secret in _known_in_json):
        return value
    return _walk(value, redact_known, _NESTING_MAX)


def redact_values(value: Any) -> Any:
    """Return nested values without secrets, and without values with a name such as `password`.

    Objects that are no JSON values become texts.
    """
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
    found: dict[Any, Any] = {}
    for name, each in cast("Mapping[Any, Any]", value).items():
        is_secret = hides_named and each and isinstance(name, str) and _SECRET_NAME.fullmatch(name)
        kept_name = change(name) if isinstance(name, str) else name
        found[kept_name] = MARK if is_secret else _walk(each, change, room, hides_named=hides_named)
    return found
