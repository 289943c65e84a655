"""What real servers do differently: parameters that they do not take, and the shapes of their errors.

The wordings are those that users of these servers report.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.model_server.requests import Asked

Quirk = Literal[
    "no_stream_options",
    "no_temperature",
    "responses_only",
    "no_top_p",
    "no_seed",
    "no_effort",
    "no_budget",
    "no_max_tokens",
    "no_max_completion_tokens",
    "no_json_schema",
    "no_json_object",
    "no_response_format",
    "no_system",
    "no_usage",
    "ignores_stream",
]
Flavour = Literal["openai", "azure", "vllm", "ollama", "llama_cpp"]


@dataclass(frozen=True, slots=True)
class _Refusal:
    is_met: Callable[[Asked], bool]
    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400


def _format(asked: Asked) -> str | None:
    wanted: Any = asked.body.get("response_format") or (asked.body.get("text") or {}).get("format") or {}
    return wanted.get("type")


_NEW_LIMIT = "Unrecognized request argument supplied: max_completion_tokens"
_OLD_LIMIT = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
_NO_TEMPERATURE = (
    "Unsupported value: 'temperature' does not support {temperature} with this model."
    " Only the default (1) value is supported."
)
_NO_SCHEMA = {
    "vllm": "The provided JSON schema contains features not supported by xgrammar.",
    "llama_cpp": "Failed to initialize samplers: failed to parse grammar",
}
_SCHEMA = "Invalid parameter: 'response_format' of type '{format}' is not supported with this model."
_NO_SYSTEM = {
    "vllm": "System role not supported",
    "llama_cpp": "Conversation roles must alternate user/assistant/user/assistant/...",
}
_REFUSALS: dict[str, _Refusal] = {
    "responses_only": _Refusal(
        lambda asked: asked.dialect == "openai",
        "This model is only supported in v1/responses and not in v1/chat/completions.",
        "model",
        status=404,
    ),
    "no_stream_options": _Refusal(
        lambda asked: "stream_options" in asked.body,
        "Unknown parameter: 'stream_options'.",
        "stream_options",
        "unknown_parameter",
    ),
    "no_temperature": _Refusal(
        lambda asked: "temperature" in asked.body, _NO_TEMPERATURE, "temperature", "unsupported_value"
    ),
    "no_top_p": _Refusal(lambda asked: "top_p" in asked.body, "Unrecognized request argument supplied: top_p"),
    "no_seed": _Refusal(lambda asked: "seed" in asked.body, "Unknown parameter: 'seed'.", "seed", "unknown_parameter"),
    "no_effort": _Refusal(
        lambda asked: "reasoning_effort" in asked.body or "reasoning" in asked.body,
        "Unsupported value: 'reasoning_effort' does not support this value with this model.",
        "reasoning_effort",
        "unsupported_value",
    ),
    "no_max_tokens": _Refusal(
        lambda asked: "max_tokens" in asked.body, _OLD_LIMIT, "max_tokens", "unsupported_parameter"
    ),
    "no_max_completion_tokens": _Refusal(lambda asked: "max_completion_tokens" in asked.body, _NEW_LIMIT),
    "no_response_format": _Refusal(
        lambda asked: "response_format" in asked.body, "Unrecognized request argument supplied: response_format"
    ),
    "no_json_schema": _Refusal(lambda asked: _format(asked) == "json_schema", _SCHEMA),
    "no_json_object": _Refusal(lambda asked: _format(asked) == "json_object", _SCHEMA, "response_format"),
    "no_system": _Refusal(
        lambda asked: bool(asked.system),
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "messages[0].role",
        "unsupported_value",
    ),
}
_OF_ANTHROPIC: dict[str, _Refusal] = {
    "no_temperature": _Refusal(
        lambda asked: "temperature" in asked.body, "`temperature` is deprecated for this model."
    ),
    "no_top_p": _Refusal(
        lambda asked: {"top_p", "temperature"} <= asked.body.keys(),
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
    ),
    "no_effort": _Refusal(
        lambda asked: "effort" in (asked.body.get("output_config") or {}),
        "This model does not support the effort parameter.",
    ),
    "no_budget": _Refusal(
        lambda asked: (asked.body.get("thinking") or {}).get("type") == "enabled",
        '"thinking.type.enabled" is not supported for this model.',
    ),
    "no_json_schema": _Refusal(
        lambda asked: "format" in (asked.body.get("output_config") or {}),
        "output_config.format: Extra inputs are not permitted",
    ),
    "no_system": _Refusal(lambda asked: "system" in asked.body, "system: Extra inputs are not permitted"),
}


def refusal_of(asked: Asked, quirks: Sequence[str], flavour: str) -> tuple[int, Any] | None:
    """The status and the error body for the first thing that the server does not take, or None."""
    known = _OF_ANTHROPIC if asked.dialect == "anthropic" else _REFUSALS
    met = next((name for name in quirks if name in known and known[name].is_met(asked)), None)
    if met is None:
        return None
    refusal = known[met]
    special: dict[str, str] = {"no_json_schema": _NO_SCHEMA, "no_system": _NO_SYSTEM}.get(met, {})
    message = special.get(flavour, refusal.message) if asked.dialect == "openai" else refusal.message
    message = message.format(temperature=asked.body.get("temperature"), format=_format(asked))
    return refusal.status, _error(asked, flavour, message, refusal)


def _error(asked: Asked, flavour: str, message: str, refusal: _Refusal) -> Any:
    if asked.dialect == "anthropic":
        error = {"type": "invalid_request_error", "message": message}
        return {"type": "error", "error": error, "request_id": "req_test"}
    match flavour:
        case "vllm":
            return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}
        case "llama_cpp":
            return {"error": {"code": 400, "message": message, "type": "invalid_request_error"}}
        case "ollama":
            return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
        case _:
            kind = "invalid_request_error"
            return {"error": {"message": message, "type": kind, "param": refusal.param, "code": refusal.code}}
