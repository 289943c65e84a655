"""Reads a Chat Completions response: the text, or why there is none."""

from collections.abc import Mapping
from typing import Any

from redraft.errors import ProviderErrorCode
from redraft.providers.shared.error_bodies import words_of
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer, selected_headers
from redraft.providers.shared.protocol import ChatReply, UnusableReply, Usage
from redraft.providers.shared.replies import (
    EMPTY,
    REASONING_ONLY,
    content_text,
    count,
    finish_failure,
    finish_reason_of,
    items,
    mapping,
    words,
)

_THOUGHT_FIELDS = ("reasoning", "reasoning_content", "thinking")


def read_reply(vendor: Vendor, answer: Answer) -> ChatReply:
    """Return the reply.

    Args:
        vendor: for messages.
        answer: a 2xx response whose body is an object.

    Raises:
        ProviderError: the body is an error instead of choices.
        UnusableReply: there is no text to use.
    """
    choice = mapping(next(iter(items(answer.body.get("choices"))), None))
    finish = finish_reason_of(choice) or finish_reason_of(answer.body)
    if error := choice.get("error"):
        raise failure_of_answer(vendor, Answer(answer.status, {"error": error}, answer.headers))
    if _is_failure(answer.body, choice):
        raise failure_of_answer(vendor, answer)
    message = mapping(choice.get("message"))
    text = content_text(message.get("content"))
    reply = ChatReply(
        text,
        finish,
        usage_of(answer.body),
        answer.status,
        answer.body,
        selected_headers(answer.headers),
    )
    if failure := _failure(vendor, message, text, finish):
        raise UnusableReply(*failure, reply)
    return reply


def _is_failure(body: Mapping[str, Any], choice: Mapping[str, Any]) -> bool:
    """Whether a body holds no reply, or a reply together with an error."""
    if choice:
        return bool(body.get("error"))
    return (bool(body) and "choices" not in body) or words_of(body).is_error


def usage_of(body: Mapping[str, Any]) -> Usage:
    usage = mapping(body.get("usage"))
    return Usage(
        input_tokens=count(usage.get("prompt_tokens")),
        cached_input_tokens=count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        reasoning_tokens=count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def _failure(
    vendor: Vendor, message: Mapping[str, Any], text: str, finish: str | None
) -> tuple[ProviderErrorCode, str] | None:
    """Why a reply cannot be used, the strongest reason first."""
    if refusal := words(message.get("refusal")).strip():
        return "refused", f"The model refused: {vendor.redact(refusal)}"
    if failure := finish_failure(vendor, finish, text):
        return failure
    if message.get("tool_calls") or message.get("function_call"):
        # Some servers call this a normal end
        return finish_failure(vendor, "tool_calls", text)
    return None if text.strip() else ("empty_output", _emptiness(message))


def _emptiness(message: Mapping[str, Any]) -> str:
    if any(words(message.get(name)).strip() for name in _THOUGHT_FIELDS) or words(message.get("content")).strip():
        return REASONING_ONLY
    return EMPTY
