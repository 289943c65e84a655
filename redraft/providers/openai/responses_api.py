"""The Responses API, for models that OpenAI does not serve by Chat Completions: request, stream and reply."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from redraft.errors import ProviderErrorCode
from redraft.providers.shared.capabilities import adapted_chat, plain_parameters, with_schema_in_words
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer, selected_headers
from redraft.providers.shared.media import responses_parts
from redraft.providers.shared.protocol import Chat, ChatReply, Message, UnusableReply, Usage, sendable
from redraft.providers.shared.refusals import Adaptation
from redraft.providers.shared.replies import (
    EMPTY,
    REASONING_ONLY,
    array_of,
    finish_failure,
    object_of,
    text_of,
    token_count,
)
from redraft.providers.shared.schemas import named_schema

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_RUNNING = frozenset({"queued", "in_progress"})
# The provider itself executes these tools, and the model then answers
_SERVER_CALLS = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)


def responses_body(chat: Chat, adaptations: frozenset[Adaptation]) -> dict[str, Any]:
    """Build a request, which the provider must not store."""
    adaptations = with_schema_in_words(chat, adaptations, takes_loose=True)
    chat = adapted_chat(chat, adaptations)
    turns = [{"role": message.role, "content": _content(message)} for message in chat.messages]
    body: dict[str, Any] = {"model": chat.model.name, "input": turns, "store": False}
    if chat.system.strip():
        body["instructions"] = sendable(chat.system)
    if chat.reply_schema is not None:
        named = {} if "json_object" in adaptations else named_schema(chat.reply_schema.name, chat.reply_schema.schema)
        body["text"] = {"format": {"type": "json_schema", **named} if named else {"type": "json_object"}}
    # This API has no seed
    body |= plain_parameters(replace(chat, seed=None))
    if chat.reasoning_effort is not None:
        body["reasoning"] = {"effort": chat.reasoning_effort}
    if chat.max_output_tokens is not None:
        body["max_output_tokens"] = chat.max_output_tokens
    return {**body, "stream": True} if chat.stream else body


def _content(message: Message) -> str | list[dict[str, Any]]:
    text = sendable(message.content)
    if not message.media:
        return text
    parts = [part for number, media in enumerate(message.media, 1) for part in responses_parts(media, number)]
    return [*parts, {"type": "input_text", "text": text}]


class ResponsesEvents:
    """Collects the events of a stream. The last event has the whole response, but some servers omit its output."""

    def __init__(self) -> None:
        self.is_ended = False
        self._response: dict[str, Any] = {}
        self._items: list[dict[str, Any]] = []
        self._pieces: list[str] = []
        self._asides: set[str] = set()

    @property
    def is_whole(self) -> bool:
        return self.is_ended

    @property
    def finish_reason(self) -> str | None:
        return _finish_reason(self._response) if self.is_ended else None

    def matches_format(self, event: dict[str, Any]) -> bool:
        return text_of(event.get("type")).startswith("response.") or event.get("object") == "response"

    def error_in(self, event: dict[str, Any]) -> Any:
        if event.get("type") == "error":
            return {"error": event.get("error") or event}
        error = object_of(event.get("response")).get("error")
        return {"error": error} if error else None

    def take(self, event: dict[str, Any]) -> str:
        kind, item = text_of(event.get("type")), object_of(event.get("item"))
        is_whole_body = not kind and text_of(event.get("status")) not in _RUNNING
        if is_whole_body or kind in _ENDS:
            self._response = self._with_output(event if is_whole_body else object_of(event.get("response")))
            self.end()
        elif kind == "response.output_item.added" and not _is_answer(item):
            self._asides.add(str(event.get("output_index")))
        elif kind == "response.output_item.done":
            self._items.append(item)
        elif kind == "response.output_text.delta" and str(event.get("output_index")) not in self._asides:
            self._pieces.append(text_of(event.get("delta")))
            return self._pieces[-1]
        return ""

    def _with_output(self, response: dict[str, Any]) -> dict[str, Any]:
        output = array_of(response.get("output")) or self._items
        text = "".join(self._pieces)
        if text and not any(object_of(item).get("type") == "message" for item in output):
            part = {"type": "output_text", "text": text}
            output = [*output, {"type": "message", "role": "assistant", "content": [part]}]
        return {**response, "output": output} if response and output else response

    def end(self) -> None:
        # `[DONE]` without an earlier response does not complete the answer
        self.is_ended = bool(self._response)

    def body(self) -> dict[str, Any]:
        return self._response


def read_response(vendor: Vendor, answer: Answer) -> ChatReply:
    """Return the reply.

    Raises:
        ProviderError: if the body has an error, or is no response.
        UnusableReply: if the reply has no usable text.
    """
    body = answer.body
    if body.get("error") or "output" not in body:
        raise failure_of_answer(vendor, answer)
    items = [object_of(item) for item in array_of(body.get("output"))]
    messages = [item for item in items if item.get("type") == "message" and _is_answer(item)]
    parts = [object_of(part) for message in messages for part in array_of(message.get("content"))]
    text = "".join(text_of(part.get("text")) for part in parts if part.get("type") == "output_text")
    refusal = "".join(text_of(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    reply = ChatReply(
        text, _finish_reason(body), _usage_of(body), answer.status, body, selected_headers(answer.headers)
    )
    if failure := _failure(vendor, items, refusal, reply):
        raise UnusableReply(*failure, reply)
    return reply


def _is_answer(item: Mapping[str, Any]) -> bool:
    """Whether a message is the answer, and not a commentary before it. Older models send no phase."""
    return item.get("phase") is None or item["phase"] == "final_answer"


def _failure(
    vendor: Vendor, items: list[dict[str, Any]], refusal: str, reply: ChatReply
) -> tuple[ProviderErrorCode, str] | None:
    if refusal.strip():
        return "refused", f"The model refused: {vendor.redact(refusal.strip())}"
    if failure := finish_failure(vendor, reply.finish_reason, reply.text):
        return failure
    kinds = {text_of(item.get("type")) for item in items}
    if any(kind.endswith("_call") and kind not in _SERVER_CALLS for kind in kinds):
        return finish_failure(vendor, "tool_calls", reply.text)
    if reply.text.strip():
        return None
    return "empty_output", REASONING_ONLY if "reasoning" in kinds else EMPTY


def _finish_reason(body: Mapping[str, Any]) -> str | None:
    """Return the reason why a response is incomplete, or else its status."""
    reason = text_of(object_of(body.get("incomplete_details")).get("reason"))
    return reason or text_of(body.get("status")) or None


def _usage_of(body: Mapping[str, Any]) -> Usage:
    usage = object_of(body.get("usage"))
    details = object_of(usage.get("input_tokens_details"))
    return Usage(
        input_tokens=token_count(usage.get("input_tokens")),
        cached_input_tokens=token_count(details.get("cached_tokens")),
        cache_write_tokens=token_count(details.get("cache_write_tokens")),
        output_tokens=token_count(usage.get("output_tokens")),
        reasoning_tokens=token_count(object_of(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )
