"""The model boundary: one Protocol, and the types that cross it.

Whatever a provider answers becomes a `ChatReply` or a `ProviderError`; no SDK type leaves this package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from redraft.domain.models import ModelRef


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The JSON Schema a reply must have; each provider translates it into its own dialect."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chat:
    """What one model call asks, in no provider's dialect. None = not sent."""

    model: ModelRef
    system: str
    messages: tuple[Message, ...]
    reply_schema: ReplySchema | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; None = it did not say (never 0 for unknown)."""

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A usable reply: `text` is never blank.

    `response` is the provider's body as JSON values, for the ledger. `headers` holds the selected ones
    only (request id, rate limits).
    """

    text: str
    finish_reason: str | None
    usage: Usage
    http_status: int
    response: Any
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Provider(Protocol):
    """One vendor's API, or one compatible server."""

    name: str

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """The request body as it will be sent: what the ledger stores before the call. Pure."""
        ...

    def send(self, body: Mapping[str, Any], *, timeout_s: float) -> ChatReply:
        """Make the call, once, without retries.

        Raises:
            ProviderError: for everything that is not a usable reply, truncated and refused ones included.
        """
        ...

    def close(self) -> None: ...
