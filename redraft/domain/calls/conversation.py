"""What one model call asks, in no provider's dialect."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from redraft.domain.calls.models import ModelRef


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
class Prompt:
    """What is said to a model, whichever it is."""

    system: str
    messages: tuple[Message, ...]
    reply_schema: ReplySchema | None = None


@dataclass(frozen=True, slots=True)
class LimitOrigin:
    """Where an output limit comes from: the setting that can change it, and whether a person has set it.

    A limit that nobody set is lowered to what its model takes; one that a person fixed is not.
    """

    setting: str = "sampling.max_output_tokens"
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Chat:
    """A prompt for a model. None = not sent; `stream`: the reply is wanted piece by piece.

    Without an origin the provider's own describes the output limit.
    """

    model: ModelRef
    system: str
    messages: tuple[Message, ...]
    reply_schema: ReplySchema | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    stream: bool = False
    limit_origin: LimitOrigin | None = None
