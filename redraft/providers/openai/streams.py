"""Builds an answer from the chunks of a Chat Completions stream."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from redraft.providers.shared.replies import (
    array_of,
    content_text,
    finish_reason_of,
    has_reason,
    object_of,
    text_of,
    without_early_end,
)

_CONCATENATED = frozenset({"refusal", "reasoning", "reasoning_content", "thinking"})
_NOT_IN_CHOICE = frozenset({"delta", "index"})
_NOT_IN_HEAD = frozenset({"choices", "usage", "object"})


class OpenAIChunks:
    """Collects the chunks of one answer. Only the first choice is used, because requests ask for one choice."""

    def __init__(self) -> None:
        self.is_ended = False
        self.finish_reason: str | None = None
        self._head: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        self._tool_calls: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        self._usage: Any = None

    @property
    def is_whole(self) -> bool:
        # Not every server sends [DONE]
        return self.is_ended or self.finish_reason is not None

    def matches_format(self, event: dict[str, Any]) -> bool:
        return "choices" in event or "usage" in event or text_of(event.get("object")).startswith("chat.completion")

    def error_in(self, event: dict[str, Any]) -> Any:
        choice = object_of(next(iter(array_of(event.get("choices"))), None))
        if error := choice.get("error"):
            return {"error": error}
        return event if event.get("error") or event.get("object") == "error" else None

    def take(self, event: dict[str, Any]) -> str:
        self._head |= {key: value for key, value in event.items() if key not in _NOT_IN_HEAD}
        self._usage = event.get("usage") or self._usage
        choices = [object_of(choice) for choice in array_of(event.get("choices"))]
        text = "".join(self._take_choice(choice) for choice in choices if not choice.get("index"))
        self.finish_reason = finish_reason_of(self._choice) or finish_reason_of(self._head)
        return text

    def end(self) -> None:
        self.is_ended = True

    def body(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None, **self._message}
        message |= {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._tool_calls:
            message["tool_calls"] = [self._tool_calls[index] for index in sorted(self._tool_calls)]
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": None, **self._choice}
        body = {**self._head, "object": "chat.completion", "choices": [choice] if self._choice else []}
        return body if self._usage is None else {**body, "usage": self._usage}

    def _take_choice(self, choice: Mapping[str, Any]) -> str:
        known = {key: value for key, value in choice.items() if key not in _NOT_IN_CHOICE and has_reason(value)}
        self._choice |= {"index": 0, **known}
        piece = ""
        for name, value in object_of(choice.get("delta")).items():
            if name == "content":
                piece = content_text(value)
                if value is not None:
                    self._texts[name].append(piece)
            elif name == "tool_calls":
                self._take_tool_calls(value)
            elif name in _CONCATENATED and isinstance(value, str):
                self._texts[name].append(value)
            elif value is not None:
                self._message[name] = value
        if piece.strip() and finish_reason_of(choice) is None:
            self._choice = without_early_end(self._choice)
        return piece

    def _take_tool_calls(self, calls: Any) -> None:
        for number, value in enumerate(array_of(calls)):
            call = object_of(value)
            index = call.get("index")
            kept = self._tool_calls[index if isinstance(index, int) else number]
            function = object_of(call.get("function"))
            earlier = object_of(kept.get("function"))
            arguments = text_of(earlier.get("arguments")) + text_of(function.get("arguments"))
            kept |= {key: value for key, value in call.items() if key != "index" and value is not None}
            kept["function"] = {**earlier, **function, "arguments": arguments}
