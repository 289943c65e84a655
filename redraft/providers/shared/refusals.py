"""Reads refusals of requests: which parameter or part of a request a server does not support.

Each sentence of a message is read on its own, because messages often also name parameters that are not refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from redraft.errors import ProviderError
from redraft.providers.shared.error_bodies import ErrorBody, read_error_body
from redraft.providers.shared.protocol import without_cache_marks
from redraft.providers.shared.schemas import format_in

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

WORDS_CHARS = 2000


_UNSUPPORTED = re.compile(
    r"unsupported|not (currently )?(support|permitted|allowed|available|enabled|implemented|recogni[sz]ed)"
    r"|(does|do|is|are)(n't| not) (support|allow|recogni[sz]e)|unrecogni[sz]ed|unknown|unexpected"
    r"|extra (inputs|fields|param|keys)|deprecated|no longer|only .{0,30}(allowed|supported|set)"
    r"|may only|cannot (both )?be (used|specified)|unavailable|incompatible|\bunset\b"
    r"|不支持|pas pris en charge|nicht unterstützt|no (es|está) (compatible|admitid)|no se admite",
    re.IGNORECASE,
)
# Each server words the efforts that it accepts in its own way
_OTHER_EFFORTS = re.compile(
    r"(supported|valid|allowed|accepted) values|must be (one of|set to|either|[\"'])|expected one of|input should be"
    r"|invalid (\S+ )?(value|effort|reasoning|thinking)|only works",
    re.IGNORECASE,
)
EFFORT = re.compile(r"reasoning|thinking|effort", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n")
# A parameter in a condition is not the one that is refused
_CONDITION = re.compile(r"\b(when|while|if|unless|because)\b[^,;]*|\bwith \S+", re.IGNORECASE)
_LINK = re.compile(r"https?://\S+", re.IGNORECASE)
_UNKNOWN_NAME = re.compile(
    r"unrecogni[sz]ed|unknown|unexpected|extra (inputs|fields|param|keys)|unsupported param", re.IGNORECASE
)
_SCHEMA = re.compile(
    r"response_format|text\.format|json_schema|json schema|json_object|output_config|output_format|output format"
    r"|structured output|guided|grammar|xgrammar|outlines|invalid schema|schema is too|schema (contains|exceeds)",
    re.IGNORECASE,
)
# OpenAI and Azure serve some models by the Responses API only
_NOT_FOR_CHAT = re.compile(
    r"\bmodel\b.{0,80}\bonly (supported|available|accessible|served)\b.{0,40}\bv1/responses\b"
    r"|\bmodel\b.{0,80}\bnot (supported|available)\b.{0,40}\bchat/completions\b"
    r"|not a chat model and thus not supported|chatcompletions? operation does not work",
    re.IGNORECASE,
)
# Some servers answer 500 if a chat template or a grammar refuses the request
_CRASH = re.compile(r"jinja|raise_exception|chat template|grammar", re.IGNORECASE)
_SYSTEM = re.compile(
    r"system\W{0,3}(role|message|prompt|instruction)s?\W.{0,60}(support|allowed|enabled|permitted|accepted)"
    r"|(support|allow|accept|enable)\w*\W.{0,30}\bsystem\W{0,3}(role|message|prompt|instruction)"
    r"|does not support '(system|developer)'|developer instruction is not enabled"
    r"|only user(,| and) (?!.{0,30}\bsystem).{0,30}roles? (are|is) supported|unexpected role .?system"
    r"|\bsystem: extra inputs|(input should be|values are:?|one of) .?'user' (or|and) 'assistant'"
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
    """Return the adaptation for a refusal, or None if the cause is not a parameter that can be omitted.

    Args:
        error: the refusal, with the provider's body as its `response`.
        sent: the body of the request.
        limit_name: the first parameter to try for the output limit; None if the API has only one.
    """
    said = refusal_in(error, sent)
    if error.http_status in {400, 404} and "messages" in sent and _NOT_FOR_CHAT.search(said.message):
        return "responses_api"
    if not _is_refusal(error, said):
        return None
    if limit_name is not None and limit_name in sent and _refuses(limit_name)(said):
        return "other_limit_name"
    return next((rule.adaptation for rule in _RULES if rule.is_sent(sent) and rule.is_refused(said)), None)


def effort_in(body: Mapping[str, Any]) -> str | None:
    """Return the reasoning effort in a request body of either wire format.

    Return None if the body has no effort, or a budget of thinking tokens instead.
    """
    if body.get("thinking") == {"type": "disabled"}:
        return "none"
    config: Mapping[str, Any] = body.get("output_config") or {}
    reasoning: Mapping[str, Any] = body.get("reasoning") or {}
    effort = body.get("reasoning_effort") or config.get("effort") or reasoning.get("effort")
    return str(effort) if effort else None


def refusal_in(error: ProviderError, sent: Mapping[str, Any]) -> ErrorBody:
    """Return the body of a refusal without links and the model's name, which may contain names of parameters."""
    said = read_error_body(error.response)
    message, model = _LINK.sub("", said.message[:WORDS_CHARS]), str(sent["model"])
    for name in (model, model.rpartition("/")[2]):
        message = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "", message, flags=re.IGNORECASE)
    return replace(said, message=message)


def _is_refusal(error: ProviderError, said: ErrorBody) -> bool:
    if error.code == "provider_bad_request":
        return error.http_status in {400, 422}
    return error.http_status == 500 and bool(_CRASH.search(said.message))


def names(said: ErrorBody, name: str) -> bool:
    """Whether a refusal names a parameter."""
    return said.param == name or bool(re.search(rf"\b{name}\b", said.message))


def _refuses(name: str) -> Callable[[ErrorBody], bool]:
    return lambda said: _is_refused(said, re.compile(rf"\b{name}\b"), _UNSUPPORTED)


def _refuses_effort(said: ErrorBody) -> bool:
    return _is_refused(said, EFFORT, _UNSUPPORTED, _OTHER_EFFORTS)


def _is_refused(said: ErrorBody, name: re.Pattern[str], *wordings: re.Pattern[str]) -> bool:
    """Whether a sentence says that this parameter or its value is not supported."""
    is_by_code = bool(re.search(r"unsupported|unknown_param", said.codes))

    def is_unsupported(words: str) -> bool:
        return is_by_code or any(wording.search(words) for wording in wordings)

    if name.search(said.param):
        return is_unsupported(said.message)
    if said.param in SAMPLING_NAMES:
        return False
    sentences = _SENTENCE_END.split(said.message)
    return any(name.search(_CONDITION.sub("", each)) and is_unsupported(each) for each in sentences)


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


def has_effort(sent: Mapping[str, Any]) -> bool:
    """Whether a request has a reasoning effort, or a budget of thinking tokens."""
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
    return without_cache_marks(sent) != sent


# The first matching rule decides. Rules by the name of a parameter come before rules by patterns. A refused schema is
# first replaced by JSON mode. If JSON mode is refused too, the prompt describes the schema
_RULES: tuple[_Rule, ...] = (
    _Rule("no_stream_options", _has("stream_options"), _refuses("stream_options")),
    # Some models accept a temperature or top_p, but not both
    _Rule("no_top_p", _has("top_p"), _refuses("top_p")),
    _Rule("no_temperature", _has("temperature"), _refuses("temperature")),
    _Rule("no_seed", _has("seed"), _refuses("seed")),
    _Rule("effort_as_budget", _has_effort_of_messages, _refuses_effort),
    _Rule("no_reasoning_effort", has_effort, _refuses_effort),
    _Rule("no_cache_control", _has_cache_control, _refuses("cache_control")),
    _Rule("schema_in_words", _has_format, _refuses_format),
    _Rule("json_object", _has_json_schema, _refuses_schema),
    _Rule("schema_in_words", _has_format, _refuses_schema),
    _Rule("system_in_turn", _has_system, _refuses_system),
)
