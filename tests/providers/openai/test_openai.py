"""What only Chat Completions can answer."""

from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.openai.replies import read_reply
from redraft.providers.shared.failures import Answer, Vendor
from redraft.providers.shared.protocol import ReplySchema
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from tests.model_server import ModelServer, Reply
from tests.providers.conftest import Ask, Fail, chat_for

TOOL_CALL = {"id": "t1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}


def completion(message: dict[str, Any], finish: str | None = "stop", **rest: Any) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return Reply(raw={"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], **rest})


@pytest.mark.parametrize(
    ("reply", "code", "told"),
    [
        (completion({"content": ""}, "length"), "output_truncated", "truncated before text"),
        (completion({"content": "", "reasoning": "The user wants"}), "empty_output", "reasoning only"),
        (completion({"content": None, "reasoning_content": "Hm"}), "empty_output", "reasoning only"),
        (completion({"content": None}), "empty_output", "no text"),
        (completion({"content": [{"type": "thinking", "text": "Hm"}]}), "empty_output", "reasoning only"),
        (completion({"content": [{"type": "wibble", "text": "Hm"}]}), "empty_output", "in a known form"),
        (completion({"content": {"text": "Paris."}}), "empty_output", "in a known form"),
        (completion({"content": [{"type": "refusal", "refusal": "No."}]}), "refused", "No."),
        (Reply(raw={"choices": [{"text": "Paris.", "finish_reason": "stop"}]}), "empty_output", "in a known form"),
        (completion({}), "empty_output", "no text"),
        (completion({"content": None, "tool_calls": [TOOL_CALL]}, "tool_calls"), "empty_output", "tool call only"),
        (completion({"content": None, "refusal": "I can't help."}), "refused", "I can't help."),
        (completion({"content": "The first step is"}, "content_filter"), "content_filtered", "filter"),
        (Reply(raw={"choices": []}), "empty_output", "no text"),
        (Reply(raw={"choices": None}), "empty_output", "no text"),
        (Reply(raw={"choices": [None]}), "empty_output", "no text"),
        (Reply(raw={}), "empty_output", "no text"),
        (
            Reply(raw={"choices": None, "error": {"message": "Provider returned error", "code": 502}}),
            "provider_unavailable",
            "Provider returned error",
        ),
        (Reply(raw={"error": "boom"}), "provider_unavailable", "boom"),
        # a normal end that is none
        (completion({"content": "Half", "tool_calls": [TOOL_CALL]}), "empty_output", "incomplete"),
        (completion({"content": None, "tool_calls": [TOOL_CALL]}), "empty_output", "tool call only"),
        (completion({"content": "Half"}, error={"message": "died"}), "provider_unavailable", "died"),
        (completion({"content": "Half"}, None, error={"message": "died"}), "provider_unavailable", "died"),
        (completion({"content": "Half"}, None, finish_reason="length"), "output_truncated", "cut off"),
        (
            Reply(raw={"choices": [{"error": {"message": "Too many requests", "code": 429}}]}),
            "provider_rate_limited",
            "Too many requests",
        ),
    ],
)
def test_a_200_without_usable_text_says_why(fail: Fail, reply: Reply, code: str, told: str):
    error = fail("openai", reply)
    assert error.code == code
    assert told in error.message
    assert "None" not in error.message


def test_missing_usage_is_unknown_and_not_zero(server: ModelServer, ask: Ask, catalog: ProviderCatalog):
    for usage in ({}, {"usage": None}, {"usage": {"prompt_tokens": "many"}}):
        server.script(generate=[completion({"content": "Hi."}, **usage)])
        reply = ask("openai")
        assert reply.text == "Hi."
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (None, None)
        assert catalog.price(ModelRef("openai", "gpt-5-mini"), reply.usage) is None


def test_cached_and_reasoning_tokens_are_read(server: ModelServer, ask: Ask):
    server.script(generate=[Reply(text="x", usage={"input": 10, "output": 8, "cached": 4, "reasoning": 3})])
    usage = ask("openai").usage
    assert (usage.cached_input_tokens, usage.reasoning_tokens) == (4, 3)


def test_text_in_parts_is_joined(server: ModelServer, ask: Ask):
    server.script(generate=[completion({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})])
    assert ask("openai").text == "ab"


def test_the_output_limit_has_the_name_that_the_server_knows(settings: Settings):
    chat = chat_for("openai", max_output_tokens=77)
    own = ProviderCatalog(settings).get(chat.model).wire_body(chat)
    vendors = []
    for url in (None, "https://api.openai.com/v1", "https://api.openai.com:443/v1/"):
        their_settings = settings.model_copy(update={"openai_base_url": url})
        vendors.append(ProviderCatalog(their_settings).get(chat.model).wire_body(chat))
    assert own["max_tokens"] == 77
    assert all(body["max_completion_tokens"] == 77 and "max_tokens" not in body for body in vendors)


# Case B13
def test_the_developer_role_is_never_sent(server: ModelServer, ask: Ask):
    ask("openai")
    assert [m["role"] for m in server.requests()[0].body["messages"]] == ["system", "user"]


def test_a_schema_name_is_made_fit(server: ModelServer, ask: Ask):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    ask("openai", reply_schema=ReplySchema("my schema: v1/ä", schema))
    assert server.requests()[0].body["response_format"]["json_schema"]["name"] == "my_schema__v1__"


def test_a_server_of_ones_own_needs_no_key(server: ModelServer, settings: Settings):
    catalog = ProviderCatalog(settings.model_copy(update={"openai_api_key": None}))
    ref = ModelRef("openai", "m")
    catalog.check_configured(ref, "/model")
    made = catalog.get(ref)
    assert CALLS_LOOP.run(made.send(made.wire_body(chat_for("openai")), timeout_s=5)).text == "draft 1"
    catalog.close()


def test_half_done_bodies_never_raise_anything_else():
    shapes: list[Any] = [None, 1, "x", [], {}, [None], [{}], [{"message": None}], [{"message": {"content": 5}}]]
    for shape in shapes:
        with pytest.raises(ProviderError):
            read_reply(Vendor("it", "K", "U"), Answer(200, {"choices": shape, "usage": shape}, {}))
