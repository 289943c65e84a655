"""What only Messages can answer."""

from dataclasses import replace
from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import Chat, Message
from redraft.providers.shared.transport import CALLS_LOOP
from tests.model_server import ModelServer, Reply
from tests.providers.conftest import Ask, Fail


def message(content: Any, stop: str | None = "end_turn", usage: Any = None, **rest: Any) -> Reply:
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content}
    return Reply(raw={**body, "stop_reason": stop, "usage": usage, **rest})


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


THINKING = {"type": "thinking", "thinking": "secret plan", "signature": "c2ln"}
TOOL_USE = {"type": "tool_use", "id": "t", "name": "lookup", "input": {}}


def test_thinking_is_skipped_and_text_blocks_are_joined(server: ModelServer, ask: Ask):
    server.script(generate=[message([THINKING, text("Par"), text("is.")])])
    assert ask("anthropic").text == "Paris."


@pytest.mark.parametrize(
    ("reply", "code", "told"),
    [
        (message([], "refusal"), "refused", "refused"),
        (message([], "refusal", stop_details={"explanation": "Too risky."}), "refused", "Too risky."),
        (message([text("I must stop")], "refusal"), "refused", "I must stop"),
        (message([text("Half")], "max_tokens"), "output_truncated", "cut off"),
        (message([THINKING], "max_tokens"), "output_truncated", "truncated before text"),
        (message([text("Half")], "model_context_window_exceeded"), "context_too_long", "context"),
        (message([TOOL_USE], "tool_use"), "empty_output", "tool call only"),
        (message([{"type": "text", "text": "Half"}, TOOL_USE], "end_turn"), "empty_output", "incomplete"),
        (message([THINKING]), "empty_output", "no text"),
        (message([{"type": {}, "text": "secret"}]), "empty_output", "no text"),
        (message(None), "empty_output", "no text"),
        (message([None, text("")]), "empty_output", "no text"),
        (
            Reply(raw={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            "provider_unavailable",
            "Overloaded",
        ),
    ],
)
def test_a_200_without_usable_text_says_why(fail: Fail, reply: Reply, code: str, told: str):
    error = fail("anthropic", reply)
    assert error.code == code
    assert told in error.message
    assert "secret plan" not in error.message


def test_input_tokens_include_the_cache(server: ModelServer, ask: Ask):
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 5,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    server.script(generate=[message([text("x")], usage=usage)])
    got = ask("anthropic").usage
    assert (got.input_tokens, got.cached_input_tokens, got.cache_write_tokens) == (45, 30, 5)
    assert (got.output_tokens, got.reasoning_tokens) == (7, 3)


def test_missing_usage_is_unknown_and_not_zero(server: ModelServer, ask: Ask):
    server.script(generate=[message([text("x")])])
    assert ask("anthropic").usage.input_tokens is None


@pytest.mark.parametrize("reason", ["pause_turn", "PAUSE_TURN"])
def test_a_paused_turn_is_sent_back_unchanged_and_continued(server: ModelServer, ask: Ask, reason: str):
    first = [text("I looked this up. ")]
    server.script(
        generate=[
            message(first, reason, {"input_tokens": 100, "output_tokens": 50}),
            message([text("It is 42.")], "end_turn", {"input_tokens": 160, "output_tokens": 10}),
        ]
    )
    reply = ask("anthropic")
    assert reply.text == "I looked this up. It is 42."
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (260, 60)
    assert len(reply.response) == 2
    second = server.requests()[1].body["messages"]
    assert second[-1] == {"role": "assistant", "content": first}
    assert len(second) == 2


def test_pauses_without_end_stop_after_five_continuations(server: ModelServer, ask: Ask):
    server.script(generate=[message([text("still ")], "pause_turn")])
    with pytest.raises(ProviderError, match="paused its turn 6 times") as caught:
        ask("anthropic")
    assert not caught.value.retryable
    assert len(server.requests()) == 6


def test_max_tokens_is_always_sent(server: ModelServer, ask: Ask):
    ask("anthropic")
    ask("anthropic", max_output_tokens=9)
    assert [entry.body["max_tokens"] for entry in server.requests()] == [8192, 9]


def test_a_long_stable_part_ends_with_a_cache_breakpoint_and_nothing_is_lost(catalog: ProviderCatalog):
    text_sent = "s" * 5000 + "t" * 100 + "u" * 100
    chat = Chat(ModelRef("anthropic", "m"), "", (Message("user", text_sent, (4000, 5000, 5100)),))
    (turn,) = catalog.get(chat.model).wire_body(chat)["messages"]
    assert [len(part["text"]) for part in turn["content"]] == [5000, 100, 100]
    assert [part.get("cache_control") for part in turn["content"]] == [{"type": "ephemeral"}] * 2 + [None]
    assert "".join(part["text"] for part in turn["content"]) == text_sent
    repeated = replace(chat, messages=(Message("user", "s" * 5000 + "  u", (5000, 5000, 5002)),))
    (blank,) = catalog.get(chat.model).wire_body(repeated)["messages"]
    assert [len(part["text"]) for part in blank["content"]] == [5000, 3]
    (short,) = catalog.get(chat.model).wire_body(replace(chat, messages=(Message("user", "x" * 4000, (3000,)),)))[
        "messages"
    ]
    assert short["content"] == "x" * 4000


def test_no_blank_turn_and_no_trailing_blank_is_sent(server: ModelServer, catalog: ProviderCatalog):
    turns = (
        Message("user", "What is 2+2?  \n"),
        Message("assistant", "  "),
        Message("user", "\n"),
        Message("assistant", "It is \n"),
    )
    ref = ModelRef("anthropic", "m")
    made = catalog.get(ref)
    CALLS_LOOP.run(made.send(made.wire_body(Chat(ref, "  \n ", turns)), timeout_s=5))
    body = server.requests()[0].body
    assert [m["content"] for m in body["messages"]] == ["What is 2+2?  \n", "It is"]
    assert "system" not in body


def test_credit_that_is_used_up_is_quota_although_it_is_a_400(fail: Fail):
    told = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
    error = fail(
        "anthropic",
        Reply(status=400, raw={"type": "error", "error": {"type": "invalid_request_error", "message": told}}),
    )
    assert error.code == "provider_quota"
    assert "ANTHROPIC_API_KEY" in error.message
    assert "billing" in error.message
