"""The provider for Chat Completions and the Responses API: OpenAI itself, and every server with the same API.

The SDK is imported at the first call, because the import takes a second. Its HTTP client sends the request and returns
the raw response, whose headers and body the ledger stores unchanged.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from redraft.errors import ProviderError
from redraft.providers.openai.replies import read_reply
from redraft.providers.openai.responses_api import ResponsesEvents, read_response, responses_body
from redraft.providers.openai.streams import OpenAIChunks
from redraft.providers.shared.capabilities import (
    CapabilityMemory,
    adapted_chat,
    plain_parameters,
    with_schema_in_words,
)
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer
from redraft.providers.shared.media import openai_parts, with_data
from redraft.providers.shared.output_limits import LIMIT_NAMES
from redraft.providers.shared.protocol import Chat, ChatReply, LimitOrigin, Message, sendable
from redraft.providers.shared.refusals import Adaptation
from redraft.providers.shared.replies import checked_key
from redraft.providers.shared.schemas import named_schema
from redraft.providers.shared.sending import Connection, Endpoint, Sender, endpoint_headers, sdk_headers
from redraft.providers.shared.streams import DeltaEmitter, OnDelta
from redraft.providers.shared.transport import TimeLeft, Timeouts, http_client

OPENAI_URL = "https://api.openai.com/v1"
# A self-hosted server needs no key, but the SDK requires one.
_NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class OpenAIAccess:
    """The address and the credentials. If `base_url` is None, the address is OpenAI's.

    Attributes:
        headers: further headers of each request to an endpoint of the settings.
        max_output_tokens: the output limit of calls that have no limit of their own; None: no limit is sent.
        limit_origin: the setting of this limit.
    """

    vendor: Vendor
    api_key: str
    base_url: str | None
    is_own_server: bool
    timeouts: Timeouts
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    max_output_tokens: int | None = None
    limit_origin: LimitOrigin = field(default_factory=LimitOrigin)


@dataclass(frozen=True, slots=True)
class _Senders:
    """The senders of both APIs, which share one HTTP client."""

    connection: Connection
    chat: Sender
    responses: Sender


class OpenAIProvider:
    """The provider for one OpenAI account, or for one compatible server.

    If the server refuses Chat Completions for a model, the Responses API is used for this model from then on.
    """

    def __init__(self, access: OpenAIAccess, name: str = "openai", memory: CapabilityMemory | None = None) -> None:
        self.name = name
        self._access = access
        self._memory = memory or CapabilityMemory()
        # OpenAI's reasoning models refuse `max_tokens`. Most other servers accept only `max_tokens`
        self._limit_name = "max_tokens" if access.is_own_server else "max_completion_tokens"
        self._senders: _Senders | None = None

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """See `Provider.wire_body`."""
        adaptations, origin = self._memory.of_chat(chat), chat.limit_origin or self._access.limit_origin
        if chat.max_output_tokens is None:
            chat = replace(chat, max_output_tokens=self._access.max_output_tokens)
        if "responses_api" in adaptations:
            body = responses_body(chat, adaptations)
        else:
            body = chat_body(chat, limit_name=self._limit_name, adaptations=adaptations)
        return self._memory.limits.fitted(body, origin)

    async def send(
        self,
        body: Mapping[str, Any],
        *,
        timeout_s: float,
        files: Mapping[str, str] | None = None,
        on_delta: OnDelta | None = None,
        limit_origin: LimitOrigin | None = None,
    ) -> ChatReply:
        """See `Provider.send`."""
        # The first call imports the SDK, before the timeout of the call starts
        senders, emitter = self._ready(), DeltaEmitter(on_delta)
        try:
            sender = senders.responses if "input" in body else senders.chat
            answer = await sender.send(with_data(body, files), TimeLeft(timeout_s), emitter)
        except ProviderError as error:
            self._learn(error, body, limit_origin)
            raise
        reply = self._read(body, answer)
        emitter.finish(reply.text)
        return reply

    def reply_in(self, body: Mapping[str, Any], answer: Answer) -> ChatReply:
        """Return the reply in an answer from a batch. Raises the same errors as `send`."""
        if answer.status >= 300 or not isinstance(answer.body, dict):
            error = failure_of_answer(self._access.vendor, answer)
            self._learn(error, body)
            raise error
        return self._read(body, answer)

    def connection(self) -> Connection:
        return self._ready().connection

    def _learn(self, error: ProviderError, body: Mapping[str, Any], origin: LimitOrigin | None = None) -> None:
        origin = origin or self._access.limit_origin
        self._memory.adapt(error, body, limit_name=self._limit_name, limit_origin=origin)

    def _read(self, body: Mapping[str, Any], answer: Answer) -> ChatReply:
        return (read_response if "input" in body else read_reply)(self._access.vendor, answer)

    def warm_up(self) -> None:
        self._ready()

    async def close(self) -> None:
        senders, self._senders = self._senders, None
        if senders is not None:
            await senders.connection.close()

    def _ready(self) -> _Senders:
        self._senders = self._senders or self._make_senders()
        return self._senders

    def _make_senders(self) -> _Senders:
        from openai import AsyncOpenAI, DefaultAioHttpClient

        http = http_client(DefaultAioHttpClient)
        key = checked_key(self._access.api_key, self._access.vendor) or _NO_KEY
        base_url = self._access.base_url or OPENAI_URL
        if self.name == "openai":
            headers = sdk_headers(AsyncOpenAI(api_key=key, base_url=base_url, http_client=http))
        else:
            headers = endpoint_headers(key, self._access.headers)
        chat = Endpoint("chat/completions", self._access.vendor, self._access.timeouts, OpenAIChunks)
        responses = Endpoint("responses", self._access.vendor, self._access.timeouts, ResponsesEvents)
        connection = Connection(base_url, headers, http)
        return _Senders(connection, Sender(connection, chat), Sender(connection, responses))


def chat_body(chat: Chat, *, limit_name: str, adaptations: frozenset[Adaptation] = frozenset()) -> dict[str, Any]:
    """Build a Chat Completions request. `limit_name` is the first parameter to try for the output limit."""
    adaptations = with_schema_in_words(chat, adaptations, takes_loose=True)
    chat = adapted_chat(chat, adaptations)
    turns = [{"role": m.role, "content": _content(m)} for m in chat.messages]
    system = [{"role": "system", "content": sendable(chat.system)}] if chat.system.strip() else []
    body: dict[str, Any] = {"model": chat.model.name, "messages": system + turns}
    if chat.reply_schema is not None:
        is_loose = "json_object" in adaptations
        named = {} if is_loose else {"json_schema": named_schema(chat.reply_schema.name, chat.reply_schema.schema)}
        body["response_format"] = {"type": "json_schema", **named} if named else {"type": "json_object"}
    body |= plain_parameters(chat)
    if chat.reasoning_effort is not None:
        body["reasoning_effort"] = chat.reasoning_effort
    if chat.max_output_tokens is not None:
        body[_limit_name(limit_name, adaptations)] = chat.max_output_tokens
    if chat.stream:
        body["stream"] = True
        if "no_stream_options" not in adaptations:
            body["stream_options"] = {"include_usage": True}
    return body


def _content(message: Message) -> str | list[dict[str, Any]]:
    text = sendable(message.content)
    if not message.media:
        return text
    parts = [part for number, media in enumerate(message.media, 1) for part in openai_parts(media, number)]
    return [*parts, {"type": "text", "text": text}]


def _limit_name(first: str, adaptations: Collection[Adaptation]) -> str:
    if "other_limit_name" not in adaptations:
        return first
    return next(name for name in LIMIT_NAMES if name != first)
