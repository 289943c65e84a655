"""Each of a call's times ends it by itself, and the error says which one it was and where it is set."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from tests.model_server import ModelServer, Reply
from tests.providers.conftest import chat_for

STREAMED = {"stream": True}
UNSTREAMED: dict[str, Any] = {}
# Less than the next of a call's times, with room for a slow machine.
NOT_WAITED_FOR_S = 8


def late(settings: Settings, dialect: str, *, timeout_s: float = 10.0, **rest: Any) -> tuple[ProviderError, float]:
    """The error of a call that is late, and how long it took in seconds."""
    catalog = ProviderCatalog(settings)
    made = catalog.get(ModelRef(dialect, "m"))
    # The SDK's import is not part of the measure.
    made.warm_up()
    started = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        CALLS_LOOP.run(made.send(made.wire_body(chat_for(dialect, **rest)), timeout_s=timeout_s))
    took = time.monotonic() - started
    catalog.close()
    assert (caught.value.code, caught.value.retryable) == ("provider_timeout", True)
    return caught.value, took


@pytest.mark.parametrize("rest", [UNSTREAMED, STREAMED])
def test_the_first_byte_has_a_time_of_its_own(
    server: ModelServer, settings: Settings, dialect: str, rest: dict[str, Any]
):
    server.script(generate=[Reply(fault="hang")])
    error, took = late(settings.model_copy(update={"first_byte_timeout_s": 0.4}), dialect, **rest)
    assert "nothing of an answer in 0.4 s" in error.message
    assert "REDRAFT_FIRST_BYTE_TIMEOUT_S" in error.message
    assert took < NOT_WAITED_FOR_S


def test_a_stream_that_opens_and_says_nothing_is_late_for_its_first_event(
    server: ModelServer, settings: Settings, dialect: str
):
    server.script(generate=[Reply(events=[], fault="stream_hang")])
    error, took = late(settings.model_copy(update={"first_byte_timeout_s": 0.4}), dialect, stream=True)
    assert "REDRAFT_FIRST_BYTE_TIMEOUT_S" in error.message
    assert took < NOT_WAITED_FOR_S


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        (Reply(fault="hang"), UNSTREAMED),
        (Reply(text="slow", fault="trickle"), UNSTREAMED),
        (Reply(fault="hang"), STREAMED),
        (Reply(text="one two", fault="stream_hang"), STREAMED),
        (Reply(text="one " * 100, pause_s=0.1), STREAMED),
    ],
)
def test_the_whole_call_ends_with_what_is_left_of_its_time(
    server: ModelServer, settings: Settings, dialect: str, reply: Reply, rest: dict[str, Any]
):
    server.script(generate=[reply])
    error, took = late(settings, dialect, timeout_s=0.6, **rest)
    assert "no whole answer in 0.6 s" in error.message
    assert "REDRAFT_CALL_TIMEOUT_S" in error.message
    assert 0.5 < took < NOT_WAITED_FOR_S


def test_a_stream_that_has_begun_may_be_silent_for_longer_than_the_first_byte(
    server: ModelServer, settings: Settings, dialect: str
):
    server.script(generate=[Reply(text="one two", pause_s=0.7)])
    catalog = ProviderCatalog(settings.model_copy(update={"first_byte_timeout_s": 0.4}))
    made = catalog.get(ModelRef(dialect, "m"))
    made.warm_up()
    assert CALLS_LOOP.run(made.send(made.wire_body(chat_for(dialect, stream=True)), timeout_s=10)).text == "one two"
    catalog.close()


def test_a_paused_turn_has_no_more_time_than_one_that_is_not(server: ModelServer, settings: Settings):
    paused = {"type": "message", "content": [{"type": "text", "text": "wait "}], "stop_reason": "pause_turn"}
    server.script(generate=[Reply(raw=paused, latency_s=0.3)])
    error, took = late(settings, "anthropic", timeout_s=0.8, stream=True)
    assert "REDRAFT_CALL_TIMEOUT_S" in error.message
    assert took < NOT_WAITED_FOR_S


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port that accepts no connection: its queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as busy:
        port = busy.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        yield port
        for one in waiting:
            one.close()


def test_a_connection_has_a_time_of_its_own(settings: Settings, dialect: str):
    with full_backlog() as port:
        urls = {"openai_base_url": f"http://127.0.0.1:{port}/v1", "anthropic_base_url": f"http://127.0.0.1:{port}"}
        error, took = late(settings.model_copy(update={"connect_timeout_s": 0.3, **urls}), dialect)
    assert "could not be reached in 0.3 s" in error.message
    assert "REDRAFT_CONNECT_TIMEOUT_S" in error.message
    assert f"{dialect.upper()}_BASE_URL" in error.message
    assert took < NOT_WAITED_FOR_S
