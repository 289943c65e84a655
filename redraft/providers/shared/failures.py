"""Translates the status and the body of a provider's error response into the error codes of Redraft.

This module reads the response itself, and not the errors of the SDKs. So one table covers OpenAI, Anthropic and
compatible servers, some of which answer with plain text or HTML. Secrets are redacted here.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlsplit

from redraft.domain.calls.backoff import read_retry_after, read_seconds
from redraft.errors import RETRYABLE_CODES, ProviderError, ProviderErrorCode
from redraft.providers.shared.error_bodies import ErrorBody, plain, read_error_body
from redraft.providers.shared.limit_refusals import refusal_kind
from redraft.redaction import MARK, redact

_MESSAGE_CHARS = 600
# Stands for the status of an error in a 200 response if the error has no status of its own
_NO_STATUS = 0
_RESPONSE_CHARS_MAX = 50_000
# If an error asks for a wait of at most this time, it is a rate limit per minute, even if its message says quota
_SHORT_WAIT_S = 120.0
_HEADER_KEPT = re.compile(
    r"(x-request-id|request-id|x-ratelimit-.+|anthropic-ratelimit-.+|retry-after.*)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Vendor:
    """The vendor of an API, for messages.

    Attributes:
        label: the vendor's name.
        key_setting: the setting of the API key.
        url_setting: the setting of the address.
        secret: the API key, which `redact` removes.
    """

    label: str
    key_setting: str
    url_setting: str
    secret: str = ""

    @property
    def capital(self) -> str:
        """The label at the beginning of a sentence."""
        return self.label[:1].upper() + self.label[1:]

    def redact(self, text: str) -> str:
        # A shorter key is not redacted, because it could be a part of many words
        if len(self.secret) >= 8:
            text = text.replace(self.secret, MARK)
        return redact(text)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response. `body` is the parsed JSON, or the text of a body that is no JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Rule:
    code: ProviderErrorCode
    advice: str
    is_met: Callable[[int, ErrorBody], bool]


def _has_status(*statuses: int) -> Callable[[int, ErrorBody], bool]:
    return lambda status, _body: status in statuses


def _is_short_wait(error: ErrorBody) -> bool:
    return error.wait_s is not None and error.wait_s <= _SHORT_WAIT_S


def _has_code(pattern: str) -> Callable[[int, ErrorBody], bool]:
    expression = re.compile(pattern, re.IGNORECASE)
    return lambda _status, error: bool(expression.search(error.codes))


def _has_message(pattern: str, *statuses: int) -> Callable[[int, ErrorBody], bool]:
    expression = re.compile(pattern, re.IGNORECASE)
    known = {*statuses, _NO_STATUS}
    return lambda status, error: (not statuses or status in known) and bool(expression.search(error.message))


def _has_message_without_status(pattern: str) -> Callable[[int, ErrorBody], bool]:
    # This applies only to errors without a status. A status tells more than the general words of these patterns
    expression = re.compile(pattern, re.IGNORECASE)
    return lambda status, error: status == _NO_STATUS and bool(expression.search(error.message))


def _refuses_limit(about: str) -> Callable[[int, ErrorBody], bool]:
    return lambda status, error: (
        status in {_NO_STATUS, 400, 413, 416, 422, 500} and refusal_kind(error.message) == about
    )


_QUOTA = "Look at the plan and the billing of the account behind {key}."
SHORTEN = "Shorten the task, the sources or the criteria, or use a model with a larger context."
_NO_MEDIA = "Use a model that reads images and PDFs, or leave the attachments out."
_FILTERED = "The provider's content filter stopped it; the same request will be stopped again."
_MODEL = "Check the model's name and that the account behind {key} may use it."

_MEDIA = r"(images?|vision|multi-?modal|image_url|pdfs?|documents?|file (inputs?|parts?))"
_MEDIA_REFUSED = (
    rf"(not|n't|no|un)\b[^.]{{0,60}}(support|accept|allow|enable|permit|handl)\w*\b[^.]{{0,40}}\b{_MEDIA}\b"
    rf"|\b{_MEDIA}\b[^.]{{0,40}}\b(not (currently )?(support|accept|allow|enabl|permit|available)|unsupported)"
    rf"|\b{_MEDIA}\b[^.]{{0,40}}\bonly supported"
    r"|not a (multi-?modal|vision)|unknown (part|content) type|unknown variant .{0,3}(image_url|file)"
    r"|at most 0 image|mmproj|content must be a string|content.{0,40}should be a valid string"
)
_NO_KNOWN_STATUS = _Rule("provider_unavailable", "", _has_status(_NO_STATUS))
# The rules for a 200 response that is neither a reply nor an error. A page of a proxy may be gone at the next attempt.
# JSON of another API will not change, and each attempt can cost money
_NO_JSON = _Rule("provider_unavailable", "Check {url}.", _has_status(_NO_STATUS))
_OTHER_API = _Rule("provider_bad_request", "Check {url}: another API seems to answer there.", _has_status(_NO_STATUS))
# The first matching rule decides. Rules by codes come first, then rules by messages. Rules by statuses come last,
# because vendors use one status for several errors
_RULES: tuple[_Rule, ...] = (
    _Rule(
        "provider_quota",
        _QUOTA,
        _has_code(r"insufficient_quota|billing|insufficient_balance|credits?_exhausted"),
    ),
    _Rule(
        "content_filtered",
        _FILTERED,
        _has_code(r"content_filter|content_policy|ResponsibleAI|invalid_prompt|data_?inspection"),
    ),
    _Rule(
        "context_too_long",
        SHORTEN,
        _has_code(r"context_length|exceed_context|request_too_large|string_above_max_length"),
    ),
    _Rule("context_too_long", SHORTEN, _has_message(r"request too large for", 413, 429)),
    _Rule("provider_rate_limited", "", _has_code(r"rate_?limit|throttl|too_?many_?requests")),
    # Google uses the word quota for a rate limit per minute, too
    _Rule("provider_rate_limited", "", lambda status, error: status in {429, _NO_STATUS} and _is_short_wait(error)),
    _Rule(
        "provider_quota",
        _QUOTA,
        _has_message(
            r"exceeded your current quota|credit balance|(insufficient|not enough|out of) (balance|credit|fund)"
            r"|usage limits?\b|hard limit|billing|quota (is |has been )?(exceeded|exhausted|used)|payment required"
            r"|\b(key|spend\w*|total|monthly) limit (is |has been )?(exceeded|reached)"
            r"|budget has been exceeded|over budget"
            r"|余额不足|欠费",
            *(400, 402, 403, 429, 500, 502, 503),
        ),
    ),
    _Rule("provider_quota", _QUOTA, _has_status(402)),
    _Rule(
        "content_filtered",
        _FILTERED,
        _has_message(
            r"content (management|filter|policy)|content filtering|flagged|safety system"
            r"|(inappropriate|sensitive) content|guardrail|敏感|违规",
            *(400, 403, 422),
        ),
    ),
    _Rule("context_too_long", SHORTEN, _refuses_limit("context")),
    _Rule("provider_bad_request", "", _refuses_limit("output")),
    _Rule(
        "context_too_long",
        SHORTEN,
        _has_message(
            r"maximum context length|context (window|limit|length)|context size|prompt is too long"
            r"|longer than the maximum model length|reduce the length of the (messages|prompt|input)"
            r"|too many (input )?tokens|max_tokens must be at least 1, got -|max(imum)? context|n_ctx|上下文|超长"
            r"|\b(prompts?|inputs?)\W+(is |are |was )?too (long|large)|\binput length should be"
            r"|\b(prompts?|inputs?)\b[^.;]{0,20}\btokens?\b[^.;]{0,60}(exceed|over the|longer|greater|more than)"
            r"|maximum of \d[\d,]* tokens|maximum (allowed )?(prompt|input|request) (length|size)|batch size"
            r"|\binputs`? must have less than|输入.{0,20}(超过|过长|太长)",
            *(400, 413, 422, 500, 502, 503),
        ),
    ),
    _Rule("context_too_long", SHORTEN, _has_status(413)),
    # Some servers refuse images with 500, or with 404, which also means an unknown model
    _Rule("provider_bad_request", _NO_MEDIA, _has_message(_MEDIA_REFUSED, 400, 404, 415, 422, 500, 501)),
    _Rule("unknown_model", _MODEL, _has_code(r"model_not_found|model_decommissioned|DeploymentNotFound")),
    _Rule(
        "unknown_model",
        _MODEL,
        lambda status, error: status == 404 and "model" in re.findall(r"\w+", error.message.lower()),
    ),
    _Rule(
        "unknown_model",
        _MODEL,
        _has_message(
            r"model\W.*(not exist|not found|not a valid model|decommissioned)|not a valid model|unknown model"
            r"|no such model|model (identifier|id|name) (is|was) invalid|invalid model (identifier|id|name)"
            r"|模型.{0,6}(不存在|未找到|无效)",
            400,
            404,
            422,
        ),
    ),
    _Rule(
        "provider_auth",
        "It does not serve the country or region of this machine's address.",
        _has_code(r"unsupported_country"),
    ),
    _Rule("provider_auth", "Check {key}.", _has_code(r"invalid_?api_?key|api_?key_?invalid")),
    _Rule("provider_auth", "Check {key}.", _has_status(401, 403)),
    _Rule(
        "provider_auth",
        "Check {key}.",
        _has_message_without_status(
            r"api key|unauthori[sz]ed|not authori[sz]ed|authenticat|not logged in|log ?in fail|token has expired"
            r"|access ?denied|forbidden"
        ),
    ),
    _Rule("provider_rate_limited", "", _has_status(429)),
    _Rule(
        "provider_rate_limited",
        "",
        _has_message(
            r"rate.?limit|too many requests|throttl|rate exceeded|request limit (is |was )?(reached|exceeded)|速率", 400
        ),
    ),
    _Rule("provider_unavailable", "", _has_code(r"overloaded|server_error|api_error|timeout")),
    # Groq answers 498 if the capacity of its flex tier is exceeded
    _Rule("provider_unavailable", "", lambda status, _body: status in {408, 409, 425, 498} or status >= 500),
    _NO_KNOWN_STATUS,
    _Rule("provider_bad_request", "Check {url}: nothing answers at that path.", _has_status(404, 405)),
)
# An error in a 200 response has no status, but in most cases a code or a type that implies a status
_STATUS_OF_CODE = tuple(
    (re.compile(pattern, re.IGNORECASE), status)
    for pattern, status in (
        (r"unauthenticated|unauthori[sz]ed|authentication|api_?key", 401),
        (r"permission|forbidden|access_?denied", 403),
        (r"not_?found", 404),
        (r"rate_?limit|throttl|resource_?exhausted|too_?many_?requests", 429),
        (r"invalid_?request|bad_?request|invalid_?argument|validation", 400),
    )
)
_ANY_OTHER = _Rule("provider_bad_request", "", lambda _status, _body: True)


def failure_of_answer(vendor: Vendor, answer: Answer) -> ProviderError:
    """Return the error for an HTTP error status, or for a 200 response without a reply."""
    if 300 <= answer.status < 400:
        return _failure_of_redirect(vendor, answer)
    error = _error_of(answer)
    status = _effective_status(answer, error)
    rule = next((rule for rule in _RULES if rule.is_met(status, error)), _ANY_OTHER)
    if rule is _NO_KNOWN_STATUS and isinstance(answer.body, str):
        rule = _NO_JSON
    elif rule is _NO_KNOWN_STATUS and isinstance(answer.body, dict) and not read_error_body(answer.body).is_error:
        rule = _OTHER_API
    wait_s = retry_after_s(answer.headers)
    if wait_s is None and rule.code in RETRYABLE_CODES:
        wait_s = error.wait_s
    message = _sentence(
        f"{vendor.capital} {_verb(answer)}: {_message_of(vendor, answer, error)}", _wait_sentence(wait_s)
    )
    advice = rule.advice.format(key=vendor.key_setting, url=vendor.url_setting)
    return ProviderError(
        rule.code,
        _sentence(message, advice),
        http_status=answer.status,
        retry_after_s=wait_s,
        response=redacted(vendor, answer.body),
        headers=selected_headers(answer.headers),
    )


def _failure_of_redirect(vendor: Vendor, answer: Answer) -> ProviderError:
    """Return the error for a redirect. It is not followed, because another host must not get prompt and headers."""
    host = _host_of(answer.headers.get("location", ""))
    to = f" to {vendor.redact(host)}" if host else ""
    words = f"{vendor.capital} answered {answer.status}, a redirect{to}, which is not followed. Check"
    return ProviderError(
        "provider_bad_request",
        f"{words} {vendor.url_setting}.",
        http_status=answer.status,
        response=redacted(vendor, answer.body),
        headers=selected_headers(answer.headers),
    )


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _verb(answer: Answer) -> str:
    if answer.status >= 400:
        return f"answered {answer.status}"
    is_object = isinstance(answer.body, dict | list) and read_error_body(answer.body).is_error
    return "reported an error" if is_object else f"answered {answer.status} with something that is no reply of a model"


def _error_of(answer: Answer) -> ErrorBody:
    """Return the parts of an error. If the body has no message, its beginning is the message."""
    error = read_error_body(answer.body)
    if error.message or not answer.body:
        return error
    return replace(error, message=plain(json.dumps(answer.body, ensure_ascii=False)[:_MESSAGE_CHARS]))


def _message_of(vendor: Vendor, answer: Answer, error: ErrorBody) -> str:
    return vendor.redact(error.message)[:_MESSAGE_CHARS] or ("no message" if answer.status >= 400 else "an empty body")


def _wait_sentence(seconds: float | None) -> str:
    if seconds is None or seconds < 1:
        return ""
    units = ((3600, "h"), (60, "min"))
    size, unit = next(((size, unit) for size, unit in units if seconds >= 2 * size or seconds == size), (1, "s"))
    return f"It asked to wait {round(seconds / size, 1):g} {unit}."


def _sentence(text: str, advice: str) -> str:
    if not advice:
        return text
    return f"{text} {advice}" if text.endswith((".", "!", "?")) else f"{text}. {advice}"


def selected_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers for the ledger: request id, rate limits, retry-after."""
    return {name.lower(): value[:300] for name, value in headers.items() if _HEADER_KEPT.fullmatch(name)}


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the wait that a provider asks for in its headers, in seconds, or None."""
    lowered = {name.lower(): value for name, value in headers.items()}
    # The SDKs of both vendors read this header first, too
    milliseconds = read_seconds(lowered.get("retry-after-ms"))
    return read_retry_after(lowered.get("retry-after"), now) if milliseconds is None else milliseconds / 1000


def redacted(vendor: Vendor, value: Any) -> Any:
    """Return JSON values without the vendor's API key, and without texts that look like secrets."""
    if isinstance(value, str):
        return vendor.redact(value)[:_RESPONSE_CHARS_MAX]
    if isinstance(value, list):
        return [redacted(vendor, item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {vendor.redact(key): redacted(vendor, item) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _effective_status(answer: Answer, error: ErrorBody) -> int:
    """Return the status of an error. For an error in a 200 response, return the status that its body implies."""
    if answer.status >= 400:
        return answer.status
    named = (status for pattern, status in _STATUS_OF_CODE if pattern.search(error.codes))
    return error.status or next(named, _NO_STATUS)
