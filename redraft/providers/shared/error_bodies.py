"""Reads error bodies of any shape: nested objects, JSON within text, lists, plain text, HTML.

Compatible servers and gateways wrap each other's errors, so every level is read, the outermost first.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

_LEVELS_MAX = 8
_ITEMS_MAX = 10
_CHARS_MAX = 20_000

# Keys are compared without case and separators: `error_message`, `errorMessage` and `ErrorMessage` are one.
_SAYING = frozenset(
    (
        *("error", "errors", "err", "message", "msg", "errormessage", "errormsg", "errmsg", "errordescription"),
        *("detail", "details", "description", "title", "reason", "statusmsg", "statusmessage", "faultstring"),
        *("innererror", "metadata", "raw", "cause", "body", "response", "upstream", "upstreamerror", "fault"),
        *("exception", "baseresp", "failure", "failures"),
    )
)
_CODES = frozenset(
    ("code", "type", "status", "errorcode", "errortype", "errtype", "statuscode", "httpstatus", "httpcode", "errcode")
)
_WAITS = frozenset(("retryafter", "retrydelay", "retryafterseconds", "retryaftersec"))
_IDENTIFIER = re.compile(r"[A-Za-z]\w*(?:[.:-]\w+)*")
_PAGE = re.compile(r"<(?:!doctype|html|head|body|title)\b", re.IGNORECASE)
_TELLING_CODE = re.compile(r"error|fail|exception|invalid|denied|exceed|exhaust|overload|quota|throttl", re.IGNORECASE)
_UNIT = r"(?:ms|s(?:ec\w*)?|m(?:in\w*)?|h(?:ours?)?|d(?:ays?)?)(?![a-z])"
_WAIT_IN_WORDS = re.compile(
    rf"\b(?:retry|try again|wait)\b[^.\d]{{0,20}}?((?:\d+(?:\.\d+)?\s*{_UNIT}\s*)+)", re.IGNORECASE
)
_DURATION = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_Kind = Literal["message", "code", "status", "param", "wait"]


@dataclass(frozen=True, slots=True)
class Words:
    """The parts of an error body.

    Attributes:
        codes: its codes and types, with those of inner errors.
        message: its messages, the outermost first.
        param: the parameter that it names.
        status: the HTTP status that it carries within itself.
        wait_s: the wait that it asks for, in seconds.
    """

    codes: str
    message: str
    param: str = ""
    status: int | None = None
    wait_s: float | None = None

    @property
    def is_error(self) -> bool:
        """Whether a body of unknown shape is that of an error."""
        return bool(self.message or self.status or _TELLING_CODE.search(self.codes))


def words_of(body: Any) -> Words:
    """Read a body, given as JSON values or text."""
    found: dict[str, list[Any]] = {"message": [], "code": [], "status": [], "param": [], "wait": []}
    for kind, value in _said(plain(body) if isinstance(body, str) else body, 0):
        # A gateway often repeats the message of its upstream
        if value not in found[kind] and not (kind == "message" and any(value in each for each in found[kind])):
            found[kind].append(value)
    message = ": ".join(each.rstrip(" :") for each in found["message"])[:_CHARS_MAX]
    in_words = _wait_in_words(message)
    return Words(
        " ".join(found["code"]),
        message,
        next(iter(found["param"]), ""),
        next(iter(found["status"]), None),
        next(iter(found["wait"]), in_words),
    )


def plain(text: str) -> str:
    """Return the text of a plain or HTML body on one line; a page is represented by its title."""
    title = re.search(r"<title[^<>]*>([^<]*)</title>", text, re.IGNORECASE)
    found = title.group(1) if title else re.sub(r"<[^<>]*>", " ", text)
    return " ".join(found.split())


def _said(value: Any, level: int) -> Iterator[tuple[_Kind, Any]]:
    if level > _LEVELS_MAX:
        return
    if isinstance(value, str):
        yield from _said_in_text(value, level)
    elif isinstance(value, list):
        for item in cast("list[Any]", value)[:_ITEMS_MAX]:
            yield from _said(item, level + 1)
    elif isinstance(value, dict):
        yield from _said_in_object(cast("dict[str, Any]", value), level)


def _said_in_object(members: Mapping[str, Any], level: int) -> Iterator[tuple[_Kind, Any]]:
    if "loc" in members and isinstance(members.get("msg"), str):
        # FastAPI's description of an invalid field; `input` beside it repeats the request
        places = cast("list[Any]", members["loc"] if isinstance(members["loc"], list) else [members["loc"]])
        yield "message", f"{'.'.join(map(str, places))}: {members['msg']}"
        return
    folded = [(re.sub(r"[^a-z]", "", key.lower()), value) for key, value in members.items()]
    for name, value in folded:
        if name in _CODES and isinstance(value, str | int) and not isinstance(value, bool):
            yield from _said_by_code(str(value))
        elif name == "param" and isinstance(value, str):
            yield "param", value
        elif name in _WAITS:
            yield from _said_of_wait(value)
    # Plain texts come before nested objects
    for name, value in sorted(folded, key=lambda member: not isinstance(member[1], str)):
        if name in _SAYING or name.endswith(("message", "messages")) or _holds_an_error(value):
            yield from _said(value, level + 1)


def _holds_an_error(value: Any) -> bool:
    """Whether a value is an object with a member whose name contains `error`."""
    return isinstance(value, dict) and any("error" in key.lower() for key in cast("dict[str, Any]", value))


def _said_by_code(code: str) -> Iterator[tuple[_Kind, Any]]:
    if code.strip():
        yield "code", code
    if re.fullmatch(r"[45]\d\d", code):
        yield "status", int(code)


def _said_of_wait(value: Any) -> Iterator[tuple[_Kind, Any]]:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        yield "wait", float(value)
    elif isinstance(value, str) and (seconds := _seconds(value)) is not None:
        yield "wait", seconds


def _said_in_text(text: str, level: int) -> Iterator[tuple[_Kind, Any]]:
    """Read a text, or the JSON in it together with the words before it."""
    text = plain(text) if _PAGE.search(text) else text.strip()
    start = text.find("{")
    inner = list(_said(_json_at(text, start), level + 1)) if start >= 0 else []
    if any(kind == "message" for kind, _ in inner):
        text = text[:start].rstrip(" \t\r\n:-[(\"'")
    if text:
        yield "message", text
    if _IDENTIFIER.fullmatch(text):
        yield "code", text
    yield from inner


def _json_at(text: str, start: int) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text[:_CHARS_MAX], start)[0]
    except (ValueError, RecursionError):
        return None


def _wait_in_words(message: str) -> float | None:
    """The wait in "Please try again in 6m0s."."""
    found = _WAIT_IN_WORDS.search(message)
    return _seconds(found.group(1)) if found else None


def _seconds(text: str) -> float | None:
    parts = _DURATION.findall(text)
    if not parts:
        return float(text) if re.fullmatch(r"\d{1,9}(\.\d+)?", text.strip()) else None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; NaN and Infinity become null, since neither database stores them.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=lambda _name: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_or_text(text: str) -> Any:
    """Parse a text as JSON. Return the text if it is no JSON."""
    try:
        return parse_json(text)
    except ValueError:
        return text
