"""Which adaptation follows from a refusal, in the words that providers really use; for which calls it is learned."""

from itertools import combinations
from typing import Any

import pytest

from redraft.providers.shared.capabilities import CapabilityMemory
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer
from redraft.providers.shared.refusals import adaptation_for
from tests.providers.refusal_bodies import anthropic, forbidden, llama_cpp, openai, vllm

OPENAI_SENT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
    "temperature": 0.2,
    "max_completion_tokens": 100,
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    "stream": True,
    "stream_options": {"include_usage": True},
}
OWN_SENT = {k: v for k, v in OPENAI_SENT.items() if k != "max_completion_tokens"} | {"max_tokens": 100}
LOOSE_SENT = {**OWN_SENT, "response_format": {"type": "json_object"}}
ANTHROPIC_SENT: dict[str, Any] = {
    "model": "m",
    "system": "s",
    "messages": [{"role": "user", "content": "u"}],
    "max_tokens": 100,
    "temperature": 0.2,
    "output_config": {"format": {"type": "json_schema", "schema": {}}},
}


USE_NEW_LIMIT = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
ONE_TEMPERATURE = (
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported."
)
NO_SCHEMA = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
NO_SYSTEM = "Unsupported value: 'messages[0].role' does not support 'system' with this model."

CACHED_PART = {"type": "text", "text": "u", "cache_control": {"type": "ephemeral"}}
CACHED_SENT = {**ANTHROPIC_SENT, "messages": [{"role": "user", "content": [CACHED_PART]}]}
NO_CACHE = "messages.0.content.0.cache_control: Extra inputs are not permitted"

REFUSALS: list[tuple[dict[str, Any], int, Any, str | None]] = [
    # the output limit's name
    (OWN_SENT, 400, openai(USE_NEW_LIMIT, "max_tokens", "unsupported_parameter"), "other_limit_name"),
    (
        OPENAI_SENT,
        400,
        openai("Unrecognized request argument supplied: max_completion_tokens"),
        "other_limit_name",
    ),
    (OPENAI_SENT, 422, forbidden("body", "max_completion_tokens"), "other_limit_name"),
    # temperature
    (OPENAI_SENT, 400, openai("参数 temperature 不支持"), "no_temperature"),
    (OPENAI_SENT, 400, openai("Le paramètre temperature n'est pas pris en charge."), "no_temperature"),
    (OWN_SENT, 400, openai("messages.0.role: Input should be 'user' or 'assistant'"), "system_in_turn"),
    (OWN_SENT, 400, openai("Supported values are: 'user' and 'assistant'.", "messages[0].role"), "system_in_turn"),
    (OPENAI_SENT, 400, openai(ONE_TEMPERATURE, "temperature", "unsupported_value"), "no_temperature"),
    (
        OPENAI_SENT,
        400,
        openai("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        "no_temperature",
    ),
    (OWN_SENT, 400, openai("invalid temperature: only 1 is allowed for this model"), "no_temperature"),
    (ANTHROPIC_SENT, 400, anthropic("`temperature` is deprecated for this model."), "no_temperature"),
    (CACHED_SENT, 400, anthropic(NO_CACHE), "no_cache_control"),
    (ANTHROPIC_SENT, 400, anthropic(NO_CACHE), None),
    (
        ANTHROPIC_SENT,
        400,
        anthropic("`temperature` may only be set to 1 when thinking is enabled."),
        "no_temperature",
    ),
    # the schema: each refusal leads to the next looser form
    (OPENAI_SENT, 400, openai(NO_SCHEMA, None), "json_object"),
    (
        OPENAI_SENT,
        400,
        openai("Invalid schema for response_format 'n': schema is too deep.", "response_format", "invalid"),
        "json_object",
    ),
    (
        OWN_SENT,
        400,
        openai("Invalid parameter: 'response_format' must be one of 'json_object', 'text'.", "response_format"),
        "json_object",
    ),
    (
        OWN_SENT,
        400,
        {
            "error": {
                "message": "response_format value as json_schema is enabled only for api versions 2024-08-01-preview"
                " and later",
                "code": "BadRequest",
            }
        },
        "json_object",
    ),
    (OWN_SENT, 400, openai("This response_format type is unavailable now"), "json_object"),
    (OWN_SENT, 400, vllm("The provided JSON schema contains features not supported by xgrammar."), "json_object"),
    (OWN_SENT, 400, vllm("Grammar error: Unknown format: uri"), "json_object"),
    (OWN_SENT, 400, llama_cpp("Failed to initialize samplers: failed to parse grammar"), "json_object"),
    (OWN_SENT, 400, openai("Unrecognized request argument supplied: response_format"), "schema_in_words"),
    (
        LOOSE_SENT,
        400,
        openai("Invalid parameter: 'response_format' of type 'json_object' is not supported with this model."),
        "schema_in_words",
    ),
    (LOOSE_SENT, 422, forbidden("body", "response_format"), "schema_in_words"),
    (ANTHROPIC_SENT, 400, anthropic("output_config.format: Extra inputs are not permitted"), "schema_in_words"),
    (ANTHROPIC_SENT, 400, anthropic("output_config: Extra inputs are not permitted"), "schema_in_words"),
    (ANTHROPIC_SENT, 400, anthropic("This model does not support structured outputs."), "schema_in_words"),
    # the system role
    (OPENAI_SENT, 400, openai(NO_SYSTEM, "messages[0].role", "unsupported_value"), "system_in_turn"),
    (OWN_SENT, 400, vllm("System role not supported"), "system_in_turn"),
    (
        OWN_SENT,
        400,
        vllm("Conversation roles must alternate user/assistant/user/assistant/..."),
        "system_in_turn",
    ),
    (OWN_SENT, 400, openai("Developer instruction is not enabled for models/gemma-3-27b-it"), "system_in_turn"),
    (OWN_SENT, 400, llama_cpp("Only user and assistant roles are supported!"), "system_in_turn"),
    (ANTHROPIC_SENT, 400, anthropic("system: Extra inputs are not permitted"), "system_in_turn"),
    (OWN_SENT, 500, llama_cpp("Error: Jinja Exception: System role not supported"), "system_in_turn"),
    (OWN_SENT, 500, {"error": {"message": "Grammar error: Unimplemented keys", "code": 500}}, "json_object"),
    (OWN_SENT, 500, llama_cpp("Jinja Exception: Only user, system and assistant roles are supported!"), None),
    # what streams ask for
    (OWN_SENT, 400, openai("Unknown parameter: 'stream_options'.", "stream_options"), "no_stream_options"),
    (OWN_SENT, 422, forbidden("body", "stream_options"), "no_stream_options"),
    (
        OWN_SENT,
        400,
        {"detail": "Extra parameters ['stream_options'] are not allowed when extra-parameters is not set."},
        "no_stream_options",
    ),
    # refusals without an adaptation
    (OPENAI_SENT, 400, openai("Unknown parameter: 'max_tokens'.", "max_tokens"), None),
    (OWN_SENT, 400, openai("max_tokens is too large: 9. This model supports at most 5.", "max_tokens"), None),
    (OWN_SENT, 400, vllm("This model's maximum context length is 8 tokens, max_tokens is not supported"), None),
    (ANTHROPIC_SENT, 400, anthropic("max_tokens: 9 > 5, which is the maximum allowed number of tokens"), None),
    (ANTHROPIC_SENT, 400, anthropic("max_tokens: Extra inputs are not permitted"), None),
    (OPENAI_SENT, 400, openai("Invalid 'temperature': decimal above maximum value.", "temperature"), None),
    (ANTHROPIC_SENT, 400, anthropic("temperature: range: 0..1"), None),
    (OPENAI_SENT, 400, openai("Invalid value for 'content': expected a string, got null."), None),
    (OPENAI_SENT, 400, openai("Unsupported parameter: 'top_p'", "top_p", "unsupported_parameter"), None),
    (OPENAI_SENT, 400, openai("filtered: temperature unsupported", None, "content_filter"), None),
    (OPENAI_SENT, 401, openai(ONE_TEMPERATURE, "temperature", "unsupported_value"), None),
    (OPENAI_SENT, 500, openai(ONE_TEMPERATURE, "temperature", "unsupported_value"), None),
    (OPENAI_SENT, 400, "bad request", None),
    ({"model": "m", "messages": []}, 400, openai(ONE_TEMPERATURE, "temperature", "unsupported_value"), None),
    ({"model": "m", "messages": []}, 400, openai(NO_SCHEMA), None),
    ({"model": "m", "messages": []}, 400, vllm("System role not supported"), None),
]


THINKING: dict[str, Any] = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}
BUDGET: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 4096}}
LEARNED: list[tuple[dict[str, Any], str, str | None, dict[str, set[str]]]] = [
    # learned for the whole model
    ({"temperature": 0.2}, "`temperature` is deprecated for this model.", None, {"x": {"no_temperature"}}),
    ({"seed": 3}, "Unrecognized request argument supplied: seed", None, {"x": {"no_seed"}}),
    # learned only for a value, or for a combination of settings
    (
        {"temperature": 1.5},
        "temperature: values above 1 are not supported",
        None,
        {"x#temperature=1.5": {"no_temperature"}},
    ),
    ({"seed": 2**62}, "seed: integer above 2147483647 not supported", None, {f"x#seed={2**62}": {"no_seed"}}),
    (
        {"temperature": 0.2, "top_p": 0.5},
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        None,
        {"x#temperature=0.2#top_p=0.5": {"no_top_p"}},
    ),
    (
        {"temperature": 0.2, **THINKING},
        "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
        None,
        {"x#temperature=0.2#reasoning=on": {"no_temperature"}},
    ),
    (
        {"top_p": 0.5, **BUDGET},
        "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.",
        None,
        {"x#top_p=0.5#reasoning=on": {"no_top_p"}},
    ),
    (
        {"temperature": 0.2, "reasoning_effort": "high"},
        "Unsupported parameter: 'temperature' is only supported when reasoning_effort is 'none'.",
        None,
        {"x#temperature=0.2#reasoning=on": {"no_temperature"}},
    ),
    # learned only for an effort or a budget
    (THINKING, "This model does not support the effort parameter.", None, {"x#effort=high": {"effort_as_budget"}}),
    (BUDGET, "thinking is not supported by this model", None, {"x#budget=4096": {"no_reasoning_effort"}}),
    (
        {"reasoning": {"effort": "xhigh"}},
        "Invalid value: 'xhigh'. Supported values are: 'low' and 'high'.",
        "reasoning.effort",
        {"x#effort=xhigh": {"no_reasoning_effort"}},
    ),
    # another part of the request is refused, or no part: nothing about the settings is learned
    (BUDGET, "`max_tokens` must be greater than `thinking.budget_tokens`", None, {}),
    (THINKING, "messages.0.content.1: image exceeds 5 MB maximum for model x-thinking", None, {}),
    (THINKING, "Prefilling the assistant's turn is not supported when thinking is enabled.", None, {}),
    (
        {"reasoning_effort": "high"},
        "Invalid prompt: flagged. This is not allowed: https://host/docs/guides/reasoning#advice",
        None,
        {},
    ),
    (
        {"reasoning_effort": "high"},
        "Function tools with reasoning_effort are not supported for y. Please use /v1/responses instead.",
        None,
        {},
    ),
    (
        {"temperature": 0.2},
        "This model is only supported in v1/responses and not in v1/chat/completions.",
        None,
        {"x": {"responses_api"}},
    ),
]


@pytest.mark.parametrize(("sent", "message", "param", "learned"), LEARNED)
def test_a_refusal_is_learned_only_for_what_it_names(
    sent: dict[str, Any], message: str, param: str | None, learned: dict[str, set[str]]
):
    model = "x-thinking" if "x-thinking" in message else "x"
    body = {"model": model, "messages": [{"role": "user", "content": "u"}], "max_tokens": 100, **sent}
    error = failure_of_answer(Vendor("it", "K", "U"), Answer(400, openai(message, param), {}))
    memory = CapabilityMemory()
    memory.adapt(error, body)
    assert error.is_adapted == bool(learned)
    settings = ("temperature=0.2", "temperature=1.5", "top_p=0.5", f"seed={2**62}", "seed=3")
    settings += ("effort=high", "effort=xhigh", "reasoning=on", "budget=4096")
    names = ["#".join([model, *group]) for size in range(4) for group in combinations(settings, size)]
    assert {name: set(memory.of(name)) for name in names if memory.of(name)} == learned


@pytest.mark.parametrize(("sent", "status", "body", "adaptation"), REFUSALS)
def test_each_refusal_has_its_adaptation(sent: dict[str, Any], status: int, body: Any, adaptation: str | None):
    error = failure_of_answer(Vendor("it", "K", "U"), Answer(status, body, {}))
    first = None if sent is ANTHROPIC_SENT else "max_completion_tokens" if sent is OPENAI_SENT else "max_tokens"
    assert adaptation_for(error, sent, limit_name=first) == adaptation
