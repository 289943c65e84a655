"""Parse model names: `provider:name`, or a bare name whose prefix determines the provider."""

import re
from dataclasses import dataclass

from redraft.endpoints import NAME
from redraft.errors import Invalid

FREE_PROVIDER = "local"
"""The provider that runs on the user's own machine. Its calls cost nothing, even if they fail."""
LONGEST_MODEL = 200
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


def is_provider_name(name: str) -> bool:
    """Whether a name can stand before the colon of a model."""
    return NAME.fullmatch(name) is not None


def parse_model(text: str, pointer: str = "/model") -> ModelRef:
    """Read a model name. The provider need not be known: the settings of a process decide which providers it can call.

    Raises:
        Invalid: there is no provider, and the prefix of the bare name is unknown (code `unknown_model`); or the whole
            name is longer than `LONGEST_MODEL` (code `string_too_long`).
    """
    ref = _read(text.strip())
    if ref is None:
        words = f"{text!r} names no known model. Write provider:name, for example openai:gpt-6-luna, with openai,"
        words += " anthropic, local or an endpoint of the settings; bare names work for gpt-*, o* and claude-*."
        raise Invalid.at(pointer, words, "unknown_model")
    if (chars := len(str(ref))) > LONGEST_MODEL:
        words = f"A model's name has at most {LONGEST_MODEL} characters, its provider included; this has {chars}."
        raise Invalid.at(pointer, words, "string_too_long")
    return ref


def _read(text: str) -> ModelRef | None:
    provider, colon, name = text.partition(":")
    if colon and name and NAME.fullmatch(provider):
        return ModelRef(provider, name)
    return next((ModelRef(known, text) for pattern, known in _BARE if pattern.match(text)), None)
