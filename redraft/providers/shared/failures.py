"""Translates the status and body of a provider's failure to the error codes of the contract.

Works on what came over the wire (OpenAI's and Anthropic's error objects, and the plain text or HTML of
compatible servers), so that one table serves every vendor. No secret leaves this module.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from redraft.domain.calls.backoff import read_retry_after, read_seconds
from redraft.errors import RETRYABLE_CODES, ProviderError, ProviderErrorCode
from redraft.providers.shared.error_bodies import Words, plain, words_of
from redraft.providers.shared.limit_refusals import refusal_kind
from redraft.providers.shared.transport import TimeLeft, Timeouts
from redraft.redaction import MARK, redact

_MESSAGE_CHARS = 600
# A call with less remaining time than this counts as timed out.
_NO_TIME_S = 0.01
# The status of an error that a 200 holds, if it names no other
_NO_STATUS = 0
_RESPONSE_CHARS_MAX = 50_000
_SOON_S = 120.0
# Names of error classes of aiohttp and httpx2; only the first call imports these libraries
_WRONG_ADDRESS = frozenset({"UnsupportedProtocol", "InvalidURL", "NonHttpUrlClientError", "InvalidUrlClientError"})
_LATE_CONNECTION = frozenset({"ConnectionTimeoutError"})
_NO_CONNECTION = ("ClientConnectorError", "ClientHttpProxyError", "ConnectError")
_HEADER_KEPT = re.compile(
    r"(x-request-id|request-id|x-ratelimit-.+|anthropic-ratelimit-.+|retry-after.*)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Vendor:
    """Whose API answered, for messages: the settings of its key and its address, and the secret to redact."""

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
    """An HTTP response. `body` is JSON values, or text if it was no JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Rule:
    code: ProviderErrorCode
    advice: str
    is_met: Callable[[int, Words], bool]


def _status(*statuses: int) -> Callable[[int, Words], bool]:
    return lambda status, _words: status in statuses


def _is_soon(words: Words) -> bool:
    return words.wait_s is not None and words.wait_s <= _SOON_S


def _codes(pattern: str) -> Callable[[int, Words], bool]:
    expression = re.compile(pattern, re.IGNORECASE)
    return lambda _status, words: bool(expression.search(words.codes))


def _says(pattern: str, *statuses: int) -> Callable[[int, Words], bool]:
    expression = re.compile(pattern, re.IGNORECASE)
    known = {*statuses, _NO_STATUS}
    return lambda status, words: (not statuses or status in known) and bool(expression.search(words.message))


def _says_without_status(pattern: str) -> Callable[[int, Words], bool]:
    """Whether an error without a status has such words in its message."""
    expression = re.compile(pattern, re.IGNORECASE)
    return lambda status, words: status == _NO_STATUS and bool(expression.search(words.message))


def _refuses_limit(about: str) -> Callable[[int, Words], bool]:
    return lambda status, words: (
        status in {_NO_STATUS, 400, 413, 416, 422, 500} and refusal_kind(words.message) == about
    )


_QUOTA = "Look at the plan and the billing of the account behind {key}."
SHORTEN = "Shorten the task, the sources or the criteria, or use a model with a larger context."
_FILTERED = "The provider's content filter stopped it; the same request will be stopped again."
_MODEL = "Check the model's name and that the account behind {key} may use it."

# The first matching rule decides: exact codes before words, and words before statuses.
_RULES: tuple[_Rule, ...] = (
    _Rule(
        "provider_quota",
        _QUOTA,
        _codes(r"insufficient_quota|billing|insufficient_balance|credits?_exhausted"),
    ),
    _Rule(
        "content_filtered",
        _FILTERED,
        _codes(r"content_filter|content_policy|ResponsibleAI|invalid_prompt|data_?inspection"),
    ),
    _Rule(
        "context_too_long", SHORTEN, _codes(r"context_length|exceed_context|request_too_large|string_above_max_length")
    ),
    _Rule("context_too_long", SHORTEN, _says(r"request too large for", 413, 429)),
    _Rule("provider_rate_limited", "", _codes(r"rate_?limit|throttl|too_?many_?requests")),
    # Google also calls a rate limit per minute a quota
    _Rule("provider_rate_limited", "", lambda status, words: status in {429, _NO_STATUS} and _is_soon(words)),
    _Rule(
        "provider_quota",
        _QUOTA,
        _says(
            r"exceeded your current quota|credit balance|(insufficient|not enough|out of) (balance|credit|fund)"
            r"|usage limits?\b|hard limit|billing|quota (is |has been )?(exceeded|exhausted|used)|payment required"
            r"|\b(key|spend\w*|total|monthly) limit (is |has been )?(exceeded|reached)"
            r"|budget has been exceeded|over budget"
            r"|余额不足|欠费",
            *(400, 402, 403, 429, 500, 502, 503),
        ),
    ),
    _Rule("provider_quota", _QUOTA, _status(402)),
    _Rule(
        "content_filtered",
        _FILTERED,
        _says(
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
        _says(
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
    _Rule("context_too_long", SHORTEN, _status(413)),
    _Rule("unknown_model", _MODEL, _codes(r"model_not_found|model_decommissioned|DeploymentNotFound")),
    _Rule(
        "unknown_model",
        _MODEL,
        lambda status, words: status == 404 and "model" in re.findall(r"\w+", words.message.lower()),
    ),
    _Rule(
        "unknown_model",
        _MODEL,
        _says(
            r"model\W.*(not exist|not found|not a valid model|decommissioned)|not a valid model|unknown model"
            r"|no such model|model (identifier|id|name) (is|was) invalid|invalid model (identifier|id|name)",
            400,
            422,
        ),
    ),
    _Rule("provider_auth", "Check {key}.", _codes(r"invalid_?api_?key|api_?key_?invalid")),
    _Rule("provider_auth", "Check {key}.", _status(401, 403)),
    _Rule(
        "provider_auth",
        "Check {key}.",
        _says_without_status(
            r"api key|unauthori[sz]ed|not authori[sz]ed|authenticat|not logged in|log ?in fail|token has expired"
            r"|access ?denied|forbidden"
        ),
    ),
    _Rule("provider_rate_limited", "", _status(429)),
    _Rule(
        "provider_rate_limited",
        "",
        _says(
            r"rate.?limit|too many requests|throttl|rate exceeded|request limit (is |was )?(reached|exceeded)|速率", 400
        ),
    ),
    _Rule("provider_unavailable", "", _codes(r"overloaded|server_error|api_error|timeout")),
    _Rule("provider_unavailable", "", lambda status, _words: status in {_NO_STATUS, 408, 409, 425} or status >= 500),
    _Rule("provider_bad_request", "Check {url}: nothing answers at that path.", _status(404, 405)),
)
# An error inside a 200 has no status of its own, but in most cases a code or a type that implies one.
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
_ANY_OTHER = _Rule("provider_bad_request", "", lambda _status, _words: True)


def failure_of_answer(vendor: Vendor, answer: Answer) -> ProviderError:
    """Return the error for an HTTP error status, or for a 200 that holds no reply."""
    words = _words_of(answer)
    status = _meant_status(answer, words)
    rule = next((rule for rule in _RULES if rule.is_met(status, words)), _ANY_OTHER)
    wait_s = retry_after_s(answer.headers)
    if wait_s is None and rule.code in RETRYABLE_CODES:
        wait_s = words.wait_s
    message = _sentence(f"{vendor.capital} {_verb(answer)}: {_said(vendor, answer, words)}", _asked_to_wait(wait_s))
    advice = rule.advice.format(key=vendor.key_setting, url=vendor.url_setting)
    return ProviderError(
        rule.code,
        _sentence(message, advice),
        http_status=answer.status,
        retry_after_s=wait_s,
        response=redacted(vendor, answer.body),
        headers=selected_headers(answer.headers),
    )


def _verb(answer: Answer) -> str:
    if answer.status >= 400:
        return f"answered {answer.status}"
    is_object = isinstance(answer.body, dict | list) and words_of(answer.body).is_error
    return "reported an error" if is_object else f"answered {answer.status} with something that is no reply of a model"


def _words_of(answer: Answer) -> Words:
    """The message of an error; for a body without one, the beginning of the body."""
    words = words_of(answer.body)
    if words.message or not answer.body:
        return words
    return replace(words, message=plain(json.dumps(answer.body, ensure_ascii=False)[:_MESSAGE_CHARS]))


def _said(vendor: Vendor, answer: Answer, words: Words) -> str:
    return vendor.redact(words.message)[:_MESSAGE_CHARS] or ("no message" if answer.status >= 400 else "an empty body")


def _asked_to_wait(seconds: float | None) -> str:
    if seconds is None or seconds < 1:
        return ""
    units = ((3600, "h"), (60, "min"))
    size, unit = next(((size, unit) for size, unit in units if seconds >= 2 * size or seconds == size), (1, "s"))
    return f"It asked to wait {round(seconds / size, 1):g} {unit}."


def _sentence(said: str, advice: str) -> str:
    if not advice:
        return said
    return f"{said} {advice}" if said.endswith((".", "!", "?")) else f"{said}. {advice}"


def failure_of_connection(vendor: Vendor, error: BaseException, left: TimeLeft, timeouts: Timeouts) -> ProviderError:
    """Return the error for a call without a whole answer. `error` is the SDK's.

    aiohttp's own error decides: the SDKs' transport reports a connection that broke as one that timed out.
    """
    kinds = {kind.__name__: cause for cause in _causes(error) for kind in type(cause).__mro__}
    if not kinds.keys().isdisjoint(_WRONG_ADDRESS):
        return ProviderError(
            "provider_bad_request",
            f"{vendor.url_setting} is no address that begins with http:// or https://.",
        )
    if not kinds.keys().isdisjoint(_LATE_CONNECTION) or ("ConnectTimeout" in kinds and "ClientError" not in kinds):
        return ProviderError("provider_timeout", _lateness(vendor, left, timeouts, is_connecting=True))
    refused = next((kinds[name] for name in _NO_CONNECTION if name in kinds), None)
    if refused is not None:
        reason = vendor.redact(str(refused))
        setting = "" if vendor.url_setting in vendor.label else f" (address: {vendor.url_setting})"
        return ProviderError("provider_unavailable", f"No connection to {vendor.label}: {reason}{setting}.")
    if "ClientError" not in kinds and not kinds.keys().isdisjoint({"TimeoutError", "TimeoutException"}):
        return ProviderError("provider_timeout", _lateness(vendor, left, timeouts, is_connecting=False))
    return ProviderError("provider_unavailable", f"The connection to {vendor.label} broke before the answer was whole.")


def _lateness(vendor: Vendor, left: TimeLeft, timeouts: Timeouts, *, is_connecting: bool) -> str:
    """Which timeout of a call expired, and its setting."""
    if left.seconds <= _NO_TIME_S:
        return (
            f"{vendor.capital} gave no whole answer in {left.total_s:.4g} s, all that the call had:"
            " raise REDRAFT_CALL_TIMEOUT_S, or the job's deadline."
        )
    if is_connecting:
        return (
            f"{vendor.capital} could not be reached in {timeouts.connect_s:.4g} s:"
            f" check {vendor.url_setting}, or raise REDRAFT_CONNECT_TIMEOUT_S."
        )
    return (
        f"{vendor.capital} sent nothing of an answer in {timeouts.first_byte_s:.4g} s:"
        " raise REDRAFT_FIRST_BYTE_TIMEOUT_S if the model needs longer before its first word."
    )


def selected_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers for the ledger: request id, rate limits, retry-after."""
    return {name.lower(): value[:300] for name, value in headers.items() if _HEADER_KEPT.fullmatch(name)}


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the wait that a provider asks for in its headers, in seconds, or None."""
    lowered = {name.lower(): value for name, value in headers.items()}
    # The SDKs of both vendors also prefer the header with milliseconds, which is more precise
    milliseconds = read_seconds(lowered.get("retry-after-ms"))
    return read_retry_after(lowered.get("retry-after"), now) if milliseconds is None else milliseconds / 1000


def redacted(vendor: Vendor, value: Any) -> Any:
    """JSON values without anything that looks like a key."""
    if isinstance(value, str):
        return vendor.redact(value)[:_RESPONSE_CHARS_MAX]
    if isinstance(value, list):
        return [redacted(vendor, item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: redacted(vendor, item) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _meant_status(answer: Answer, words: Words) -> int:
    """The status; for an error inside a 200 the one that it names or implies."""
    if answer.status >= 400:
        return answer.status
    named = (status for pattern, status in _STATUS_OF_CODE if pattern.search(words.codes))
    return words.status or next(named, _NO_STATUS)


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
