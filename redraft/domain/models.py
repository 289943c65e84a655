"""Model names: `provider:name`, or a bare name whose provider is known by its prefix."""

import re
from dataclasses import dataclass

from redraft.errors import Invalid

PROVIDERS = ("openai", "anthropic", "local")
_BARE = (
    (re.compile(r"(gpt-|chatgpt-|o\d)", re.IGNORECASE), "openai"),
    (re.compile(r"claude-", re.IGNORECASE), "anthropic"),
)


@dataclass(frozen=True, slots=True)
class ModelRef:
    provider: str
    name: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"


def parse_model(text: str, pointer: str = "/model") -> ModelRef:
    """Read a model name.

    Raises:
        Invalid: the provider is not one of `PROVIDERS`, or a bare name tells none (code `unknown_model`).
    """
    provider, colon, name = text.strip().partition(":")
    if colon and provider in PROVIDERS and name:
        return ModelRef(provider, name)
    for pattern, known in _BARE:
        if pattern.match(text.strip()):
            return ModelRef(known, text.strip())
    raise Invalid.at(
        pointer,
        f"{text!r} names no known model. Write provider:name with one of {', '.join(PROVIDERS)},"
        " for example openai:gpt-6-luna; bare names work for gpt-*, o* and claude-*.",
        "unknown_model",
    )
