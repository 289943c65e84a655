"""Reads the reply or the error in a Chat Completions response."""

from collections.abc import Mapping
from typing import Any

from redraft.errors import ProviderErrorCode
from redraft.providers.shared.error_bodies import read_error_body
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer, selected_headers
from redraft.providers.shared.protocol import ChatReply, UnusableReply, Usage
from redraft.providers.shared.replies import (
    EMPTY,
    REASONING_ONLY,
    UNKNOWN_FORM,
    array_of,
    content_text,
    finish_failure,
    finish_reason_of,
    object_of,
    text_of,
    token_count,
)

_THOUGHT_FIELDS = ("reasoning", "reasoning_content", "thinking")


def read_reply(vendor: Vendor, answer: Answer) -> ChatReply:
    """Return the reply.

    Args:
        vendor: the vendor, for error messages.
        answer: a 2xx response whose body is an object.

    Raises:
        ProviderError: if the body has an error instead of choices.
        UnusableReply: if the reply has no usable text.
    """
    choice = object_of(next(iter(array_of(answer.body.get("choices"))), None))
    finish = finish_reason_of(choice) or finish_reason_of(answer.body)
    if error := choice.get("error"):
        raise failure_of_answer(vendor, Answer(answer.status, {"error": error}, answer.headers))
    if _is_failure(answer.body, choice):
        raise failure_of_answer(vendor, answer)
    text = content_text(object_of(choice.get("message")).get("content"))
    reply = ChatReply(
        text,
        finish,
        usage_of(answer.body),
        answer.status,
        answer.body,
        selected_headers(answer.headers),
    )
    if failure := _failure(vendor, choice, text, finish):
        raise UnusableReply(*failure, reply)
    return reply


def _is_failure(body: Mapping[str, Any], choice: Mapping[str, Any]) -> bool:
    """Whether a body is an error, or has an error next to its reply."""
    if choice:
        return bool(body.get("error"))
    return (bool(body) and "choices" not in body) or read_error_body(body).is_error


def usage_of(body: Mapping[str, Any]) -> Usage:
    usage = object_of(body.get("usage"))
    details = object_of(usage.get("prompt_tokens_details"))
    reasoning = token_count(object_of(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    return Usage(
        input_tokens=token_count(usage.get("prompt_tokens")),
        cached_input_tokens=token_count(details.get("cached_tokens")),
        cache_write_tokens=token_count(details.get("cache_write_tokens")),
        output_tokens=_output_tokens(usage, reasoning),
        reasoning_tokens=reasoning,
    )


def _output_tokens(usage: Mapping[str, Any], reasoning: int | None) -> int | None:
    """Return the output tokens, including reasoning tokens. Some servers count reasoning tokens only in the total."""
    prompt, completion = token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
    total = token_count(usage.get("total_tokens"))
    if prompt is None or completion is None or total is None or not reasoning:
        return completion
    return completion + reasoning if total == prompt + completion + reasoning else completion


def _failure(
    vendor: Vendor, choice: Mapping[str, Any], text: str, finish: str | None
) -> tuple[ProviderErrorCode, str] | None:
    """Return the code and the message of an unusable reply, or None if the reply is usable."""
    message = object_of(choice.get("message"))
    refusals = [text_of(object_of(part).get("refusal")) for part in (message, *array_of(message.get("content")))]
    if refusal := "".join(refusals).strip():
        return "refused", f"The model refused: {vendor.redact(refusal)}"
    if failure := finish_failure(vendor, finish, text):
        return failure
    if message.get("tool_calls") or message.get("function_call"):
        # Some servers send the finish reason of a complete reply here
        return finish_failure(vendor, "tool_calls", text)
    return None if text.strip() else ("empty_output", _no_text_message(choice))


def _no_text_message(choice: Mapping[str, Any]) -> str:
    message = object_of(choice.get("message"))
    parts = [object_of(part) for part in array_of(message.get("content"))]
    if any(text_of(message.get(name)).strip() for name in _THOUGHT_FIELDS) or any(map(_is_thinking, parts)):
        return REASONING_ONLY
    is_unknown = parts or object_of(message.get("content")) or text_of(choice.get("text")).strip()
    return UNKNOWN_FORM if is_unknown else EMPTY


def _is_thinking(part: Mapping[str, Any]) -> bool:
    kind = text_of(part.get("type")).lower()
    return "think" in kind or "reason" in kind
