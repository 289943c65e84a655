"""Learns from refusals which parameters a model does not accept, and adapts later requests to the model.

There is no list of models and their capabilities, because it would be outdated with each release of a vendor.
"""

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from redraft.domain.calls.conversation import Chat, LimitOrigin, Message
from redraft.domain.structured.answers import json_kind
from redraft.errors import ProviderError
from redraft.providers.shared.error_bodies import ErrorBody, read_error_body
from redraft.providers.shared.failures import SHORTEN
from redraft.providers.shared.limit_refusals import read_refusal
from redraft.providers.shared.output_limits import OutputLimits, limit_advice, limit_name_in
from redraft.providers.shared.schemas import is_of_object, wire_schema

Adaptation = Literal[
    "responses_api",
    "no_stream_options",
    "other_limit_name",
    "no_temperature",
    "no_top_p",
    "no_seed",
    "effort_as_budget",
    "no_reasoning_effort",
    "no_cache_control",
    "json_object",
    "schema_in_words",
    "system_in_turn",
]

SAMPLING_NAMES = ("temperature", "top_p", "seed", "reasoning_effort")

_MODELS_MAX = 256
_WORDS_CHARS = 2000

_UNSUPPORTED = re.compile(
    r"unsupported|not (currently )?(support|permitted|allowed|available|enabled|implemented|recogni[sz]ed)"
    r"|(does|do|is|are)(n't| not) (support|allow|recogni[sz]e)|unrecogni[sz]ed|unknown|unexpected"
    r"|extra (inputs|fields|param|keys)|deprecated|no longer|only .{0,30}(allowed|supported|set)"
    r"|may only|cannot (both )?be (used|specified)|unavailable|incompatible",
    re.IGNORECASE,
)
_UNKNOWN_NAME = re.compile(
    r"unrecogni[sz]ed|unknown|unexpected|extra (inputs|fields|param|keys)|unsupported param", re.IGNORECASE
)
_SCHEMA = re.compile(
    r"response_format|text\.format|json_schema|json schema|json_object|output_config|output_format|output format"
    r"|structured output|guided|grammar|xgrammar|outlines|invalid schema|schema is too|schema (contains|exceeds)",
    re.IGNORECASE,
)
# The refusal of one schema. The model may accept other schemas, so the adaptation is learned only for this schema
_THIS_SCHEMA = re.compile(
    r"invalid schema|schema is too|schema (contains|exceeds)|recursi|circular|grammar error|failed to parse grammar",
    re.IGNORECASE,
)
# OpenAI and Azure serve some models by the Responses API only
_NOT_FOR_CHAT = re.compile(
    r"\bv1/responses\b|not a chat model and thus not supported|chatcompletions? operation does not work",
    re.IGNORECASE,
)
# Some servers answer 500 if a chat template or a grammar refuses the request
_CRASH = re.compile(r"jinja|raise_exception|chat template|grammar", re.IGNORECASE)
_SYSTEM = re.compile(
    r"system\W{0,3}(role|message|prompt|instruction)s?\W.{0,60}(support|allowed|enabled|permitted|accepted)"
    r"|(support|allow|accept|enable)\w*\W.{0,30}\bsystem\W{0,3}(role|message|prompt|instruction)"
    r"|does not support '(system|developer)'|developer instruction is not enabled"
    r"|only user(,| and) (?!.{0,30}\bsystem).{0,30}roles? (are|is) supported|unexpected role .?system"
    r"|\bsystem: extra inputs"
    r"|roles must alternate user/assistant|first (message|role|content).{0,30}\buser\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Rule:
    adaptation: Adaptation
    is_sent: Callable[[Mapping[str, Any]], bool]
    is_refused: Callable[[ErrorBody], bool]


def adaptation_for(
    error: ProviderError, sent: Mapping[str, Any], *, limit_name: str | None = None
) -> Adaptation | None:
    """Return the adaptation for a refusal. None if no parameter that can be omitted is the cause.

    Args:
        error: the refusal, with the provider's body as its `response`.
        sent: the body of the request.
        limit_name: the first parameter to try for the output limit; None if the API has only one.
    """
    said = read_error_body(error.response)
    said = replace(said, message=said.message[:_WORDS_CHARS])
    if error.http_status in {400, 404} and "messages" in sent and _NOT_FOR_CHAT.search(said.message):
        return "responses_api"
    if not _is_refusal(error, said):
        return None
    if _names(said, limit_name or "") and limit_name in sent and _is_unsupported(said):
        return "other_limit_name"
    return next((rule.adaptation for rule in _RULES if rule.is_sent(sent) and rule.is_refused(said)), None)


def with_schema_in_words(chat: Chat, adaptations: frozenset[Adaptation], *, takes_loose: bool) -> frozenset[Adaptation]:
    """Add the adaptation `schema_in_words` if the wire format cannot express the schema.

    Args:
        chat: the chat.
        adaptations: the adaptations that the chat's model needs.
        takes_loose: whether the wire format accepts schemas that are not strict.
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
    """The adaptations that this process has learned for models. The least recently used are dropped first."""

    def __init__(self) -> None:
        self.limits = OutputLimits()
        self._lock = threading.Lock()
        self._of_model: OrderedDict[str, frozenset[Adaptation]] = OrderedDict()

    def of_chat(self, chat: Chat) -> frozenset[Adaptation]:
        """Return the adaptations that the model and the schema of a chat need."""
        known = self.of(chat.model.name)
        if chat.reasoning_effort is not None:
            known |= self.of(_with_effort(chat.model.name, chat.reasoning_effort))
        wire = wire_schema(chat.reply_schema.schema) if chat.reply_schema else None
        return known if wire is None else known | self.of(_with_schema(chat.model.name, wire.schema))

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
        """Learn from a refusal. Set `is_adapted` of the error if the call can be planned again."""
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
        refusal = read_refusal(f"{said.param} {said.message}"[:_WORDS_CHARS], sent[name], is_of_context=is_of_context)
        if refusal is None:
            return
        lowered = self.limits.learn(refusal, sent)
        told = error.message.removesuffix(SHORTEN).rstrip()
        told = told if told.endswith((".", "!", "?")) else f"{told}."
        error.reword(f"{told} {limit_advice(refusal, origin, lowered)}")
        error.is_adapted = lowered is not None and not origin.is_fixed


def _learned_for(error: ProviderError, sent: Mapping[str, Any], found: Adaptation) -> str:
    """Return the name under which an adaptation is learned: the model, or the model with this schema or effort."""
    model, schema, effort = str(sent["model"]), schema_in(sent), effort_in(sent)
    if found in {"effort_as_budget", "no_reasoning_effort"}:
        # A model may accept other values. A budget is refused for all values
        return _with_effort(model, effort) if effort else model
    is_own_fault = schema is not None and bool(_THIS_SCHEMA.search(read_error_body(error.response).message))
    return _with_schema(model, schema) if is_own_fault else model


def _with_effort(model: str, effort: str) -> str:
    return f"{model}#effort={effort}"


def _with_schema(model: str, schema: Any) -> str:
    return f"{model}#{hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:16]}"


def schema_in(body: Mapping[str, Any]) -> Any:
    """Return the schema in a request body of either wire format. None if the body has no schema."""
    places = (
        ("response_format", "json_schema", "schema"),
        ("output_config", "format", "schema"),
        ("text", "format", "schema"),
    )
    for place in places:
        value: Any = body
        for name in place:
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def format_in(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the format of the reply in a request body of OpenAI's APIs; empty if it has none."""
    of_response: Mapping[str, Any] = body.get("text") or {}
    return body.get("response_format") or of_response.get("format") or {}


def effort_in(body: Mapping[str, Any]) -> str | None:
    """Return the reasoning effort in a request body of either wire format. None if it has none, or a token budget."""
    if body.get("thinking") == {"type": "disabled"}:
        return "none"
    config: Mapping[str, Any] = body.get("output_config") or {}
    reasoning: Mapping[str, Any] = body.get("reasoning") or {}
    effort = body.get("reasoning_effort") or config.get("effort") or reasoning.get("effort")
    return str(effort) if effort else None


def loose_form(chat: Chat, body: Mapping[str, Any]) -> str | None:
    """Name the form in which the schema was sent. None if there is no schema, or the provider enforces it."""
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


def _is_refusal(error: ProviderError, said: ErrorBody) -> bool:
    if error.code == "provider_bad_request":
        return error.http_status in {400, 422}
    return error.http_status == 500 and bool(_CRASH.search(said.message))


def _names(said: ErrorBody, name: str) -> bool:
    return bool(name) and (said.param == name or bool(re.search(rf"\b{name}\b", said.message)))


def _is_unsupported(said: ErrorBody) -> bool:
    return bool(re.search(r"unsupported|unknown_param", said.codes) or _UNSUPPORTED.search(said.message))


def _refuses(name: str) -> Callable[[ErrorBody], bool]:
    return lambda said: _names(said, name) and _is_unsupported(said)


def _refuses_effort(said: ErrorBody) -> bool:
    # Each server words the values that it accepts in its own way
    return bool(re.search(r"reasoning|thinking|effort", f"{said.param} {said.message}", re.IGNORECASE))


def _refuses_schema(said: ErrorBody) -> bool:
    return said.param.startswith(("response_format", "output_config", "text.format")) or bool(
        _SCHEMA.search(said.message)
    )


def _refuses_format(said: ErrorBody) -> bool:
    """Whether the whole parameter `response_format` is refused, and not only one of its types."""
    is_told = "response_format" in said.message and "json_schema" not in said.message
    return is_told and bool(_UNKNOWN_NAME.search(said.message))


def _refuses_system(said: ErrorBody) -> bool:
    return said.param in {"system", "instructions"} or bool(_SYSTEM.search(said.message))


def _has(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda sent: name in sent


def _has_effort_of_messages(sent: Mapping[str, Any]) -> bool:
    return "effort" in (sent.get("output_config") or {})


def _has_effort(sent: Mapping[str, Any]) -> bool:
    return any(name in sent for name in ("reasoning_effort", "reasoning", "thinking"))


def _has_format(sent: Mapping[str, Any]) -> bool:
    return bool(format_in(sent)) or "format" in (sent.get("output_config") or {})


def _has_json_schema(sent: Mapping[str, Any]) -> bool:
    return format_in(sent).get("type") == "json_schema"


def _has_system(sent: Mapping[str, Any]) -> bool:
    if "system" in sent or "instructions" in sent:
        return True
    return any(message["role"] == "system" for message in sent.get("messages", ()))


def _has_cache_control(sent: Mapping[str, Any]) -> bool:
    return any("cache_control" in part for message in sent.get("messages", ()) for part in message["content"])


# The first matching rule decides. Names of parameters come before patterns. A refused schema is first replaced by JSON
# mode. After another refusal it is described in words
_RULES: tuple[_Rule, ...] = (
    _Rule("no_stream_options", _has("stream_options"), _refuses("stream_options")),
    # Some models accept a temperature or top_p, but not both
    _Rule("no_top_p", _has("top_p"), _refuses("top_p")),
    _Rule("no_temperature", _has("temperature"), _refuses("temperature")),
    _Rule("no_seed", _has("seed"), _refuses("seed")),
    _Rule("effort_as_budget", _has_effort_of_messages, _refuses_effort),
    _Rule("no_reasoning_effort", _has_effort, _refuses_effort),
    _Rule("no_cache_control", _has_cache_control, _refuses("cache_control")),
    _Rule("schema_in_words", _has_format, _refuses_format),
    _Rule("json_object", _has_json_schema, _refuses_schema),
    _Rule("schema_in_words", _has_format, _refuses_schema),
    _Rule("system_in_turn", _has_system, _refuses_system),
)
