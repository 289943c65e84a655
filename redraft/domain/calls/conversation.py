"""Prompts and messages of a model call, independent of the provider."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

from redraft.domain.calls.model_names import ModelRef

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class SamplingParameters(TypedDict, total=False):
    """Parameters of a call that are sent unless they are None."""

    temperature: float | None
    top_p: float | None
    seed: int | None
    reasoning_effort: ReasoningEffort | None


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a PDF within a message, without its data.

    Attributes:
        label: the text before it, which names it.
        digest: the SHA-256 of the data in hexadecimal digits.
        size: the size in bytes.
        pages: the maximum number of pages of a PDF; None for an image.
    """

    label: str
    media_type: str
    digest: str
    size: int
    pages: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of a conversation. Its media come before its text.

    Later prompts probably repeat the content of the turn unchanged up to each offset in `stable_ends`.
    """

    role: Literal["user", "assistant"]
    content: str
    stable_ends: tuple[int, ...] = ()
    media: tuple[Media, ...] = ()


def keep_stable_parts(messages: tuple[Message, ...], count: int) -> tuple[Message, ...]:
    """Return the messages with only their first `count` stable parts."""
    return tuple(replace(message, stable_ends=message.stable_ends[:count]) for message in messages)


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The JSON Schema of a reply. Each provider module translates it into the dialect of its API."""

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
    """The setting that an output limit comes from, and whether a user has set it.

    Only a default is lowered if it exceeds the limit of a model.
    """

    setting: str = "sampling.max_output_tokens"
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Chat:
    """A prompt with its sampling parameters. Parameters that are None are not sent."""

    model: ModelRef
    system: str
    messages: tuple[Message, ...]
    reply_schema: ReplySchema | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    stream: bool = False
    limit_origin: LimitOrigin | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: ReasoningEffort | None = None
