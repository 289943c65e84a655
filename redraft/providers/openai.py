"""Chat Completions: OpenAI itself, and every server that speaks its format.

The SDK is imported with the first call, since it takes a second. It makes the request (authentication,
connections, error classes) and hands back the raw answer: the ledger wants headers and the body as they came.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redraft.providers.failures import Answer, Vendor, failure_of_connection
from redraft.providers.openai_replies import read_reply
from redraft.providers.protocol import Chat, ChatReply, ReplySchema, sendable
from redraft.providers.replies import read_answer, sound_key
from redraft.providers.schemas import strict_schema
from redraft.providers.wires import ClientShards, call_timeout, http_client

if TYPE_CHECKING:
    from openai import OpenAI

OPENAI_URL = "https://api.openai.com/v1"
# A server of one's own asks for no key, but the SDK insists on one.
_NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class OpenAIAccess:
    """Where to call and how to be let in. `base_url` None: OpenAI itself."""

    vendor: Vendor
    api_key: str
    base_url: str | None
    is_own_server: bool
    connect_timeout_s: float
    threads: int


class OpenAIProvider:
    """One account, or one compatible server."""

    def __init__(self, access: OpenAIAccess, name: str = "openai") -> None:
        self.name = name
        self._access = access
        self._shards: ClientShards[OpenAI] = ClientShards(self._make_client, access.threads)

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """The request as it will be sent."""
        # OpenAI's reasoning models refuse the old name; most other servers know no other.
        own = self._access.is_own_server
        return chat_body(chat, limit_name="max_tokens" if own else "max_completion_tokens")

    def send(self, body: Mapping[str, Any], *, timeout_s: float) -> ChatReply:
        """Make the call, once."""
        answer = self._post(body, timeout_s)
        return read_reply(self._access.vendor, answer, may_think_aloud=self._access.is_own_server)

    def warm_up(self) -> None:
        self._shards.pick()

    def close(self) -> None:
        self._shards.close()

    def _post(self, body: Mapping[str, Any], timeout_s: float) -> Answer:
        import httpx2
        import openai

        timeout = call_timeout(timeout_s, self._access.connect_timeout_s)
        try:
            response = self._shards.pick().post(
                "/chat/completions", cast_to=httpx2.Response, body=dict(body), options={"timeout": timeout}
            )
        except openai.APIStatusError as error:
            response = error.response
        except (openai.APIError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise failure_of_connection(self._access.vendor, error, timeout_s) from error
        return read_answer(self._access.vendor, response)

    def _make_client(self) -> "OpenAI":
        from openai import OpenAI

        return OpenAI(
            api_key=sound_key(self._access.api_key, self._access.vendor) or _NO_KEY,
            base_url=self._access.base_url or OPENAI_URL,
            max_retries=0,
            http_client=http_client(),
        )


def chat_body(chat: Chat, *, limit_name: str) -> dict[str, Any]:
    """A Chat Completions request; `limit_name` is what the server calls the output limit."""
    turns = [{"role": m.role, "content": sendable(m.content)} for m in chat.messages]
    system = [{"role": "system", "content": sendable(chat.system)}] if chat.system.strip() else []
    body: dict[str, Any] = {"model": chat.model.name, "messages": system + turns}
    if chat.reply_schema is not None:
        body["response_format"] = _response_format(chat.reply_schema)
    if chat.temperature is not None:
        body["temperature"] = chat.temperature
    if chat.max_output_tokens is not None:
        body[limit_name] = chat.max_output_tokens
    return body


def _response_format(wanted: ReplySchema) -> dict[str, Any]:
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", wanted.name)[:64] or "reply"
    named = {"name": name, "strict": True, "schema": strict_schema(wanted.schema)}
    return {"type": "json_schema", "json_schema": named}
