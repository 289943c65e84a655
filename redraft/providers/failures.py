"""What a provider's failure means: translated once, here, from status and body to the contract's codes.

Works on what came over the wire (OpenAI's and Anthropic's error objects, and the plain text or HTML of
compatible servers), so that one table serves every vendor. No secret leaves this module.
"""

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, cast

from redraft.errors import ProviderError, ProviderErrorCode
from redraft.providers.limit_refusals import refusal_kind
from redraft.providers.wires import Patience, TimeLeft
from redraft.redaction import MARK, redact

_MESSAGE_CHARS = 600
# Less than this left of a call's time is none.
_NO_TIME_S = 0.01
_HEADER_KEPT = re.compile(
    r"(x-request-id|request-id|x-ratelimit-.+|anthropic-ratelimit-.+|retry-after.*)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Vendor:
    """Who answered, for messages: where its key and its address are set, and what must not be shown."""

    label: str
    key_setting: str
    url_setting: str
    secret: str = ""

    @property
    def capital(self) -> str:
        """The label at the beginning of a sentence."""
        return self.label[:1].upper() + self.label[1:]

    def redact(self, text: str) -> str:
        if len(self.secret) >= 8:
            text = text.replace(self.secret, MARK)
        return redact(text)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer as it came. `body` is JSON values, or text where it was no JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Words:
    """What an error body says: its codes and types, its message, and the parameter it names."""

    codes: str
    message: str
    param: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    code: ProviderErrorCode
    advice: str
    is_met: Callable[[int, Words], bool]


def _status(*statuses: int) -> Callable[[int, Words], bool]:
    return lambda status, _words: status in statuses


def _codes(pattern: str) -> Callable[[int, Words], bool]:
    expression = re.compile(pattern, re.IGNORECASE)
    return lambda _status, words: bool(expression.search(words.codes))


def _says(pattern: str, *statuses: int) -> Callable[[int, Words], bool]:
    expression = re.compile(pattern, re.IGNORECASE)
    return lambda status, words: (not statuses or status in statuses) and bool(expression.search(words.message))


def _refuses_limit(about: str) -> Callable[[int, Words], bool]:
    return lambda status, words: status in {400, 413, 416, 422, 500} and refusal_kind(words.message) == about


_QUOTA = "Look at the plan and the billing of the account behind {key}."
SHORTEN = "Shorten the task, the sources or the criteria, or use a model with a larger context."
_FILTERED = "The provider's content filter stopped it; the same request will be stopped again."
_MODEL = "Check the model's name and that the account behind {key} may use it."

# The first rule that is met decides: the exact (codes) before the vague (words), those before statuses.
_RULES: tuple[_Rule, ...] = (
    _Rule(
        "provider_quota",
        _QUOTA,
        _codes(r"insufficient_quota|billing|insufficient_balance|credits?_exhausted"),
    ),
    _Rule("content_filtered", _FILTERED, _codes(r"content_filter|content_policy|ResponsibleAI|invalid_prompt")),
    _Rule("context_too_long", SHORTEN, _codes(r"context_length|exceed_context|request_too_large")),
    _Rule("context_too_long", SHORTEN, _says(r"request too large for", 413, 429)),
    _Rule("provider_rate_limited", "", _codes(r"rate_limit")),
    _Rule(
        "provider_quota",
        _QUOTA,
        _says(
            r"exceeded your current quota|credit balance|insufficient (balance|credit|fund)|usage limits?\b"
            r"|hard limit|billing",
            400,
            402,
            403,
            429,
        ),
    ),
    _Rule("provider_quota", _QUOTA, _status(402)),
    _Rule(
        "content_filtered",
        _FILTERED,
        _says(r"content (management|filter|policy)|content filtering|flagged|safety system", 400, 403, 422),
    ),
    _Rule("context_too_long", SHORTEN, _refuses_limit("context")),
    _Rule("provider_bad_request", "", _refuses_limit("output")),
    _Rule(
        "context_too_long",
        SHORTEN,
        _says(
            r"maximum context length|context (window|limit|length)|context size|prompt is too long"
            r"|longer than the maximum model length|reduce the length of the (messages|prompt|input)"
            r"|too many (input )?tokens|max_tokens must be at least 1, got -",
            400,
            413,
            422,
            500,
        ),
    ),
    _Rule("context_too_long", SHORTEN, _status(413)),
    _Rule("unknown_model", _MODEL, _codes(r"model_not_found|model_decommissioned|DeploymentNotFound")),
    _Rule("unknown_model", _MODEL, _says(r"\bmodel\b", 404)),
    _Rule(
        "unknown_model",
        _MODEL,
        _says(
            r"model\W.*(does not exist|not found|not a valid model|decommissioned)|not a valid model",
            400,
            422,
        ),
    ),
    _Rule("provider_auth", "Check {key}.", _status(401, 403)),
    _Rule("provider_rate_limited", "", _status(429)),
    _Rule("provider_unavailable", "", _codes(r"overloaded|server_error|api_error|timeout")),
    _Rule("provider_unavailable", "", lambda status, _words: status in {408, 409, 425} or status >= 500),
    _Rule("provider_bad_request", "Check {url}: nothing answers at that path.", _status(404, 405)),
)
# An error inside a 200 has no status of its own, but mostly the type that goes with one.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
}
_ANY_OTHER = _Rule("provider_bad_request", "", lambda _status, _words: True)


def failure_of_answer(vendor: Vendor, answer: Answer) -> ProviderError:
    """The error that an HTTP error status, or an error object inside a 200, stands for."""
    words = words_of(answer.body)
    status = _meant_status(answer)
    rule = next((rule for rule in _RULES if rule.is_met(status, words)), _ANY_OTHER)
    advice = rule.advice.format(key=vendor.key_setting, url=vendor.url_setting)
    said = vendor.redact(words.message)[:_MESSAGE_CHARS]
    verb = f"answered {status}" if answer.status >= 400 else "reported an error"
    message = _sentence(f"{vendor.capital} {verb}: {said or 'no message'}", advice)
    return ProviderError(
        rule.code,
        message,
        http_status=answer.status,
        retry_after_s=retry_after_s(answer.headers),
        response=redacted(vendor, answer.body),
        headers=selected_headers(answer.headers),
    )


def _sentence(said: str, advice: str) -> str:
    if not advice:
        return said
    return f"{said} {advice}" if said.endswith((".", "!", "?")) else f"{said}. {advice}"


def failure_of_connection(vendor: Vendor, error: BaseException, left: TimeLeft, patience: Patience) -> ProviderError:
    """The error for a call that brought no whole answer. `error` is the SDK's; its causes tell more."""
    kinds = {kind.__name__: cause for cause in _causes(error) for kind in type(cause).__mro__}
    if "TimeoutException" in kinds:
        is_connecting = "ConnectTimeout" in kinds
        return ProviderError("provider_timeout", _lateness(vendor, left, patience, is_connecting=is_connecting))
    if "UnsupportedProtocol" in kinds or "InvalidURL" in kinds:
        return ProviderError(
            "provider_bad_request",
            f"{vendor.url_setting} is no address that begins with http:// or https://.",
        )
    if "ConnectError" in kinds:
        reason = vendor.redact(str(kinds["ConnectError"]))
        return ProviderError(
            "provider_unavailable",
            f"No connection to {vendor.label}: {reason} (address: {vendor.url_setting}).",
        )
    return ProviderError("provider_unavailable", f"The connection to {vendor.label} broke before the answer was whole.")


def _lateness(vendor: Vendor, left: TimeLeft, patience: Patience, *, is_connecting: bool) -> str:
    """Which of a call's times ran out, and where it is set."""
    if left.seconds <= _NO_TIME_S:
        return (
            f"{vendor.capital} gave no whole answer in {left.total_s:.4g} s, all that the call had:"
            " raise REDRAFT_CALL_TIMEOUT_S, or the job's deadline."
        )
    if is_connecting:
        return (
            f"{vendor.capital} could not be reached in {patience.connect_s:.4g} s:"
            f" check {vendor.url_setting}, or raise REDRAFT_CONNECT_TIMEOUT_S."
        )
    return (
        f"{vendor.capital} sent nothing of an answer in {patience.first_byte_s:.4g} s:"
        " raise REDRAFT_FIRST_BYTE_TIMEOUT_S if the model needs longer before its first word."
    )


def unreadable(vendor: Vendor, status: int, text: str, headers: Mapping[str, str]) -> ProviderError:
    """A success whose body is not the JSON it should be: a proxy's page, a cut or garbled reply."""
    return ProviderError(
        "provider_unavailable",
        f"{vendor.capital} answered {status} with something that is no reply of a model:"
        f" {vendor.redact(_plain(text))[:200] or 'an empty body'}",
        http_status=status,
        retry_after_s=retry_after_s(headers),
        response=vendor.redact(text),
        headers=selected_headers(headers),
    )


def parse_json(text: str | bytes) -> Any:
    """JSON values, without NaN and Infinity, which neither database takes.

    Raises:
        ValueError: it is no JSON, or nested beyond reason.
    """
    try:
        return json.loads(text, parse_constant=lambda _name: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def selected_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those for the ledger: request id, rate limits, retry-after."""
    return {name.lower(): value[:300] for name, value in headers.items() if _HEADER_KEPT.fullmatch(name)}


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """The wait a provider asks for, in seconds: `retry-after-ms`, else `retry-after` (seconds or a date)."""
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = _number(lowered.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = lowered.get("retry-after")
    return _number(asked) if _number(asked) is not None else _until(asked, now)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(date: str | None, now: float | None) -> float | None:
    try:
        at = parsedate_to_datetime(date or "").timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, at - (time.time() if now is None else now))


def redacted(vendor: Vendor, value: Any) -> Any:
    """JSON values without anything that looks like a key."""
    if isinstance(value, str):
        return vendor.redact(value)
    if isinstance(value, list):
        return [redacted(vendor, item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: redacted(vendor, item) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _meant_status(answer: Answer) -> int:
    """The status; for an error inside a 200 the one it carries or names, else 502 (an upstream failed)."""
    if answer.status >= 400:
        return answer.status
    body = _object(answer.body)
    error = _object(body.get("error", body))
    code = error.get("code")
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    return _STATUS_OF_TYPE.get(str(error.get("type")), 502)


def words_of(body: Any) -> Words:
    """Read any of the known error shapes: {error: {…}}, {error: "…"}, {message}, {detail}, text, HTML."""
    if isinstance(body, str):
        return Words("", _plain(body))
    outer = _object(body)
    inner = outer.get("error", outer)
    if isinstance(inner, str):
        return Words(str(outer.get("error_type", "")), inner)
    error = _object(inner)
    codes = (error.get("code"), error.get("type"), _object(error.get("innererror")).get("code"))
    message = error.get("message") or _detail(error.get("detail"))
    return Words(
        " ".join(str(code) for code in codes if code),
        message if isinstance(message, str) else json.dumps(message),
        str(error.get("param") or ""),
    )


def _detail(detail: Any) -> Any:
    """FastAPI's list of flaws as a line of places and words, without the input that it repeats."""
    flaws = cast("list[Any]", detail) if isinstance(detail, list) else []
    if not flaws or not all(isinstance(flaw, dict) and "msg" in flaw for flaw in flaws):
        return cast("Any", detail or "")
    places = (".".join(str(part) for part in _object(flaw).get("loc") or ()) for flaw in flaws)
    return "; ".join(f"{place}: {_object(flaw)['msg']}" for place, flaw in zip(places, flaws, strict=True))


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _plain(text: str) -> str:
    """Text of a plain or HTML body on one line; a page is told by its title."""
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    found = title.group(1) if title else re.sub(r"<[^>]*>", " ", text)
    return " ".join(found.split())


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
