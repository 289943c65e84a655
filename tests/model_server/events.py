"""The dialects' streams: the events that a reply's body is told in."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.model_server.requests import Asked
from tests.model_server.scripts import Reply

_REASONING = ("reasoning", "reasoning_content", "thinking")
_OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it goes over the wire; `is_text` when it holds a piece of the answer."""

    wire: str
    is_text: bool = False


def events_of(asked: Asked, reply: Reply, body: Any) -> list[Event]:
    """All events of a reply, or those before its fault."""
    if reply.events is not None:
        return [Event(wire, is_text=True) for wire in reply.events]
    if asked.dialect == "openai":
        events = list(_openai(asked, reply, body))
    else:
        events = list((_responses if asked.dialect == "responses" else _anthropic)(reply, body))
    if reply.fault not in {"stream_cut", "stream_reset", "stream_end", "stream_error", "stream_hang"}:
        return events
    texts = [number for number, event in enumerate(events) if event.is_text]
    return events[: texts[reply.after - 1] + 1] if reply.after else events[: texts[0]]


def error_event(asked: Asked, reply: Reply) -> str:
    error = reply.error or _OVERLOADED
    if asked.dialect == "anthropic":
        return named({"type": "error", "error": error})
    return data({"error": error})


def data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def named(value: Mapping[str, Any]) -> str:
    return f"event: {value.get('type', 'message')}\ndata: {json.dumps(value)}\n\n"


def pieces_of(text: str, pieces: Sequence[str] | None) -> list[str]:
    return list(pieces) if pieces is not None else re.findall(r"\s*\S+|\s+$", text)


def _openai(asked: Asked, reply: Reply, body: Any) -> Iterator[Event]:
    choices = body.get("choices")
    if not choices or not isinstance(choices[0], dict) or "message" not in choices[0]:
        yield Event(data({**body, "object": "chat.completion.chunk"}))
        yield Event("data: [DONE]\n\n")
        return
    head = {k: v for k, v in body.items() if k not in {"choices", "usage"}} | {"object": "chat.completion.chunk"}

    def chunk(delta: Any, finish: str | None = None, *, is_text: bool = False) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return Event(data({**head, "choices": [choice]}), is_text)

    yield chunk({"role": "assistant", "content": "" if choices[0]["message"].get("content") else None})
    for delta, is_text in _deltas(choices[0]["message"], reply.pieces):
        yield chunk(delta, is_text=is_text)
    yield chunk({}, choices[0].get("finish_reason"))
    if body.get("usage") and (asked.body.get("stream_options") or {}).get("include_usage"):
        yield Event(data({**head, "choices": [], "usage": body["usage"]}))
    yield Event("data: [DONE]\n\n")


def _deltas(message: Mapping[str, Any], pieces: Sequence[str] | None) -> Iterator[tuple[dict[str, Any], bool]]:
    for name in (*_REASONING, "refusal"):
        for piece in pieces_of(message.get(name) or "", None):
            yield {name: piece}, False
    content = message.get("content")
    for piece in pieces_of(content or "", pieces) if isinstance(content, str | None) else [[part] for part in content]:
        yield {"content": piece}, True
    for index, call in enumerate(message.get("tool_calls") or ()):
        called, arguments = call["function"], call["function"]["arguments"]
        yield {"tool_calls": [{**call, "index": index, "function": {**called, "arguments": ""}}]}, False
        for half in (arguments[:1], arguments[1:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": half}}]}, False


def _responses(reply: Reply, body: Any) -> Iterator[Event]:
    start = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    for kind in ("response.created", "response.in_progress"):
        yield Event(named({"type": kind, "response": start}))
    for index, item in enumerate(body["output"]):
        yield Event(named({"type": "response.output_item.added", "output_index": index, "item": item}))
        for part in item.get("content", ()):
            for piece in pieces_of(part["text"], reply.pieces):
                delta = {"type": "response.output_text.delta", "output_index": index, "content_index": 0}
                yield Event(named({**delta, "delta": piece}), is_text=True)
            yield Event(named({"type": "response.output_text.done", "output_index": index, "text": part["text"]}))
        yield Event(named({"type": "response.output_item.done", "output_index": index, "item": item}))
    yield Event(named({"type": f"response.{body['status']}", "response": body}))


def _anthropic(reply: Reply, body: Any) -> Iterator[Event]:
    if "content" not in body:
        yield Event(named(body))
        return
    usage = body.get("usage")
    first = {**usage, "output_tokens": 1} if usage else usage
    start = {**body, "content": [], "stop_reason": None, "usage": first}
    yield Event(named({"type": "message_start", "message": start}))
    yield Event(named({"type": "ping"}))
    for index, block in enumerate(body["content"] or ()):
        yield from _block(index, block or {}, reply.pieces)
    ending = {k: body.get(k) for k in ("stop_reason", "stop_sequence", "stop_details") if k in body}
    yield Event(named({"type": "message_delta", "delta": ending, "usage": usage}))
    yield Event(named({"type": "message_stop"}))


def _block(index: int, block: Mapping[str, Any], pieces: Sequence[str] | None) -> Iterator[Event]:
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    bare = {k: empty.get(k, v) for k, v in block.items()}
    yield Event(named({"type": "content_block_start", "index": index, "content_block": bare}))
    for piece in pieces_of(block.get("text", ""), pieces):
        yield _delta(index, "text_delta", "text", piece, is_text=True)
    for piece in pieces_of(block.get("thinking", ""), None):
        yield _delta(index, "thinking_delta", "thinking", piece)
    if "signature" in block:
        yield _delta(index, "signature_delta", "signature", block["signature"])
    if "input" in block:
        told = json.dumps(block["input"])
        for half in ("", told[:1], told[1:]):
            yield _delta(index, "input_json_delta", "partial_json", half)
    yield Event(named({"type": "content_block_stop", "index": index}))


def _delta(index: int, kind: str, name: str, value: str, *, is_text: bool = False) -> Event:
    return Event(named({"type": "content_block_delta", "index": index, "delta": {"type": kind, name: value}}), is_text)
