"""The interface of all providers: one Protocol, and its types.

Each response becomes a `ChatReply` or a `ProviderError`; no type of an SDK leaves this package.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from redraft.domain.calls.conversation import Chat, LimitOrigin, Message, ReplySchema
from redraft.errors import ProviderError, ProviderErrorCode

__all__ = [
    "ADAPTATIONS_MAX",
    "Chat",
    "ChatReply",
    "LimitOrigin",
    "Message",
    "Provider",
    "ReplySchema",
    "UnusableReply",
    "Usage",
    "sendable",
]

ADAPTATIONS_MAX = 8
"""Maximum number of retries of a refused call, each with one capability less."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; None if it did not say, never 0 for unknown."""

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A usable reply; `text` is never blank.

    `response` is the provider's body as JSON values, for the ledger. `headers` holds the selected ones
    only (request id, rate limits).
    """

    text: str
    finish_reason: str | None
    usage: Usage
    http_status: int
    response: Any
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def sendable(text: str) -> str:
    """Text that UTF-8 can encode: a lone surrogate (half a character) becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


class UnusableReply(ProviderError):  # noqa: N818 - a state, like the five kinds
    """A 200 without a usable reply (cut, refused, filtered, broken off, empty). It is paid for.

    Attributes:
        text: the text that arrived, for the ledger; never used as an answer or a verdict.
    """

    def __init__(self, code: ProviderErrorCode, message: str, reply: ChatReply) -> None:
        super().__init__(code, message, http_status=reply.http_status, response=reply.response, headers=reply.headers)
        self.text = reply.text
        self.usage = reply.usage
        self.finish_reason = reply.finish_reason
        self.text = reply.text.strip()


class Provider(Protocol):
    """One vendor's API, or one compatible server."""

    name: str

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """Return the request body as it will be sent; the ledger stores it before the call.

        It depends only on the chat and on the adaptations that were learned for the model.
        """
        ...

    async def send(
        self,
        body: Mapping[str, Any],
        *,
        timeout_s: float,
        on_delta: Callable[[str], None] | None = None,
        limit_origin: LimitOrigin | None = None,
    ) -> ChatReply:
        """Make the call, once, without retries.

        Args:
            body: from `wire_body`; with `stream` true the reply is read as it comes.
            timeout_s: for the whole call, in seconds.
            on_delta: receives the answer's text in pieces, on the event loop, so it must not wait; the pieces
                of a reply add up to its `text`. An exception that it raises ends the call and is passed on. After a
                `ProviderError` the pieces sent so far are void.
            limit_origin: the chat's; an error for the output limit names its setting.

        Raises:
            ProviderError: there is no usable reply; an `UnusableReply` if tokens were spent (truncated, refused,
                filtered, empty). If `is_adapted` is true, the provider has learned an adaptation: plan the call
                again.
        """
        ...

    def warm_up(self) -> None:
        """Import the SDK and create the client before the first call needs them."""
        ...

    async def close(self) -> None: ...
