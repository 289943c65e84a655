"""Streamed replies: the same as unstreamed ones, told in pieces that add up to their text, or not at all."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.anthropic.streams import AnthropicEvents
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.openai.streams import OpenAIChunks
from redraft.providers.shared.protocol import UnusableReply
from redraft.providers.shared.transport import CALLS_LOOP
from tests.model_server import ModelServer, Reply
from tests.model_server.events import data, named
from tests.providers.anthropic.test_anthropic import THINKING, TOOL_USE, message, text
from tests.providers.conftest import VERDICT, Ask, Stream, chat_for, told_of
from tests.providers.openai.test_openai import TOOL_CALL, completion
from tests.support.waiting import patient, wait_until


def test_the_pieces_are_told_as_they_come_and_add_up(server: ModelServer, stream: Stream, dialect: str):
    pieces = ["Pa", "ris", " is 水😀", ".\n"]
    told = told_of(server, stream, dialect, Reply(text="".join(pieces), pieces=pieces, pause_s=0.15))
    assert told.pieces == pieces
    assert told.reply is not None
    assert told.reply.text == "".join(pieces)
    assert told.at[-1] - told.at[0] > 0.3


def test_a_streamed_reply_is_what_the_unstreamed_one_is(server: ModelServer, ask: Ask, stream: Stream, dialect: str):
    usage = {"input": 20, "output": 5, "cached": 3, "reasoning": 2}
    headers = {"x-ratelimit-remaining-requests": "9"}
    server.script(generate=[Reply(text="Paris it is.", usage=usage, headers=headers)])
    whole, told = ask(dialect), stream(dialect).reply
    assert told is not None
    assert (told.text, told.finish_reason, told.usage) == (whole.text, whole.finish_reason, whole.usage)
    assert (told.http_status, told.headers) == (whole.http_status, whole.headers)
    ids = {"id", "system_fingerprint"}
    bare = [{k: v for k, v in body.items() if k not in ids} for body in (told.response, whole.response)]
    for body in bare:
        for choice in body.get("choices", ()):
            choice.pop("logprobs", None)
            choice["message"].pop("refusal", None)
    assert bare[0] == bare[1]


def test_the_body_is_sent_as_planned_and_asks_for_usage(
    server: ModelServer, stream: Stream, catalog: ProviderCatalog, dialect: str
):
    planned = catalog.get(ModelRef(dialect, "m")).wire_body(chat_for(dialect, stream=True))
    stream(dialect)
    assert server.requests()[0].body == planned
    assert planned["stream"] is True
    assert planned.get("stream_options") == ({"include_usage": True} if dialect == "openai" else None)


def test_a_schema_may_be_streamed(server: ModelServer, stream: Stream, dialect: str):
    server.script(evaluate=[0.4])
    told = stream(dialect, reply_schema=VERDICT)
    assert json.loads(told.text)["score"] == 0.4


def test_without_a_listener_a_stream_is_read_all_the_same(server: ModelServer, catalog: ProviderCatalog, dialect: str):
    server.script(generate=["ok then"])
    made = catalog.get(ModelRef(dialect, "m"))
    assert CALLS_LOOP.run(made.send(made.wire_body(chat_for(dialect, stream=True)), timeout_s=5)).text == "ok then"


def test_a_server_that_ignores_streaming_is_told_at_once(server: ModelServer, stream: Stream, dialect: str):
    server.script(generate=["all at once"], quirks=("ignores_stream",))
    assert stream(dialect).pieces == ["all at once"]


@pytest.mark.parametrize(
    ("dialect", "reply"),
    [
        ("openai", completion({"content": ""}, "length")),
        ("openai", completion({"content": "Half"}, "length")),
        ("openai", completion({"content": "", "reasoning": "The user wants"})),
        ("openai", completion({"content": None, "reasoning_content": "Hm"})),
        ("openai", completion({"content": None})),
        ("openai", completion({})),
        ("openai", completion({"content": " \n"})),
        ("openai", completion({"content": None, "tool_calls": [TOOL_CALL]}, "tool_calls")),
        ("openai", completion({"content": None, "refusal": "I can't help."})),
        ("openai", completion({"content": "The first step is"}, "content_filter")),
        ("openai", Reply(raw={"choices": []})),
        ("openai", Reply(raw={"choices": None})),
        ("openai", Reply(raw={"choices": [None]})),
        ("openai", Reply(raw={"choices": None, "error": {"message": "Provider returned error", "code": 502}})),
        ("openai", Reply(raw={"error": "boom"})),
        ("openai", Reply(raw={"choices": [{"error": {"message": "Too many requests", "code": 429}}]})),
        ("anthropic", message([], "refusal")),
        ("anthropic", message([], "refusal", stop_details={"explanation": "Too risky."})),
        ("anthropic", message([text("I must stop")], "refusal")),
        ("anthropic", message([text("Half")], "max_tokens")),
        ("anthropic", message([THINKING], "max_tokens")),
        ("anthropic", message([text("Half")], "model_context_window_exceeded")),
        ("anthropic", message([TOOL_USE], "tool_use")),
        ("anthropic", message([THINKING])),
        ("anthropic", message(None)),
        ("anthropic", message([None, text("")])),
        ("anthropic", Reply(raw={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})),
    ],
)
def test_a_200_without_usable_text_says_the_same_why_streamed(
    server: ModelServer, ask: Ask, stream: Stream, dialect: str, reply: Reply
):
    server.script(generate=[reply])
    with pytest.raises(ProviderError) as caught:
        ask(dialect)
    error = stream(dialect).error
    assert error is not None
    assert (error.code, error.message) == (caught.value.code, caught.value.message)
    assert (type(error), error.http_status) == (type(caught.value), 200)
    if isinstance(error, UnusableReply):
        assert isinstance(caught.value, UnusableReply)
        assert (error.usage, error.finish_reason) == (caught.value.usage, caught.value.finish_reason)


def test_thinking_is_never_told(server: ModelServer, stream: Stream):
    blocks = [THINKING, text("Par"), TOOL_USE | {"input": {"q": "x"}}, text("is.")]
    told = told_of(server, stream, "anthropic", message(blocks))
    assert told.text == "Paris."
    assert told.reply is not None
    assert told.reply.response["content"] == blocks
    reasoned = completion({"content": "Paris.", "reasoning_content": "secret plan"})
    assert told_of(server, stream, "openai", reasoned).text == "Paris."


def test_text_in_parts_is_told(server: ModelServer, stream: Stream):
    parts = [
        {"type": "thinking", "thinking": []},
        *({"type": kind, "text": "secret"} for kind in ("wibble", "thought", "summary_text", "tool_use")),
        *({"type": kind, "text": "secret"} for kind in (5, ["text"], {})),
        {"type": "text", "text": "a"},
        {"text": "b"},
    ]
    told = told_of(server, stream, "openai", completion({"content": parts}))
    assert told.pieces == ["a", "b"]


def test_a_paused_turn_is_continued_as_a_stream(server: ModelServer, stream: Stream):
    first = [THINKING, text("I looked this up. ")]
    server.script(
        generate=[
            message(first, "pause_turn", {"input_tokens": 100, "output_tokens": 50}),
            message([text("It is 42.")], "end_turn", {"input_tokens": 160, "output_tokens": 10}),
        ]
    )
    told = stream("anthropic")
    assert told.reply is not None
    assert told.text == told.reply.text == "I looked this up. It is 42."
    assert (told.reply.usage.input_tokens, told.reply.usage.output_tokens) == (260, 60)
    second = server.requests()[1].body
    assert second["stream"] is True
    assert second["messages"][-1] == {"role": "assistant", "content": first}


@pytest.mark.parametrize("fault", ["stream_cut", "stream_end", "stream_error", "reset_mid_body", "cut_body"])
def test_a_stream_that_breaks_may_pass_and_its_text_is_no_answer(
    server: ModelServer, stream: Stream, dialect: str, fault: str
):
    told = told_of(server, stream, dialect, Reply(text="one two three four", fault=fault, after=2))
    assert told.error is not None
    assert told.error.code == "provider_unavailable"
    if fault.startswith("stream"):
        assert told.text == "one two"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "provider_unavailable"),
        ({"type": "api_error", "message": "Internal server error"}, "provider_unavailable"),
        ({"type": "rate_limit_error", "message": "Slow down"}, "provider_rate_limited"),
        ({"type": "insufficient_quota", "message": "No money"}, "provider_quota"),
        ({"type": "invalid_request_error", "message": "Bad"}, "provider_bad_request"),
        ({"message": "filtered", "code": "content_filter"}, "content_filtered"),
        ({"message": "upstream", "code": 503}, "provider_unavailable"),
    ],
)
def test_an_error_inside_a_stream_means_what_it_says(
    server: ModelServer, stream: Stream, dialect: str, error: Any, code: str
):
    told = told_of(server, stream, dialect, Reply(text="one two", fault="stream_error", error=error))
    assert told.error is not None
    assert (told.error.code, told.error.http_status) == (code, 200)
    assert error["message"] in told.error.message


@pytest.mark.parametrize("status", [400, 401, 404, 408, 422, 429, 500, 502, 529])
def test_a_stream_that_is_refused_fails_as_a_call_does(
    server: ModelServer, ask: Ask, stream: Stream, dialect: str, status: int
):
    body = {"error": {"message": "no, and here is why", "type": "some_error"}}
    server.script(generate=[Reply(status=status, raw=body, headers={"retry-after": "2"})])
    with pytest.raises(ProviderError) as caught:
        ask(dialect)
    error = stream(dialect).error
    assert error is not None
    assert (error.code, error.message, error.http_status) == (caught.value.code, caught.value.message, status)
    assert (error.retry_after_s, error.response, error.headers) == (2.0, body, caught.value.headers)


def test_azures_content_filter_refuses_a_stream(server: ModelServer, stream: Stream):
    body = {"error": {"message": "The response was filtered.", "param": "prompt", "code": "content_filter"}}
    told = told_of(server, stream, "openai", Reply(status=400, raw=body))
    assert told.error is not None
    assert (told.error.code, told.error.is_adapted) == ("content_filtered", False)


CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def chunk(content: str | None, finish: str | None = None, **rest: Any) -> str:
    return data({**CHUNK, "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}], **rest})


# Case B07
@pytest.mark.parametrize(
    "events",
    [
        [chunk("Hi.", "stop"), data({**CHUNK, "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})],
        [chunk("Hi."), chunk(None, "stop", usage={"prompt_tokens": 7, "completion_tokens": 2}), "data: [DONE]\n\n"],
        [
            data({**CHUNK, "choices": [], "prompt_filter_results": []}),
            ": keep-alive\n\n",
            chunk("Hi."),
            data({**CHUNK, "choices": [{"index": 1, "delta": {"content": "Another answer."}}]}),
            chunk("", "stop"),
            data({**CHUNK, "choices": None, "usage": {"prompt_tokens": 7, "completion_tokens": 2}}),
            "data: [DONE]\n\n",
            "data: what comes after the end is of no interest\n\n",
        ],
    ],
)
def test_chunks_without_choices_and_streams_without_done_are_read(
    server: ModelServer, stream: Stream, events: list[str]
):
    told = told_of(server, stream, "openai", Reply(events=events))
    assert told.reply is not None
    assert told.reply.text == told.text == "Hi."
    assert (told.reply.usage.input_tokens, told.reply.usage.output_tokens) == (7, 2)


def test_a_stream_without_usage_is_unknown_and_not_zero(server: ModelServer, stream: Stream, dialect: str):
    server.script(generate=["Hi."], quirks=("no_usage",))
    told = stream(dialect).reply
    assert told is not None
    assert (told.usage.input_tokens, told.usage.output_tokens) == (None, None)


@pytest.mark.parametrize("wire", ["data: {\n\n", "data: []\n\n", "data: <html>\n\n", "event: x\ndata: 5\n\n"])
def test_an_event_that_is_no_object_may_pass(server: ModelServer, stream: Stream, dialect: str, wire: str):
    told = told_of(server, stream, dialect, Reply(events=[wire]))
    assert told.error is not None
    assert told.error.code == "provider_unavailable"


def test_an_empty_stream_may_pass(server: ModelServer, stream: Stream, dialect: str):
    told = told_of(server, stream, dialect, Reply(events=[]))
    assert told.error is not None
    assert "ended before the answer was whole" in told.error.message


def test_vllms_error_object_in_a_stream_is_an_error(server: ModelServer, stream: Stream):
    wire = data({"object": "error", "message": "engine is dead", "type": "InternalServerError", "code": 500})
    told = told_of(server, stream, "openai", Reply(events=[chunk("Hi"), wire]))
    assert told.error is not None
    assert (told.error.code, told.text) == ("provider_unavailable", "Hi")
    assert "engine is dead" in told.error.message


def test_an_overloaded_event_after_some_text_leaves_the_next_attempt_clean(server: ModelServer, stream: Stream):
    started = {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 5}}
    cut = [
        named({"type": "message_start", "message": started}),
        named({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}),
        named({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ]
    server.script(generate=[Reply(events=cut), "Hello."])
    first, second = stream("anthropic"), stream("anthropic")
    assert first.error is not None
    assert first.error.retryable
    assert second.reply is not None
    assert (first.text, second.text, second.reply.text) == ("Hel", "Hello.", "Hello.")


def test_what_the_listener_raises_ends_the_call(server: ModelServer, catalog: ProviderCatalog, dialect: str):
    def stop(_piece: str) -> None:
        raise KeyError("cancelled")

    server.script(generate=[Reply(text="a b c", fault="stream_hang")])
    made = catalog.get(ModelRef(dialect, "m"))
    with pytest.raises(KeyError, match="cancelled"):
        CALLS_LOOP.run(made.send(made.wire_body(chat_for(dialect, stream=True)), timeout_s=10, on_delta=stop))
    wait_until(lambda: server.open_connections == 0, what="the connection closed")


def test_connections_of_whole_streams_are_used_again(server: ModelServer, stream: Stream, dialect: str):
    server.script(generate=["one two"])
    for _ in range(4):
        stream(dialect)
    assert server.open_connections == 1


def test_a_stream_that_stays_open_behind_its_end_is_not_waited_for(
    server: ModelServer, catalog: ProviderCatalog, dialect: str
):
    stop = data({"type": "message_stop"}) if dialect == "anthropic" else "data: [DONE]\n\n"
    begin = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}}
    piece = data(begin) if dialect == "anthropic" else chunk("Hi.")
    server.script(generate=[Reply(events=[piece, stop], fault="stream_hang")])
    made = catalog.get(ModelRef(dialect, "m"))
    made.warm_up()
    started = time.monotonic()
    assert CALLS_LOOP.run(made.send(made.wire_body(chat_for(dialect, stream=True)), timeout_s=20)).text == "Hi."
    assert time.monotonic() - started < patient(3.75)


EVENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["text", "text_delta", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "delta", "index", "choices", "usage", "content", "text", "tool_calls", "function", "message"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(["type", "delta", "index", "choices", "usage"]), EVENTS), max_size=4))
def test_any_events_can_be_added_up(events: list[dict[str, Any]]):
    kinds = ["message_start", "content_block_start", "content_block_delta", "message_delta"]
    for collector in (OpenAIChunks(), AnthropicEvents()):
        for number, event in enumerate(events):
            collector.error_in(event)
            assert isinstance(collector.take({"type": kinds[number], **event}), str)
            collector.take({**event, "type": kinds[number]})
        json.dumps(collector.body())
