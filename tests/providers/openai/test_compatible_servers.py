"""Servers that speak a format in their own way, as docs/compatible-servers.md says."""

import json
from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import Chat, ChatReply, Message
from redraft.providers.shared.transport import CALLS_LOOP
from tests.model_server import ModelServer, Reply, Script
from tests.model_server.events import data
from tests.providers.conftest import VERDICT, Ask, Fail, chat_for

SERVERS: dict[str, Script] = {
    "vllm": Script(flavour="vllm", quirks=("no_json_schema", "no_system", "no_max_completion_tokens")),
    "ollama": Script(flavour="ollama", quirks=("no_usage", "no_stream_options"), context_tokens=50),
    "llama_cpp": Script(flavour="llama_cpp", quirks=("no_json_schema", "no_system")),
    "azure": Script(flavour="azure", quirks=("no_max_tokens", "no_temperature", "no_json_schema", "no_stream_options")),
}


def settle(catalog: ProviderCatalog, chat: Chat) -> tuple[ChatReply, int]:
    """The reply, and how many calls were made to learn the server's ways."""
    made = catalog.get(chat.model)
    for calls in range(1, 8):
        try:
            return CALLS_LOOP.run(made.send(made.wire_body(chat), timeout_s=10)), calls
        except ProviderError as error:
            if not error.is_adapted:
                raise
    raise AssertionError("adapted without end")


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("rest", [{}, {"stream": True}])
def test_an_evaluator_comes_to_its_verdict_on_each_server(
    server: ModelServer, catalog: ProviderCatalog, name: str, rest: dict[str, Any]
):
    server.play(SERVERS[name])
    wanted = {"temperature": 0.0, "max_output_tokens": 500, "reply_schema": VERDICT, **rest}
    reply, _ = settle(catalog, chat_for("openai", **wanted))
    assert json.loads(reply.text)["score"] == 0.9
    _, calls = settle(catalog, chat_for("openai", **wanted))
    assert calls == 1


def test_a_prompt_that_is_cut_in_silence_shows_in_the_input_tokens(server: ModelServer, ask: Ask):
    server.play(Script(flavour="ollama", context_tokens=50))
    assert ask("openai", "word " * 500).usage.input_tokens == 50


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        # vLLM
        (
            400,
            {
                "object": "error",
                "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
                "type": "BadRequestError",
                "code": 400,
            },
            "context_too_long",
        ),
        (404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}, "unknown_model"),
        (401, {"error": "Unauthorized"}, "provider_auth"),
        # Ollama
        (404, {"error": {"message": 'model "x" not found, try pulling it first'}}, "unknown_model"),
        (400, {"error": {"message": "the input length exceeds the context length"}}, "context_too_long"),
        (
            500,
            {"error": {"message": "llama runner process has terminated", "type": "api_error"}},
            "provider_unavailable",
        ),
        # llama.cpp
        (
            503,
            {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
            "provider_unavailable",
        ),
        (
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size, try increasing it",
                    "type": "exceed_context_size_error",
                }
            },
            "context_too_long",
        ),
        (401, {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}, "provider_auth"),
        # Azure
        (404, {"error": {"code": "DeploymentNotFound", "message": "No such deployment."}}, "unknown_model"),
        (
            401,
            {"statusCode": 401, "message": "Access denied due to invalid subscription key or wrong API endpoint."},
            "provider_auth",
        ),
        (
            400,
            {
                "error": {
                    "message": "The response was filtered due to the prompt triggering the content management policy.",
                    "param": "prompt",
                    "code": "content_filter",
                    "innererror": {"code": "ResponsibleAIPolicyViolation"},
                }
            },
            "content_filtered",
        ),
        (
            429,
            {"error": {"code": "429", "message": "Requests have exceeded call rate limit."}},
            "provider_rate_limited",
        ),
    ],
)
def test_their_error_bodies_are_understood(fail: Fail, status: int, body: Any, code: str):
    error = fail("openai", Reply(status=status, raw=body))
    assert error.code == code
    assert not error.is_adapted


def test_azures_filter_results_do_not_hinder_a_stream(server: ModelServer, catalog: ProviderCatalog):
    head = {"id": "c", "object": "chat.completion.chunk", "model": "m"}
    filtered = {"content_filter_results": {"hate": {"filtered": False}}}
    events = [
        data({**head, "choices": [], "prompt_filter_results": [{"prompt_index": 0, **filtered}]}),
        data({**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, **filtered}]}),
        data({**head, "choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": None, **filtered}]}),
        data({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        "data: [DONE]\n\n",
    ]
    server.script(generate=[Reply(events=events)])
    heard: list[str] = []
    made = catalog.get(ModelRef("openai", "m"))
    body = made.wire_body(Chat(ModelRef("openai", "m"), "", (Message("user", "x"),), stream=True))
    assert CALLS_LOOP.run(made.send(body, timeout_s=5, on_delta=heard.append)).text == "Hi."
    assert heard == ["Hi."]
