"""Learns from refusals which parameters a model does not accept, and adapts later requests to the model.

There is no list of models and their capabilities, because it would be outdated with each release of a vendor.
"""

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from redraft.domain.calls.conversation import Chat, LimitOrigin, Message
from redraft.domain.structured.answers import json_kind
from redraft.errors import ProviderError
from redraft.providers.shared.error_bodies import ErrorBody, read_error_body
from redraft.providers.shared.failures import SHORTEN
from redraft.providers.shared.limit_refusals import read_refusal
from redraft.providers.shared.output_limits import OutputLimits, limit_advice, limit_name_in
from redraft.providers.shared.refusals import (
    EFFORT,
    SAMPLING_NAMES,
    WORDS_CHARS,
    Adaptation,
    adaptation_for,
    effort_in,
    has_effort,
    names,
    refusal_in,
)
from redraft.providers.shared.schemas import format_in, is_of_object, schema_in, wire_schema

_MODELS_MAX = 256
_VALUE = re.compile(r"\d|\bvalues?\b|unsupported_value", re.IGNORECASE)
# Words by which a provider refuses only the schema of this call. The model may accept other schemas, so the adaptation
# is learned only for this schema
_THIS_SCHEMA = re.compile(
    r"invalid schema|schema is too|schema (contains|exceeds)|recursi|circular|grammar error|failed to parse grammar",
    re.IGNORECASE,
)
_LEFT_OUT: Mapping[Adaptation, str] = {
    "no_temperature": "temperature",
    "no_top_p": "top_p",
    "no_seed": "seed",
    "effort_as_budget": "reasoning_effort",
    "no_reasoning_effort": "reasoning_effort",
}


def with_schema_in_words(chat: Chat, adaptations: frozenset[Adaptation], *, takes_loose: bool) -> frozenset[Adaptation]:
    """Add the adaptation `schema_in_words` if the wire format cannot express the schema.

    Args:
        chat: the chat.
        adaptations: the adaptations that the chat's model needs.
        takes_loose: whether the wire format also accepts schemas that are not strict.
    """
    if chat.reply_schema is None:
        return adaptations
    wire = wire_schema(chat.reply_schema.schema)
    is_sendable = wire is not None and (wire.is_strict or takes_loose)
    # `json_object` allows only objects, so a schema of another type is described in the prompt
    is_object = is_of_object(chat.reply_schema.schema) or "json_object" not in adaptations
    told: frozenset[Adaptation] = frozenset() if is_sendable and is_object else frozenset(("schema_in_words",))
    return adaptations | told


def adapted_chat(chat: Chat, adaptations: Collection[Adaptation]) -> Chat:
    """Apply the adaptations that both wire formats have in common."""
    left_out = {name: None for name in SAMPLING_NAMES if f"no_{name}" in adaptations}
    chat = replace(chat, **left_out) if left_out else chat
    if chat.reply_schema is not None and {"json_object", "schema_in_words"} & set(adaptations):
        words = _in_words(chat.reply_schema.schema, chat.messages)
        chat = replace(chat, system=f"{chat.system}\n\n{words}" if chat.system.strip() else words)
    if "schema_in_words" in adaptations:
        chat = replace(chat, reply_schema=None)
    if "system_in_turn" in adaptations and chat.system.strip():
        chat = replace(chat, system="", messages=_with_system(chat.system, chat.messages))
    return chat


def plain_parameters(chat: Chat) -> dict[str, Any]:
    """Return the sampling parameters that have the same name in both wire formats."""
    found = {"temperature": chat.temperature, "top_p": chat.top_p, "seed": chat.seed}
    return {name: value for name, value in found.items() if value is not None}


def parameters_not_sent(chat: Chat, body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sampling parameters of a chat that are not in its request."""
    spelled = {"reasoning_effort": ("reasoning_effort", "reasoning", "thinking")}
    return tuple(
        name
        for name in SAMPLING_NAMES
        if getattr(chat, name) is not None and not body.keys() & set(spelled.get(name, (name,)))
    )


class CapabilityMemory:
    """The adaptations that this process has learned for models. Those that were used longest ago are dropped first."""

    def __init__(self) -> None:
        self.limits = OutputLimits()
        self._lock = threading.Lock()
        self._of_model: OrderedDict[str, frozenset[Adaptation]] = OrderedDict()

    def of_chat(self, chat: Chat) -> frozenset[Adaptation]:
        """Return the adaptations that the model, the settings and the schema of a chat need."""
        settings = _settings(plain_parameters(chat), chat.reasoning_effort)
        groups = (group for size in range(len(settings) + 1) for group in combinations(settings, size))
        known = frozenset[Adaptation]().union(*(self.of(_with(chat.model.name, *group)) for group in groups))
        wire = wire_schema(chat.reply_schema.schema) if chat.reply_schema else None
        return known if wire is None else known | self.of(_with_schema(chat.model.name, wire.schema))

    def refuses_budget(self, model: str, tokens: int) -> bool:
        """Whether the model has refused this budget of thinking tokens."""
        return "no_reasoning_effort" in self.of(_with(model, _budget(tokens)))

    def of(self, model: str) -> frozenset[Adaptation]:
        with self._lock:
            if model not in self._of_model:
                return frozenset()
            self._of_model.move_to_end(model)
            return self._of_model[model]

    def learn(self, model: str, adaptation: Adaptation) -> None:
        with self._lock:
            known: frozenset[Adaptation] = self._of_model.get(model, frozenset())
            self._of_model[model] = known.union((adaptation,))
            self._of_model.move_to_end(model)
            if len(self._of_model) > _MODELS_MAX:
                self._of_model.popitem(last=False)

    def adapt(
        self,
        error: ProviderError,
        sent: Mapping[str, Any],
        *,
        limit_name: str | None = None,
        limit_origin: LimitOrigin | None = None,
    ) -> None:
        """Learn from a refusal. Set `is_adapted` of the error if a new call without the refused part can succeed."""
        found = adaptation_for(error, sent, limit_name=limit_name)
        if found is None:
            self._adapt_limit(error, sent, limit_origin or LimitOrigin())
            return
        self.learn(_learned_for(error, sent, found), found)
        error.is_adapted = True

    def _adapt_limit(self, error: ProviderError, sent: Mapping[str, Any], origin: LimitOrigin) -> None:
        name, is_of_context = limit_name_in(sent), error.code == "context_too_long"
        if name is None or not (is_of_context or error.code == "provider_bad_request"):
            return
        said = read_error_body(error.response)
        refusal = read_refusal(f"{said.param} {said.message}"[:WORDS_CHARS], sent[name], is_of_context=is_of_context)
        if refusal is None:
            return
        lowered = self.limits.learn(refusal, sent)
        told = error.message.removesuffix(SHORTEN).rstrip()
        told = told if told.endswith((".", "!", "?")) else f"{told}."
        error.reword(f"{told} {limit_advice(refusal, origin, lowered)}")
        error.is_adapted = lowered is not None and not origin.is_fixed


def _learned_for(error: ProviderError, sent: Mapping[str, Any], found: Adaptation) -> str:
    """Return the key under which an adaptation is stored: the model, or the model with this schema or settings."""
    model, schema = str(sent["model"]), schema_in(sent)
    said = refusal_in(error, sent)
    if found in _LEFT_OUT:
        return _with(model, *_settings_refused(said, sent, _LEFT_OUT[found]))
    is_own_fault = schema is not None and bool(_THIS_SCHEMA.search(said.message))
    return _with_schema(model, schema) if is_own_fault else model


def _settings_refused(said: ErrorBody, sent: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the settings that a refusal is about, in the order of `_settings`.

    Yield nothing if the refusal does not depend on settings. A refusal of an effort or a budget counts only for its
    value, because the model may accept other values.
    """
    effort, is_of_effort = effort_in(sent), name == "reasoning_effort"
    if is_of_effort and effort is None:
        yield _budget(sent["thinking"]["budget_tokens"])
        return
    parameters = {each: sent[each] for each in SAMPLING_NAMES if each in sent and each != "reasoning_effort"}
    named = {each for each in parameters if each != name and names(said, each)}
    is_with_reasoning = not is_of_effort and has_effort(sent) and bool(EFFORT.search(said.message))
    is_one_value = bool(named or is_with_reasoning or _VALUE.search(f"{said.codes} {said.message}"))
    own = {name} if is_one_value else set[str]()
    yield from _settings({each: parameters[each] for each in parameters if each in named | own}, None)
    if is_of_effort and effort is not None:
        yield _effort(effort)
    elif is_with_reasoning:
        yield _reasoning(effort)


def _settings(parameters: Mapping[str, Any], effort: str | None) -> list[str]:
    """Return the settings of a call, each with its value."""
    of_effort = [] if effort is None else [_effort(effort), _reasoning(effort)]
    return [*(f"{name}={value}" for name, value in parameters.items()), *of_effort]


def _effort(effort: str) -> str:
    return f"effort={effort}"


def _reasoning(effort: str | None) -> str:
    # A call with a budget of thinking tokens has no effort, but it reasons
    return f"reasoning={'off' if effort == 'none' else 'on'}"


def _budget(tokens: int) -> str:
    return f"budget={tokens}"


def _with(model: str, *settings: str) -> str:
    return "#".join((model, *settings))


def _with_schema(model: str, schema: Any) -> str:
    return f"{model}#{hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:16]}"


def loose_form(chat: Chat, body: Mapping[str, Any]) -> str | None:
    """Return words for the form in which the schema was sent.

    Return None if the chat has no schema, or if the provider enforces the schema.
    """
    if chat.reply_schema is None or "format" in body.get("output_config", {}):
        return None
    wanted = format_in(body)
    if wanted.get("type") == "json_schema":
        return None if wanted.get("json_schema", wanted).get("strict") else "as a JSON Schema without strict mode"
    return "in words, with JSON mode" if wanted else "in words"


def _in_words(schema: Mapping[str, Any], messages: tuple[Message, ...]) -> str:
    wanted = f"Reply with one JSON {json_kind(schema)} and nothing else"
    told = json.dumps(schema, ensure_ascii=False)
    if any(told in message.content for message in messages):
        return f"{wanted}: no other words, no code fence."
    return f"{wanted}: no other words, no code fence. Its JSON Schema:\n{told}"


def _with_system(system: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    if messages and messages[0].role == "user":
        return (replace(messages[0], content=f"{system}\n\n{messages[0].content}"), *messages[1:])
    return (Message("user", system), *messages)
