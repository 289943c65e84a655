"""One contract for every provider: what holds whichever wire format is spoken."""

import json
import time

import pytest
from pydantic import ValidationError

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import RETRYABLE_CODES
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import Chat, Message, UnusableReply
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from tests.model_server import ModelServer, Reply
from tests.providers.conftest import ANTHROPIC_KEY, OPENAI_KEY, VERDICT, Ask, Fail, Stream, chat_for, told_of
from tests.support.waiting import patient


def test_the_reply_has_text_usage_status_body_and_selected_headers(server: ModelServer, ask: Ask, dialect: str):
    usage = {"input": 20, "output": 5, "cached": 0}
    headers = {"x-ratelimit-remaining-requests": "9", "retry-after": "3", "set-cookie": "no=1"}
    server.script(generate=[Reply(text="Paris.", usage=usage, headers=headers)])
    reply = ask(dialect)
    assert reply.text == "Paris."
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (20, 5)
    assert reply.http_status == 200
    assert reply.finish_reason in {"stop", "end_turn"}
    assert json.loads(json.dumps(reply.response))["model"] == "test-model"
    assert reply.headers == {
        "x-request-id": "req_test",
        "x-ratelimit-remaining-requests": "9",
        "retry-after": "3",
    }


def test_the_body_is_sent_exactly_as_it_was_planned(
    server: ModelServer, ask: Ask, catalog: ProviderCatalog, dialect: str
):
    planned = catalog.get(ModelRef(dialect, "m")).wire_body(chat_for(dialect, "hello", temperature=0.0))
    ask(dialect, "hello", temperature=0.0)
    assert server.requests()[0].body == planned
    assert planned["temperature"] == 0.0


def test_what_is_not_set_is_not_sent(server: ModelServer, ask: Ask, dialect: str):
    ask(dialect, system=" ")
    body = server.requests()[0].body
    assert not {"temperature", "system", "response_format", "output_config"} & body.keys()
    assert all(message["role"] != "system" for message in body["messages"])


# Case B14
def test_evaluators_get_a_schema_that_the_strict_validator_takes(server: ModelServer, ask: Ask, dialect: str):
    server.script(evaluate=[0.4])
    reply = ask(dialect, reply_schema=VERDICT)
    assert json.loads(reply.text)["score"] == 0.4
    assert server.requests()[0].role == "evaluate"


def test_texts_come_and_go_unchanged(server: ModelServer, ask: Ask, dialect: str):
    text = '水😀é. {x} {{ 7*7 }} "\\" \u2028 %s\n\ttab'
    server.script(generate=[text])
    assert ask(dialect, text).text == text
    assert text in server.requests()[0].prompt


def test_half_a_character_does_not_stop_a_request(server: ModelServer, ask: Ask, dialect: str):
    assert ask(dialect, "cut \ud83d here").text == "draft 1"
    assert "cut ? here" in server.requests()[0].prompt


@pytest.mark.parametrize("fault", ["reset", "reset_mid_body", "cut_body", "garbage"])
def test_a_broken_connection_may_pass(fail: Fail, dialect: str, fault: str):
    error = fail(dialect, Reply(text="half an answer", fault=fault))
    assert error.code == "provider_unavailable"
    assert error.http_status is None


@pytest.mark.parametrize("fault", ["hang", "trickle"])
def test_a_call_ends_with_its_time_whatever_the_server_does(fail: Fail, dialect: str, fault: str):
    fail(dialect, Reply(status=503, raw={}))  # the SDK's import is not part of the measure
    started = time.monotonic()
    error = fail(dialect, Reply(text="slow", fault=fault), timeout_s=0.4)
    assert error.code == "provider_timeout"
    assert time.monotonic() - started < patient(2.5)


@pytest.mark.parametrize("raw", ["", "<html><title>Welcome</title></html>", "{", '"text"', "[]", "null"])
def test_a_200_that_is_no_reply_may_pass(fail: Fail, dialect: str, raw: str):
    error = fail(dialect, Reply(raw=raw))
    assert (error.code, error.http_status) == ("provider_unavailable", 200)


def test_a_server_that_is_not_there_may_come_back(
    catalog: ProviderCatalog, server: ModelServer, ask: Ask, dialect: str
):
    server.stop()
    with pytest.raises(Exception, match="No connection to the server at") as caught:
        ask(dialect)
    assert caught.value.code == "provider_unavailable"
    assert f"{dialect.upper()}_BASE_URL" in str(caught.value)
    assert "ssl:" not in str(caught.value)


CODE_OF_STATUS = {
    401: "provider_auth",
    403: "provider_auth",
    402: "provider_quota",
    408: "provider_unavailable",
    409: "provider_unavailable",
    413: "context_too_long",
    418: "provider_bad_request",
    422: "provider_bad_request",
    429: "provider_rate_limited",
    500: "provider_unavailable",
    502: "provider_unavailable",
    529: "provider_unavailable",
}


@pytest.mark.parametrize("raw", ["", "upstream says no", "<html><h1>Error</h1></html>", {"error": None}, {}])
def test_a_status_alone_decides_where_the_body_tells_nothing(fail: Fail, dialect: str, raw: object):
    errors = {status: fail(dialect, Reply(status=status, raw=raw)) for status in CODE_OF_STATUS}
    assert {status: error.code for status, error in errors.items()} == CODE_OF_STATUS
    for status, error in errors.items():
        assert error.http_status == status
        assert error.retryable == (error.code in RETRYABLE_CODES)
        assert str(status) in error.message


def test_no_key_is_ever_shown(fail: Fail, dialect: str):
    key = OPENAI_KEY if dialect == "openai" else ANTHROPIC_KEY
    echo = {"error": {"message": f"Incorrect key {key} or sk-other***1234.", "type": "invalid_api_key"}}
    error = fail(dialect, Reply(status=401, raw=echo))
    assert f"{dialect.upper()}_API_KEY" in error.message
    for shown in (error.message, json.dumps(error.response), repr(error.headers)):
        assert key not in shown
        assert "sk-" not in shown


def test_a_cut_reply_is_an_error_that_keeps_the_partial_text_and_the_tokens(fail: Fail, dialect: str):
    finish = "length" if dialect == "openai" else "max_tokens"
    cut = fail(dialect, Reply(text="The first", finish=finish, usage={"input": 9, "output": 4}))
    empty = fail(dialect, Reply(text="", finish=finish))
    assert isinstance(cut, UnusableReply)
    assert (cut.code, empty.code) == ("output_truncated", "output_truncated")
    assert "The first" not in cut.message
    assert "The first" in json.dumps(cut.response)
    assert (cut.usage.input_tokens, cut.usage.output_tokens) == (9, 4)
    assert "truncated before text" in empty.message


def test_blank_text_is_no_answer(fail: Fail, dialect: str):
    for text in ("", " \n\t"):
        error = fail(dialect, Reply(text=text))
        assert error.code == "empty_output"
        assert error.http_status == 200


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_is_a_permanent_error_and_is_not_followed(
    fail: Fail, server: ModelServer, dialect: str, status: int
):
    location = server.url.replace("127.0.0.1", "localhost") + "/elsewhere"
    failed = fail(dialect, Reply(status=status, raw="moved", headers={"location": location}))
    assert (failed.code, failed.http_status, failed.retryable) == ("provider_bad_request", status, False)
    url_setting = f"{dialect.upper()}_BASE_URL"
    assert f"a redirect to localhost, which is not followed. Check {url_setting}." in failed.message


@pytest.mark.parametrize("charset", ["rot13", "base64", "unknown"])
def test_a_body_is_read_as_utf_8_whatever_charset_the_server_names(
    fail: Fail, server: ModelServer, stream: Stream, dialect: str, charset: str
):
    failed = fail(dialect, Reply(raw="kaputt: ü", headers={"content-type": f"text/plain; charset={charset}"}))
    assert "kaputt: ü" in failed.message
    events = Reply(text="grün", headers={"content-type": f"text/event-stream; charset={charset}"})
    assert told_of(server, stream, dialect, events).text == "grün"


def test_a_rate_limit_tells_how_long_to_wait(fail: Fail, dialect: str):
    limited = {"error": {"type": "rate_limit_error", "message": "Rate limit reached"}}
    seconds = fail(dialect, Reply(status=429, raw=limited, headers={"retry-after": "2"}))
    precise = fail(dialect, Reply(status=429, raw=limited, headers={"retry-after-ms": "40"}))
    assert (seconds.code, seconds.retry_after_s) == ("provider_rate_limited", 2.0)
    assert precise.retry_after_s == 0.04


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("api_key", "sk-ключ", "which no HTTP header can carry"),
        ("api_key", "sk-one\nsk-two", "which no HTTP header can carry"),
        ("base_url", "localhost:1", "must look like https://host/path"),
        ("base_url", "http://user:word@host/v1", "without a user and a password"),
    ],
)
def test_a_key_or_an_address_that_cannot_work_is_refused_at_start_by_its_name(
    settings: Settings, dialect: str, setting: str, value: str, told: str
):
    name = f"{dialect}_{setting}"
    with pytest.raises(ValidationError, match=f"{name}\n.*{told}"):
        Settings.model_validate(settings.model_dump() | {name: value})


def test_earlier_turns_keep_their_order(server: ModelServer, catalog: ProviderCatalog, dialect: str):
    turns = (Message("user", "one"), Message("assistant", "two"), Message("user", "three"))
    made = catalog.get(ModelRef(dialect, "m"))
    CALLS_LOOP.run(made.send(made.wire_body(Chat(ModelRef(dialect, "m"), "", turns)), timeout_s=5))
    sent = server.requests()[0].body["messages"]
    assert [(m["role"], m["content"]) for m in sent] == [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]
