"""Providers against the scripted server, over real sockets, in both wire formats."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import Chat, ChatReply, Message, ReplySchema
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from tests.model_server import ModelServer, Reply

OPENAI_KEY = "sk-proj-Secret0123456789"
ANTHROPIC_KEY = "sk-ant-Secret0123456789"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key and no file of the developer's machine reaches a test."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"REDRAFT_{name}", raising=False)
    monkeypatch.delenv("REDRAFT_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def settings(server: ModelServer, tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path,
        openai_api_key=OPENAI_KEY,
        openai_base_url=server.openai_url,
        anthropic_api_key=ANTHROPIC_KEY,
        anthropic_base_url=server.anthropic_url,
    )


@pytest.fixture
def catalog(settings: Settings) -> Iterator[ProviderCatalog]:
    made = ProviderCatalog(settings)
    yield made
    made.close()


@pytest.fixture(params=["openai", "anthropic"])
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


def chat_for(provider: str, text: str = "What is the capital of France?", **rest: Any) -> Chat:
    return Chat(ModelRef(provider, "test-model"), rest.pop("system", "Be brief."), (Message("user", text),), **rest)


def send_adapted(catalog: ProviderCatalog, chat: Chat, calls: int = 9) -> ChatReply:
    """Make one call. After each adaptation, plan it anew, as the service does."""
    made = catalog.get(chat.model)
    for _ in range(calls):
        try:
            return CALLS_LOOP.run(made.send(made.wire_body(chat), timeout_s=10, limit_origin=chat.limit_origin))
        except ProviderError as error:
            if not error.is_adapted:
                raise
    raise AssertionError("adapted without end")


Ask = Callable[..., ChatReply]


@pytest.fixture
def ask(catalog: ProviderCatalog) -> Ask:
    """Make one call, from chat to reply."""

    def call(provider: str, text: str = "hello", *, timeout_s: float = 10.0, **rest: Any) -> ChatReply:
        chat = chat_for(provider, text, **rest)
        made = catalog.get(chat.model)
        return CALLS_LOOP.run(made.send(made.wire_body(chat), timeout_s=timeout_s))

    return call


Fail = Callable[..., ProviderError]


@pytest.fixture
def fail(server: ModelServer, ask: Ask) -> Fail:
    """The error that one scripted reply leads to, after exactly one request."""

    def call(provider: str, reply: Reply, *, timeout_s: float = 10.0) -> ProviderError:
        server.log.clear()
        server.script(generate=[reply])
        with pytest.raises(ProviderError) as caught:
            ask(provider, timeout_s=timeout_s)
        assert len(server.requests()) == 1
        return caught.value

    return call


class Told:
    """One streamed call: what was told of it, its reply or its error."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.at: list[float] = []
        self.reply: ChatReply | None = None
        self.error: ProviderError | None = None

    def hear(self, piece: str) -> None:
        self.pieces.append(piece)
        self.at.append(time.monotonic())

    @property
    def text(self) -> str:
        return "".join(self.pieces)


Stream = Callable[..., Told]


@pytest.fixture
def stream(catalog: ProviderCatalog) -> Stream:
    def call(provider: str, *, timeout_s: float = 10.0, **rest: Any) -> Told:
        chat = chat_for(provider, stream=True, **rest)
        made, told = catalog.get(chat.model), Told()
        try:
            told.reply = CALLS_LOOP.run(made.send(made.wire_body(chat), timeout_s=timeout_s, on_delta=told.hear))
        except ProviderError as error:
            told.error = error
        return told

    return call


def told_of(server: ModelServer, stream: Stream, provider: str, reply: Any, **rest: Any) -> Told:
    server.log.clear()
    server.script(generate=[reply])
    told = stream(provider, **rest)
    assert len(server.requests()) == 1
    return told


VERDICT = ReplySchema(
    "criteria verdict",
    {
        "type": "object",
        "properties": {
            "evaluation_reasoning": {"type": "string", "minLength": 1},
            "improvement_suggestions": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
            "meets_criteria": {"type": "boolean", "default": False},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["evaluation_reasoning", "score"],
        "additionalProperties": False,
    },
)
