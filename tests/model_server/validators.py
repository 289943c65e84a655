"""Refuse what the real APIs refuse, so that a test passes only with requests they would take."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.model_server.requests import Asked

_OPENAI_FIELDS = frozenset(
    {"model", "messages", "response_format", "temperature", "top_p", "max_tokens", "max_completion_tokens"}
    | {"stream", "stream_options", "stop", "seed", "n", "user", "metadata", "reasoning_effort"}
)
_RESPONSES_FIELDS = frozenset(
    {"model", "input", "instructions", "text", "temperature", "top_p", "max_output_tokens", "stream", "store"}
    | {"reasoning", "metadata"}
)
_ANTHROPIC_FIELDS = frozenset(
    {"model", "messages", "system", "max_tokens", "temperature", "top_p", "top_k", "stream"}
    | {"stop_sequences", "metadata", "output_config", "thinking"}
)
_SCHEMA_KEYS_REFUSED = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"}
    | {"format", "default", "pattern", "minItems", "maxItems", "uniqueItems", "patternProperties"}
    | {"oneOf", "allOf", "not", "if", "then", "else"}
)


def error_of(asked: Asked) -> str | None:
    """The first thing wrong with a request in the words of its API, or None."""
    checks = {"openai": _OPENAI, "responses": _RESPONSES, "anthropic": _ANTHROPIC}[asked.dialect]
    return next((error for check in checks for error in check(asked)), None)


def _fields_openai(asked: Asked) -> Iterator[str]:
    for name in asked.body.keys() - _OPENAI_FIELDS:
        yield f"Unrecognized request argument supplied: {name}"
    if not isinstance(asked.body.get("model"), str) or not asked.model:
        yield "you must provide a model parameter"


def _messages_openai(asked: Asked) -> Iterator[str]:
    if not asked.messages:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1"
    for n, message in enumerate(asked.messages):
        if message.get("role") not in {"system", "user", "assistant"}:
            yield f"Invalid value: '{message.get('role')}' at 'messages[{n}].role'"
        if not isinstance(message.get("content"), str | list):
            yield f"Invalid value for 'content': expected a string, got null at 'messages[{n}]'"


def _parts_openai(asked: Asked) -> Iterator[str]:
    for part in _parts(asked):
        kind = part.get("type")
        if kind == "image_url" and not _is_data_url(part["image_url"].get("url"), r"image/\w+"):
            yield "Invalid 'image_url': expected a base64-encoded data URL"
        file = part.get("file") or {}
        if kind == "file" and not (_is_data_url(file.get("file_data"), "application/pdf") and file.get("filename")):
            yield "Invalid 'file_data': expected a base64-encoded data URL, and a filename"
        if kind not in {"text", "image_url", "file"}:
            yield f"Invalid value: '{kind}'. Supported values are: 'text', 'image_url', 'file'"


def _parts(asked: Asked) -> list[dict[str, Any]]:
    contents = [message.get("content") for message in asked.messages]
    return [part for content in contents if isinstance(content, list) for part in content]


def _is_data_url(value: Any, media_type: str) -> bool:
    found = re.fullmatch(rf"data:{media_type};base64,(.+)", str(value))
    return found is not None and _is_base64(found[1])


def _is_base64(value: Any) -> bool:
    try:
        return bool(base64.b64decode(str(value), validate=True))
    except binascii.Error:
        return False


def _fields_responses(asked: Asked) -> Iterator[str]:
    for name in asked.body.keys() - _RESPONSES_FIELDS:
        yield f"Unknown parameter: '{name}'."


def _format_responses(asked: Asked) -> Iterator[str]:
    wanted = (asked.body.get("text") or {}).get("format") or {}
    if wanted.get("type") == "json_schema":
        if not str(wanted.get("name", "")).replace("_", "").replace("-", "").isalnum():
            yield "Invalid 'text.format.name'"
        if wanted.get("strict"):
            yield from schema_errors(wanted.get("schema"))


def _format_openai(asked: Asked) -> Iterator[str]:
    wanted = asked.body.get("response_format") or {}
    if wanted.get("type") == "json_object" and "json" not in asked.prompt.lower():
        yield "'messages' must contain the word 'json' in some form"
    if wanted.get("type") == "json_schema":
        named = wanted.get("json_schema") or {}
        if not str(named.get("name", "")).replace("_", "").replace("-", "").isalnum():
            yield "Invalid 'response_format.json_schema.name'"
        if named.get("strict"):
            yield from schema_errors(named.get("schema"))


def _temperature(asked: Asked) -> Iterator[str]:
    value = asked.body.get("temperature", 0)
    most = 1 if asked.dialect == "anthropic" else 2
    if not isinstance(value, int | float) or not 0 <= value <= most:
        yield f"temperature: range: 0..{most}"


def _fields_anthropic(asked: Asked) -> Iterator[str]:
    for name in asked.body.keys() - _ANTHROPIC_FIELDS:
        yield f"{name}: Extra inputs are not permitted"
    if "anthropic-version" not in asked.headers:
        yield "anthropic-version: header is required"
    budget = asked.body.get("max_tokens")
    if not isinstance(budget, int) or budget < 1:
        yield "max_tokens: Field required"


def _messages_anthropic(asked: Asked) -> Iterator[str]:
    if not asked.messages:
        yield "messages: at least one message is required"
    for message in asked.messages:
        if message.get("role") not in {"user", "assistant"}:
            yield f'messages: Unexpected role "{message.get("role")}"'
    last = asked.messages[-1] if asked.messages else {}
    # A list of blocks is a paused turn that is sent back unchanged.
    content = last.get("content")
    if last.get("role") == "assistant" and isinstance(content, str) and content != content.rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _blocks_anthropic(asked: Asked) -> Iterator[str]:
    if "system" in asked.body and not all(text.strip() for text in _texts(asked.body["system"])):
        yield "system: text content blocks must be non-empty"
    for message in asked.messages:
        if not all(text.strip() for text in _texts(message.get("content"))):
            yield "messages: text content blocks must be non-empty"


def _media_anthropic(asked: Asked) -> Iterator[str]:
    for block in _parts(asked):
        kind, source = block.get("type"), block.get("source") or {}
        if kind not in {"image", "document"}:
            continue
        types = r"application/pdf" if kind == "document" else r"image/(png|jpeg|gif|webp)"
        if source.get("type") != "base64" or not re.fullmatch(types, str(source.get("media_type"))):
            yield f"messages: {kind}.source: Input should be a base64 source of a supported media type"
        if not _is_base64(source.get("data")):
            yield f"messages: {kind}.source.base64: invalid base64 data"


def _format_anthropic(asked: Asked) -> Iterator[str]:
    wanted = (asked.body.get("output_config") or {}).get("format") or {}
    if wanted:
        yield from schema_errors(wanted.get("schema"))


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [str(b.get("text", "")) for b in content or [] if b.get("type") == "text"]


def schema_errors(schema: Any) -> Iterator[str]:
    """The rules of strict mode, over every subschema."""
    if not isinstance(schema, Mapping):
        yield "Invalid schema: not an object"
        return
    for key in schema.keys() & _SCHEMA_KEYS_REFUSED:
        yield f"Invalid schema: '{key}' is not permitted"
    properties = schema.get("properties", {})
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            yield "Invalid schema: 'additionalProperties' is required to be supplied and to be false"
        if set(schema.get("required", [])) != set(properties):
            yield "Invalid schema: 'required' is required to be an array including every key in properties"
    nested = [*properties.values(), *schema.get("anyOf", []), *schema.get("$defs", {}).values()]
    for child in [*nested, *([schema["items"]] if "items" in schema else [])]:
        yield from schema_errors(child)


_Check = Callable[[Asked], Iterator[str]]
_OPENAI: tuple[_Check, ...] = (_fields_openai, _messages_openai, _parts_openai, _format_openai, _temperature)
_RESPONSES: tuple[_Check, ...] = (_fields_responses, _messages_openai, _format_responses, _temperature)
_ANTHROPIC: tuple[_Check, ...] = (
    _fields_anthropic,
    _messages_anthropic,
    _blocks_anthropic,
    _media_anthropic,
    _format_anthropic,
    _temperature,
)
