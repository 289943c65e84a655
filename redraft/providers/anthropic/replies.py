"""Reads the reply or the error in a Messages response. A turn that the model pauses has several responses."""

from collections.abc import Mapping, Sequence
from typing import Any

from redraft.errors import ProviderErrorCode
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer, selected_headers
from redraft.providers.shared.protocol import ChatReply, UnusableReply, Usage
from redraft.providers.shared.replies import (
    EMPTY,
    TOOL_CALL_ONLY,
    array_of,
    finish_failure,
    finish_reason_of,
    object_of,
    text_of,
    token_count,
)

_TOKENS_IN = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def is_paused(answer: Answer) -> bool:
    return text_of(answer.body.get("stop_reason")).casefold() == "pause_turn"


def content_of(answers: Sequence[Answer]) -> list[Any]:
    """Return the unchanged blocks of all responses."""
    return [block for answer in answers for block in array_of(answer.body.get("content"))]


def read_reply(vendor: Vendor, answers: Sequence[Answer]) -> ChatReply:
    """Return the reply. Its `response` is the body, or for a paused turn the list of its bodies.

    Raises:
        ProviderError: if the body is an error instead of a message.
        UnusableReply: if the reply has no usable text.
    """
    last = answers[-1]
    if _is_failure(last.body):
        raise failure_of_answer(vendor, last)
    blocks = [object_of(block) for block in content_of(answers)]
    text = "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
    reply = ChatReply(
        text,
        finish_reason_of(last.body),
        usage_of(answers),
        last.status,
        last.body if len(answers) == 1 else [answer.body for answer in answers],
        selected_headers(last.headers),
    )
    if failure := _failure(vendor, last, blocks, reply):
        raise UnusableReply(*failure, reply)
    return reply


def _is_failure(body: Mapping[str, Any]) -> bool:
    is_message = not body or bool({"content", "stop_reason"} & body.keys())
    return body.get("type") == "error" or bool(body.get("error")) or not is_message


def usage_of(answers: Sequence[Answer]) -> Usage:
    """Sum the usage of all responses."""
    # Anthropic's input tokens exclude cached tokens, but the ledger's input tokens include them
    usages = [object_of(answer.body.get("usage")) for answer in answers]
    return Usage(
        input_tokens=_sum([token_count(usage.get(key)) for usage in usages for key in _TOKENS_IN]),
        cached_input_tokens=_sum([token_count(usage.get("cache_read_input_tokens")) for usage in usages]),
        cache_write_tokens=_sum([token_count(usage.get("cache_creation_input_tokens")) for usage in usages]),
        output_tokens=_sum([token_count(usage.get("output_tokens")) for usage in usages]),
        reasoning_tokens=_sum(
            [token_count(object_of(usage.get("output_tokens_details")).get("thinking_tokens")) for usage in usages]
        ),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [number for number in counts if number is not None]
    return sum(known) if known else None


def _failure(
    vendor: Vendor, last: Answer, blocks: Sequence[dict[str, Any]], reply: ChatReply
) -> tuple[ProviderErrorCode, str] | None:
    """Return the code and the message of an unusable reply, or None if the reply is usable."""
    told = text_of(object_of(last.body.get("stop_details")).get("explanation"))
    if failure := finish_failure(vendor, reply.finish_reason, told or reply.text):
        return failure
    if blocks and blocks[-1].get("type") == "tool_use":
        # Some servers send the finish reason of a complete reply here
        return finish_failure(vendor, "tool_use", reply.text)
    is_tool = any(text_of(block.get("type")) in {"tool_use", "server_tool_use"} for block in blocks)
    return None if reply.text.strip() else ("empty_output", TOOL_CALL_ONLY if is_tool else EMPTY)
