"""The interface of all providers: one Protocol, and its types.

A call returns a `ChatReply` or raises a `ProviderError`, so that no caller depends on an SDK.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from redraft.domain.calls.conversation import Chat, LimitOrigin, Message, ReplySchema
from redraft.errors import ProviderError, ProviderErrorCode

__all__ = [
    "ADAPTATIONS_MAX",
    "Chat",
    "ChatReply",
    "LimitOrigin",
    "Message",
    "NotExecuted",
    "Provider",
    "ReplySchema",
    "UnusableReply",
    "Usage",
    "sendable",
    "without_cache_marks",
]

ADAPTATIONS_MAX = 8
"""Maximum number of retries of a refused call. Each retry omits one more parameter or feature."""
_MARK = "cache_control"


@dataclass(frozen=True, slots=True)
class Usage:
    """The numbers of tokens that the provider reports. None means unknown."""

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A usable reply, whose `text` is never blank.

    `response` is the provider's body as JSON values, for the ledger. `headers` has only the headers for the ledger,
    such as request id and rate limits.
    """

    text: str
    finish_reason: str | None
    usage: Usage
    http_status: int
    response: Any
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def sendable(text: str) -> str:
    """Replace lone surrogates (halves of characters) by `?`, because UTF-8 cannot encode them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def without_cache_marks(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request body without the marks for the provider's cache, which do not change the reply."""
    messages: Any = body.get("messages")
    if not isinstance(messages, list):
        return body
    return {**body, "messages": [_unmarked(message) for message in cast("list[Any]", messages)]}


def _unmarked(message: Any) -> Any:
    turn = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
    content = turn.get("content")
    if not isinstance(content, list) or not any(map(_is_marked, cast("list[Any]", content))):
        return cast("Any", message)
    parts, is_split = list[Any](), False
    for part in (cast("dict[str, Any]", each) for each in cast("list[Any]", content) if isinstance(each, dict)):
        plain = {name: value for name, value in part.items() if name != _MARK}
        # A text is split after each mark
        if is_split and "text" in plain:
            plain = {**plain, "text": parts.pop()["text"] + plain["text"]}
        parts.append(plain)
        is_split = _is_marked(part)
    return {**turn, "content": parts[0]["text"] if len(parts) == 1 else parts}


def _is_marked(part: Any) -> bool:
    return isinstance(part, dict) and _MARK in part


class UnusableReply(ProviderError):  # noqa: N818 - named after a state, like the classes in errors.py
    """The error for a 200 response whose reply is incomplete, refused, filtered or empty. Its tokens cost money.

    Attributes:
        text: the text that arrived, for the ledger. It is never used as an answer or a verdict.
    """

    def __init__(self, code: ProviderErrorCode, message: str, reply: ChatReply) -> None:
        super().__init__(code, message, http_status=reply.http_status, response=reply.response, headers=reply.headers)
        self.usage = reply.usage
        self.finish_reason = reply.finish_reason
        self.text = reply.text.strip()


class NotExecuted(ProviderError):  # noqa: N818 - named after a state, like the classes in errors.py
    """The error for a request of a batch that the provider did not execute or could not answer. It costs nothing."""


class Provider(Protocol):
    """The API of one vendor, or of one compatible server."""

    name: str

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """Return the body of the request for a chat. The ledger stores this body before the call.

        The body depends only on the chat and on the adaptations that this process has learned for the model.
        """
        ...

    async def send(
        self,
        body: Mapping[str, Any],
        *,
        timeout_s: float,
        files: Mapping[str, str] | None = None,
        on_delta: Callable[[str], None] | None = None,
        limit_origin: LimitOrigin | None = None,
    ) -> ChatReply:
        """Make the call once, without retries.

        Args:
            body: the result of `wire_body`. If its `stream` is true, the reply is read as it arrives.
            timeout_s: the time limit of the whole call, in seconds.
            files: the base64 of the files that the body refers to, by digest.
            on_delta: receives the text of the answer in pieces. The joined pieces are the `text` of the reply. It is
                called on the event loop, so it must not block. If it raises an exception, the call ends, and `send`
                raises the same exception. After a `ProviderError`, the pieces are invalid.
            limit_origin: the origin of the chat's output limit. An error about the limit names its setting.

        Raises:
            ProviderError: if there is no usable reply. An `UnusableReply` means that tokens were spent. If
                `is_adapted` is true, the provider has learned an adaptation, and the caller can plan the call again.
        """
        ...

    def warm_up(self) -> None:
        """Import the SDK and create the client before the first call needs them."""
        ...

    async def close(self) -> None: ...
