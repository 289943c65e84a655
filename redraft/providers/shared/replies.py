"""Reads the parts of a response that both wire formats have in common."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from redraft.domain.calls.finish_reasons import Finish, classify_finish, is_absent
from redraft.domain.text.thinking import answer_in
from redraft.errors import ProviderError, ProviderErrorCode
from redraft.providers.shared.error_bodies import parse_json
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer
from redraft.providers.shared.response_bodies import bytes_of

if TYPE_CHECKING:
    import httpx2


TOKENS_MAX = 10**9
EMPTY = "The reply has no text."
TOOL_CALL_ONLY = "The reply has no text: a tool call only."
TOOL_CALL_AFTER_TEXT = "The reply is incomplete: after some text, the model calls a tool, but the request has no tools."
REASONING_ONLY = "The reply has no text: reasoning only."
UNKNOWN_FORM = "The reply has no text in a known form. The call's `response` shows what the server sent."

# The types of the parts of a message that have the text of the answer. Some servers send no type. A tuple, because a
# server may send a type that has no hash
_TEXT_TYPES = ("text", "output_text", None)
# The fields that can have the finish reason: first those of the two wire formats, then those of compatible servers
_NATIVE_REASON = "native_finish_reason"
_REASONS = (
    *("finish_reason", "stop_reason", "finishReason", "stopReason", "done_reason", "finish_details", _NATIVE_REASON),
)


async def read_answer(vendor: Vendor, response: "httpx2.Response") -> Answer:
    """Read a response, and return it with its parsed body.

    Raises:
        ProviderError: if the status is an error, or if the body is too long or is no JSON object.
    """
    content = b"".join([part async for part in bytes_of(vendor, response)])
    try:
        body = parse_json(content)
    except ValueError:
        body = content.decode(errors="replace")
    answer = Answer(response.status_code, body, dict(response.headers))
    if answer.status >= 300 or not isinstance(body, dict):
        raise failure_of_answer(vendor, answer)
    return answer


def object_of(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, otherwise an empty object."""
    # Compatible servers may omit any field, or send another type
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def array_of(value: Any) -> list[Any]:
    """Return the value if it is an array, otherwise an empty array."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def token_count(value: Any) -> int | None:
    """Return the value if it can be a number of tokens, otherwise None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_MAX else None


def text_of(value: Any) -> str:
    """Return the value if it is text, otherwise an empty text."""
    return value if isinstance(value, str) else ""


def content_text(content: Any) -> str:
    """Return the text of a message's content, which is a text or a list of parts.

    Parts of an unknown type are left out, because their text may be thinking and not the answer.
    """
    parts = [object_of(part) for part in array_of(content)]
    return text_of(content) or "".join(text_of(part.get("text")) for part in parts if part.get("type") in _TEXT_TYPES)


def has_reason(value: Any) -> bool:
    """Whether a field has a finish reason. Servers write a missing reason in several ways, such as "null"."""
    return value is not None and not is_absent(_reason_text(value))


def finish_reason_of(part: Mapping[str, Any]) -> str | None:
    """Return the finish reason of a choice or a message, or None."""
    # If a gateway reports a complete reply, but the server behind it an incomplete reply, the server's reason counts
    reasons = [_reason_text(part[name]) for name in _REASONS if name in part and has_reason(part[name])]
    if not reasons:
        return None
    native = reasons[-1] if has_reason(part.get(_NATIVE_REASON)) else None
    is_complete = classify_finish(reasons[0]) is Finish.COMPLETE
    is_worse = is_complete and classify_finish(native) not in {Finish.COMPLETE, Finish.UNKNOWN}
    return native if is_worse else reasons[0]


def without_early_end(part: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the finish reason of a complete reply, because more text has arrived after it."""
    reason = finish_reason_of(part)
    if reason is None or classify_finish(reason) is not Finish.COMPLETE:
        return dict(part)
    return {name: value for name, value in part.items() if name not in _REASONS}


def _reason_text(value: Any) -> str:
    """Return a finish reason as text. Some servers send an object with a `type`."""
    if isinstance(value, dict):
        named = object_of(value)
        value = named.get("type") or named.get("reason") or named
    return value.strip() if isinstance(value, str) else json.dumps(value)


def finish_failure(vendor: Vendor, reason: str | None, text: str) -> tuple[ProviderErrorCode, str] | None:
    """Return the error of a reply with this finish reason, or None if the finish reason is no error."""
    finish = classify_finish(reason)
    if finish in {Finish.COMPLETE, Finish.UNKNOWN}:
        return None
    has_text = bool(answer_in(text).strip())
    failures: dict[Finish, tuple[ProviderErrorCode, str]] = {
        Finish.CUT: ("output_truncated", truncation(has_text=has_text)),
        Finish.CONTEXT_FULL: ("context_too_long", "The reply was cut: prompt and reply fill the model's context."),
        Finish.FILTERED: (
            "content_filtered",
            f"The content filter of {vendor.label} cut off the reply ({reason}), so the reply is not used.",
        ),
        Finish.REFUSED: ("refused", f"The model refused: {text.strip() or 'it gave no reason.'}"),
        Finish.TOOL_CALL: ("empty_output", TOOL_CALL_AFTER_TEXT if has_text else TOOL_CALL_ONLY),
        Finish.FAILED: (
            "provider_unavailable",
            f"{vendor.capital} broke off the reply (finish reason {reason}), so the reply is not used.",
        ),
    }
    failure = failures.get(finish)
    return failure and (failure[0], vendor.redact(failure[1]))


def truncation(*, has_text: bool) -> str:
    """Return the message for a truncated reply. The caller of the model knows which setting raises the limit."""
    if has_text:
        return "The reply was cut off at the output limit."
    return "The reply was truncated before text: all of the output limit went into reasoning."


def checked_key(key: str, vendor: Vendor) -> str:
    """Return the key without blanks at its ends.

    Raises:
        ProviderError: if an HTTP header cannot contain the key (code `provider_auth`).
    """
    trimmed = key.strip()
    if trimmed and not (trimmed.isascii() and trimmed.isprintable()):
        raise ProviderError("provider_auth", f"The key in {vendor.key_setting} has characters that no key can have.")
    return trimmed
