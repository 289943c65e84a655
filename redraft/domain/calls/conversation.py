"""Prompts and messages of a model call, independent of the provider."""

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
    """A system prompt, messages and a reply schema for any model."""

    system: str
    messages: tuple[Message, ...]
    reply_schema: ReplySchema | None = None


@dataclass(frozen=True, slots=True)
class LimitOrigin:
    """The origin of an output limit: the setting that can change it, and whether a user has set it.

    A default is lowered to what the model accepts. A limit that a user has set is not.
    """

    setting: str = "sampling.max_output_tokens"
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Chat:
    """A prompt with its sampling parameters. Parameters that are None are not sent; `stream` asks for a stream.

    Without an origin, the provider describes the output limit in error messages.
    """

    model: ModelRef
    system: str
    messages: tuple[Message, ...]
    reply_schema: ReplySchema | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    stream: bool = False
    limit_origin: LimitOrigin | None = None
