"""Builds an answer from the events of a Messages stream."""

from collections import defaultdict
from typing import Any

from redraft.providers.shared.error_bodies import json_or_text
from redraft.providers.shared.replies import array_of, finish_reason_of, object_of, text_of, without_early_end

# For each type of delta: the field of the delta with the new piece, and the field of the block with all pieces
_PIECES = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}


class AnthropicEvents:
    """Collects the events of one message. A paused turn has several messages, each with its own collector."""

    def __init__(self) -> None:
        self.is_ended = False
        self.finish_reason: str | None = None
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: defaultdict[tuple[int, str], list[str]] = defaultdict(list)

    @property
    def is_whole(self) -> bool:
        return self.is_ended or self.finish_reason is not None

    def matches_format(self, event: dict[str, Any]) -> bool:
        return text_of(event.get("type")).startswith(("message", "content_block")) or event.get("type") == "ping"

    def error_in(self, event: dict[str, Any]) -> Any:
        return event if event.get("type") == "error" or event.get("error") else None

    def take(self, event: dict[str, Any]) -> str:
        index = event.get("index")
        number = index if isinstance(index, int) else 0
        match event.get("type"):
            case "message_start":
                self._merge(object_of(event.get("message")))
            case "content_block_start":
                return self._begin(number, object_of(event.get("content_block")))
            case "content_block_delta":
                return self._take_delta(number, object_of(event.get("delta")))
            case "message_delta":
                self._merge({**object_of(event.get("delta")), "usage": event.get("usage")})
            case "message_stop":
                self.end()
            case _:
                pass
        return ""

    def end(self) -> None:
        self.is_ended = True

    def body(self) -> dict[str, Any]:
        content = [self._block(number) for number in sorted(self._blocks)]
        return {**self._message, "content": content, "usage": self._usage or None}

    def _merge(self, part: dict[str, Any]) -> None:
        self._message |= {
            key: value
            for key, value in part.items()
            if key not in {"usage", "content"} and (value is not None or key not in self._message)
        }
        self.finish_reason = finish_reason_of(self._message)
        # The counts of a later event are totals. If an event has no value for a count, the earlier value remains
        self._usage |= {key: value for key, value in object_of(part.get("usage")).items() if value is not None}

    def _begin(self, number: int, block: dict[str, Any]) -> str:
        self._blocks[number] = block
        piece = text_of(block.get("text")) if block.get("type") == "text" else ""
        if piece:
            self._texts[number, "text"].append(piece)
        return piece

    def _take_delta(self, number: int, delta: dict[str, Any]) -> str:
        block = self._blocks.setdefault(number, {"type": "text", "text": ""})
        kind = text_of(delta.get("type"))
        if kind == "citations_delta":
            block["citations"] = [*array_of(block.get("citations")), delta.get("citation")]
        if kind not in _PIECES:
            return ""
        source, target = _PIECES[kind]
        piece = text_of(delta.get(source))
        self._texts[number, target].append(piece)
        if kind != "text_delta" or block.get("type") != "text":
            return ""
        if piece.strip() and self.finish_reason is not None:
            # Some servers send the finish reason of a complete reply before the text
            self._message = without_early_end(self._message)
            self.finish_reason = finish_reason_of(self._message)
        return piece

    def _block(self, number: int) -> dict[str, Any]:
        block = dict(self._blocks[number])
        for (owner, name), pieces in self._texts.items():
            if owner == number:
                block[name] = json_or_text("".join(pieces) or "{}") if name == "input" else "".join(pieces)
        return block
