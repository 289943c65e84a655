"""What servers write into a stream instead of an answer, and connections that break behind the answer's end."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.providers.shared.event_stream import Evidence, StreamEvent, events_in
from tests.model_server import ModelServer, Reply
from tests.model_server.events import data, named
from tests.providers.conftest import Stream, told_of
from tests.providers.shared.test_streaming import chunk
from tests.support.waiting import patient

TOO_LONG = "the request exceeds the available context size. try increasing it"
DONE = "data: [DONE]\n\n"
BODIES: list[tuple[str, str, str]] = [
    # fields that the standard does not know, plain lines, pages
    (f'error: {{"code":400,"message":"{TOO_LONG}","type":"invalid_request_error"}}\n\n', "context_too_long", TOO_LONG),
    ('exception: {"message": "CUDA out of memory"}\n\n', "provider_unavailable", "CUDA out of memory"),
    ("Internal Server Error\n\n", "provider_unavailable", "Internal Server Error"),
    ("Error: maximum context length is 4096 tokens\n", "context_too_long", "4096 tokens"),
    ("<html>\n<title>502 Bad Gateway</title>\n</html>\n", "provider_unavailable", "502 Bad Gateway"),
    # events of other shapes
    (data({"error_type": "overloaded", "error_message": "engine busy"}), "provider_unavailable", "engine busy"),
    (data({"detail": "You have exceeded your current quota"}), "provider_quota", "current quota"),
    (data({"code": 1302, "msg": "Too many requests"}), "provider_rate_limited", "Too many requests"),
    (data({"status": "error", "message": "invalid api key"}), "provider_auth", "invalid api key"),
    (data({"errors": [{"message": "flagged by the safety system"}]}), "content_filtered", "flagged"),
    (data({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}), "provider_quota", "balance"),
    (
        data({"object": "", "choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit (RPM)"}}),
        "provider_rate_limited",
        "rate limit (RPM)",
    ),
    (data("upstream connect error"), "provider_unavailable", "upstream connect error"),
    (data([{"error": {"code": 429, "message": "slow down"}}]), "provider_rate_limited", "slow down"),
    ("event: error\ndata: context size exceeded\n\n", "context_too_long", "context size exceeded"),
    ("data: upstream timed out\n\n", "provider_unavailable", "upstream timed out"),
    # an object where a stream should be, over several lines
    (
        json.dumps({"error": {"message": "no such thing", "code": 503}}, indent=1),
        "provider_unavailable",
        "no such thing",
    ),
]


@pytest.mark.parametrize(
    ("wire", "code", "words", "end"), [*((*body, DONE) for body in BODIES), *((*body, "") for body in BODIES[::5])]
)
def test_an_error_of_any_shape_in_a_stream_is_classified_shown_and_kept(
    server: ModelServer, stream: Stream, wire: str, code: str, words: str, end: str
):
    told = told_of(server, stream, "openai", Reply(events=[wire, "\n\n", end] if end else [wire]))
    assert told.error is not None
    assert told.error.code == code
    assert words in told.error.message
    assert words in json.dumps(told.error.response)


@pytest.mark.parametrize(("wire", "code"), [(BODIES[0][0], "context_too_long"), (BODIES[5][0], "provider_unavailable")])
def test_an_error_of_any_shape_undoes_half_an_answer(server: ModelServer, stream: Stream, wire: str, code: str):
    told = told_of(server, stream, "openai", Reply(events=[chunk("Half an"), wire, DONE]))
    assert told.error is not None
    assert told.error.code == code


def test_what_no_shape_is_known_of_is_shown_and_kept_beside_half_an_answer(server: ModelServer, stream: Stream):
    told = told_of(server, stream, "openai", Reply(events=[chunk("Half an"), data({"outage": {"gpu": "went away"}})]))
    assert told.error is not None
    assert told.error.code == "provider_unavailable"
    assert "went away" in told.error.message
    assert "Half an" in json.dumps(told.error.response)
    assert "went away" in json.dumps(told.error.response)


def test_an_error_of_another_shape_reaches_a_messages_stream(server: ModelServer, stream: Stream):
    for wire, code, _ in (BODIES[0], BODIES[6]):
        told = told_of(server, stream, "anthropic", Reply(events=[wire]))
        assert told.error is not None
        assert told.error.code == code


def test_an_error_is_told_though_the_stream_never_ends(server: ModelServer, stream: Stream):
    reply = Reply(events=[BODIES[0][0]], fault="stream_hang")
    told = told_of(server, stream, "openai", reply, timeout_s=1.0)
    assert told.error is not None
    assert told.error.code == "context_too_long"


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "text/html"])
def test_a_stream_is_read_whatever_its_content_type(server: ModelServer, stream: Stream, kind: str):
    headers = {"content-type": kind}
    told = told_of(server, stream, "openai", Reply(events=["\ufeff", *whole("openai", "stop")], headers=headers))
    assert told.text == "Paris."
    told = told_of(server, stream, "openai", Reply(events=["<title>Sign in</title>\n"], headers=headers))
    assert told.error is not None
    assert "Sign in" in told.error.message


def test_no_key_stands_in_the_evidence(server: ModelServer, stream: Stream):
    told = told_of(server, stream, "openai", Reply(events=["Incorrect API key: sk-proj-Secret0123456789\n\n"]))
    assert told.error is not None
    assert "Secret0123456789" not in told.error.message + json.dumps(told.error.response)


def whole(dialect: str, reason: str) -> list[str]:
    if dialect == "openai":
        return [chunk("Paris."), chunk(None, reason)]
    piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Paris."}}
    return [named(piece), named({"type": "message_delta", "delta": {"stop_reason": reason}})]


# Case HB-B3
@pytest.mark.parametrize("fault", ["stream_reset", "stream_cut", "stream_end", "stream_error"])
def test_an_answer_with_its_finish_reason_is_whole_whatever_comes_behind_it(
    server: ModelServer,
    stream: Stream,
    dialect: str,
    fault: Any,
):
    told = told_of(server, stream, dialect, Reply(events=whole(dialect, "stop"), fault=fault))
    assert told.reply is not None
    assert told.reply.text == "Paris."


@pytest.mark.parametrize("reason", ["", None, "null"])
def test_an_answer_without_a_finish_reason_that_breaks_is_none(server: ModelServer, stream: Stream, reason: Any):
    told = told_of(server, stream, "openai", Reply(events=[chunk("Paris.", reason)], fault="stream_reset"))
    assert told.error is not None
    assert told.error.code == "provider_unavailable"


def test_a_later_chunk_does_not_take_the_finish_reason_away(server: ModelServer, stream: Stream):
    told = told_of(server, stream, "openai", Reply(events=[chunk("Half", "length"), chunk("", "")]))
    assert told.error is not None
    assert told.error.code == "output_truncated"


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        ("openai", [chunk("", "stop"), chunk("The capital of")]),
        (
            "anthropic",
            [
                named({"type": "message_start", "message": {"content": [], "stop_reason": "end_turn"}}),
                named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "The"}}),
            ],
        ),
    ],
)
def test_a_finish_reason_before_the_text_promises_nothing(
    server: ModelServer, stream: Stream, dialect: str, events: list[str]
):
    told = told_of(server, stream, dialect, Reply(events=events, fault="stream_reset", after=len(events)))
    assert told.error is not None
    assert told.error.code == "provider_unavailable"


def test_an_error_behind_a_reason_of_failure_is_told(server: ModelServer, stream: Stream):
    events = [chunk("Half"), chunk(None, "error"), data({"error": {"message": "the engine died", "code": 502}})]
    told = told_of(server, stream, "openai", Reply(events=events))
    assert told.error is not None
    assert "the engine died" in told.error.message


def test_a_stream_that_stays_open_behind_its_finish_reason_is_not_waited_for(server: ModelServer, stream: Stream):
    started = time.monotonic()
    told = told_of(server, stream, "openai", Reply(events=whole("openai", "stop"), fault="stream_hang"), timeout_s=60)
    assert told.reply is not None
    assert time.monotonic() - started < patient(7.5)


def test_a_whole_body_under_the_name_of_a_stream_is_read(server: ModelServer, stream: Stream):
    body = {"choices": [{"message": {"content": "Paris."}, "finish_reason": "stop"}]}
    told = told_of(server, stream, "openai", Reply(events=[json.dumps(body, indent=1)]))
    assert told.reply is not None
    assert told.reply.text == told.text == "Paris."


def read_all(pieces: list[str]) -> list[StreamEvent]:
    async def texts() -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    async def read() -> list[StreamEvent]:
        return [event async for event in events_in(texts())]

    return asyncio.run(read())


LINES = st.lists(
    st.sampled_from(["data: a", "data: b\u2028c", "data:", "event: x", ": note", "id: 1", "stray", "err: {}", ""])
)


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.integers(1, 7))
def test_events_do_not_depend_on_how_the_text_is_cut(lines: list[str], line_end: str, size: int):
    text = line_end.join(lines)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert read_all(pieces) == read_all([text])
    assert [event.data for event in read_all([text]) if event.name is None] == [
        line for line in lines if line.startswith(("stray", "err"))
    ]


def test_events_keep_their_names_and_lines():
    text = "event: a\ndata: 1\ndata: 2\n\ndata: 3\n\nevent: gone\n\ndata: last"
    assert read_all([text]) == [
        StreamEvent("a", "1\n2"),
        StreamEvent("message", "3"),
        StreamEvent("message", "last"),
    ]


@given(st.lists(st.builds(str.__mul__, st.text(max_size=30), st.integers(1, 100)), max_size=20))
def test_evidence_is_bounded_and_storable(texts: list[str]):
    evidence = Evidence()
    for text in texts:
        evidence.add(text)
    assert len(json.dumps(evidence.body(), ensure_ascii=False)) < 150_000
    assert isinstance(evidence.is_error, bool)
