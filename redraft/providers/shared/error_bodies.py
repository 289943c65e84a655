"""Reads error bodies of any form: nested objects, JSON in text, lists, plain text, HTML.

Gateways wrap the errors of the servers behind them, so all levels are read, the outermost level first.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

_LEVELS_MAX = 8
_ITEMS_MAX = 10
_CHARS_MAX = 20_000

# Keys are compared in lower case without separators, because servers write `error_message`, `errorMessage` and so on
_MESSAGE_KEYS = frozenset(
    (
        *("error", "errors", "err", "message", "msg", "errormessage", "errormsg", "errmsg", "errordescription"),
        *("detail", "details", "description", "title", "reason", "statusmsg", "statusmessage", "faultstring"),
        *("innererror", "metadata", "raw", "cause", "body", "response", "upstream", "upstreamerror", "fault"),
        *("exception", "baseresp", "failure", "failures"),
    )
)
_CODE_KEYS = frozenset(
    ("code", "type", "status", "errorcode", "errortype", "errtype", "statuscode", "httpstatus", "httpcode", "errcode")
)
_WAIT_KEYS = frozenset(("retryafter", "retrydelay", "retryafterseconds", "retryaftersec"))
_IDENTIFIER = re.compile(r"[A-Za-z]\w*(?:[.:-]\w+)*")
_PAGE = re.compile(r"<(?:!doctype|html|head|body|title)\b", re.IGNORECASE)
_ERROR_CODE = re.compile(r"error|fail|exception|invalid|denied|exceed|exhaust|overload|quota|throttl", re.IGNORECASE)
_UNIT = r"(?:ms|s(?:ec\w*)?|m(?:in\w*)?|h(?:ours?)?|d(?:ays?)?)(?![a-z])"
_WAIT_IN_MESSAGE = re.compile(
    rf"\b(?:retry|try again|wait)\b[^.\d]{{0,20}}?((?:\d+(?:\.\d+)?\s*{_UNIT}\s*)+)", re.IGNORECASE
)
_DURATION = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_Kind = Literal["message", "code", "status", "param", "wait"]


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The parts of an error body.

    Attributes:
        codes: the codes and types of the error and its inner errors, separated by spaces.
        message: the messages of the error and its inner errors, the outermost first.
        param: the name of the refused parameter; empty if there is none.
        status: the HTTP status in the body.
        wait_s: the requested wait before a retry, in seconds.
    """

    codes: str
    message: str
    param: str = ""
    status: int | None = None
    wait_s: float | None = None

    @property
    def is_error(self) -> bool:
        """Whether a body of unknown form is the body of an error."""
        return bool(self.message or self.status or _ERROR_CODE.search(self.codes))


def read_error_body(body: Any) -> ErrorBody:
    """Read an error body, which consists of JSON values or is a text."""
    found: dict[str, list[Any]] = {"message": [], "code": [], "status": [], "param": [], "wait": []}
    for kind, value in _parts(plain(body) if isinstance(body, str) else body, 0):
        # A gateway often repeats the message of its upstream
        if value not in found[kind] and not (kind == "message" and any(value in each for each in found[kind])):
            found[kind].append(value)
    message = ": ".join(each.rstrip(" :") for each in found["message"])[:_CHARS_MAX]
    in_message = _wait_in_message(message)
    return ErrorBody(
        " ".join(found["code"]),
        message,
        next(iter(found["param"]), ""),
        next(iter(found["status"]), None),
        next(iter(found["wait"]), in_message),
    )


def plain(text: str) -> str:
    """Return a plain text or HTML body on one line. If an HTML page has a title, return only the title."""
    title = re.search(r"<title[^<>]*>([^<]*)</title>", text, re.IGNORECASE)
    found = title.group(1) if title else re.sub(r"<[^<>]*>", " ", text)
    return " ".join(found.split())


def _parts(value: Any, level: int) -> Iterator[tuple[_Kind, Any]]:
    if level > _LEVELS_MAX:
        return
    if isinstance(value, str):
        yield from _parts_of_text(value, level)
    elif isinstance(value, list):
        for item in cast("list[Any]", value)[:_ITEMS_MAX]:
            yield from _parts(item, level + 1)
    elif isinstance(value, dict):
        yield from _parts_of_object(cast("dict[str, Any]", value), level)


def _parts_of_object(members: Mapping[str, Any], level: int) -> Iterator[tuple[_Kind, Any]]:
    if "loc" in members and isinstance(members.get("msg"), str):
        # FastAPI describes an invalid field like this. Its member `input` is skipped, because it repeats the request
        path = cast("list[Any]", members["loc"] if isinstance(members["loc"], list) else [members["loc"]])
        yield "message", f"{'.'.join(map(str, path))}: {members['msg']}"
        return
    folded = [(re.sub(r"[^a-z]", "", key.lower()), value) for key, value in members.items()]
    for name, value in folded:
        if name in _CODE_KEYS and isinstance(value, str | int) and not isinstance(value, bool):
            yield from _parts_of_code(str(value))
        elif name == "param" and isinstance(value, str):
            yield "param", value
        elif name in _WAIT_KEYS:
            yield from _parts_of_wait(value)
    # Texts are read before nested objects, so that the message of the outer error comes first
    for name, value in sorted(folded, key=lambda member: not isinstance(member[1], str)):
        if name in _MESSAGE_KEYS or name.endswith(("message", "messages")) or _has_error_member(value):
            yield from _parts(value, level + 1)


def _has_error_member(value: Any) -> bool:
    """Whether a value is an object with a member whose name contains `error`."""
    return isinstance(value, dict) and any("error" in key.lower() for key in cast("dict[str, Any]", value))


def _parts_of_code(code: str) -> Iterator[tuple[_Kind, Any]]:
    if code.strip():
        yield "code", code
    if re.fullmatch(r"[45]\d\d", code):
        yield "status", int(code)


def _parts_of_wait(value: Any) -> Iterator[tuple[_Kind, Any]]:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        yield "wait", float(value)
    elif isinstance(value, str) and (seconds := _seconds(value)) is not None:
        yield "wait", seconds


def _parts_of_text(text: str, level: int) -> Iterator[tuple[_Kind, Any]]:
    """Read a text. If it contains JSON, read the JSON and the text before the JSON."""
    text = plain(text) if _PAGE.search(text) else text.strip()
    start = text.find("{")
    inner = list(_parts(_json_at(text, start), level + 1)) if start >= 0 else []
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


def _wait_in_message(message: str) -> float | None:
    """Return the seconds to wait in a message such as "Please try again in 6m0s", or None."""
    found = _WAIT_IN_MESSAGE.search(message)
    return _seconds(found.group(1)) if found else None


def _seconds(text: str) -> float | None:
    parts = _DURATION.findall(text)
    if not parts:
        return float(text) if re.fullmatch(r"\d{1,9}(\.\d+)?", text.strip()) else None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


# `json.loads` with a parameter would build a decoder for each chunk of a stream
_decode = json.JSONDecoder(parse_constant=lambda _name: None).decode


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. NaN and Infinity become null, because the databases cannot store them as JSON.

    Raises:
        ValueError: if the text is no JSON, or is nested too deeply.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    try:
        return _decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_or_text(text: str) -> Any:
    """Parse a text as JSON. Return the text if it is no JSON."""
    try:
        return parse_json(text)
    except ValueError:
        return text
