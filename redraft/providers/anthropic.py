"""Messages: Anthropic itself, and servers that speak its format.

Paused turns are continued here, inside one call, since only this wire format knows them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redraft.errors import ProviderError
from redraft.providers.anthropic_replies import content_of, is_paused, read_reply
from redraft.providers.failures import Answer, Vendor, failure_of_connection
from redraft.providers.protocol import Chat, ChatReply, Message, sendable
from redraft.providers.replies import read_answer, sound_key
from redraft.providers.schemas import strict_schema
from redraft.providers.wires import ClientShards, TimeLeft, call_timeout, http_client

if TYPE_CHECKING:
    from anthropic import Anthropic

ANTHROPIC_URL = "https://api.anthropic.com"
CONTINUATIONS_MAX = 5
_NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class AnthropicAccess:
    """Where to call and how to be let in. `base_url` None: Anthropic itself."""

    vendor: Vendor
    api_key: str
    base_url: str | None
    connect_timeout_s: float
    threads: int
    max_output_tokens: int


class AnthropicProvider:
    """One account, or one compatible server."""

    name = "anthropic"

    def __init__(self, access: AnthropicAccess) -> None:
        self._access = access
        self._shards: ClientShards[Anthropic] = ClientShards(self._make_client, access.threads)

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """The request as it will be sent."""
        body: dict[str, Any] = {
            "model": chat.model.name,
            "max_tokens": chat.max_output_tokens or self._access.max_output_tokens,
            "messages": _turns(chat.messages),
        }
        if chat.system.strip():
            body["system"] = sendable(chat.system)
        if chat.reply_schema is not None:
            schema = strict_schema(chat.reply_schema.schema)
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if chat.temperature is not None:
            body["temperature"] = chat.temperature
        return body

    def send(self, body: Mapping[str, Any], *, timeout_s: float) -> ChatReply:
        """Make the call, once; a paused turn is sent back as it is until it ends."""
        # The first client brings the import of the SDK, which is none of the call's time.
        self._shards.pick()
        left = TimeLeft(timeout_s)
        answers = [self._post(body, timeout_s, left)]
        while is_paused(answers[-1]):
            if len(answers) > CONTINUATIONS_MAX:
                raise ProviderError(
                    "provider_bad_request",
                    f"The model paused its turn {len(answers)} times without an end.",
                    http_status=answers[-1].status,
                    response=[answer.body for answer in answers],
                )
            paused = {"role": "assistant", "content": content_of(answers)}
            longer = {**body, "messages": [*body["messages"], paused]}
            answers.append(self._post(longer, timeout_s, left))
        return read_reply(self._access.vendor, answers)

    def warm_up(self) -> None:
        self._shards.pick()

    def close(self) -> None:
        self._shards.close()

    def _post(self, body: Mapping[str, Any], timeout_s: float, left: TimeLeft) -> Answer:
        import anthropic
        import httpx2

        timeout = call_timeout(left.seconds, self._access.connect_timeout_s)
        try:
            response = self._shards.pick().post(
                "/v1/messages", cast_to=httpx2.Response, body=dict(body), options={"timeout": timeout}
            )
        except anthropic.APIStatusError as error:
            response = error.response
        except (anthropic.AnthropicError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise failure_of_connection(self._access.vendor, error, timeout_s) from error
        return read_answer(self._access.vendor, response)

    def _make_client(self) -> "Anthropic":
        from anthropic import Anthropic

        return Anthropic(
            api_key=sound_key(self._access.api_key, self._access.vendor) or _NO_KEY,
            base_url=self._access.base_url or ANTHROPIC_URL,
            max_retries=0,
            http_client=http_client(),
        )


def _turns(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """The turns that Anthropic takes: none blank, and no blanks at the end of a last assistant turn."""
    turns = [{"role": m.role, "content": sendable(m.content)} for m in messages if m.content.strip()]
    if turns and turns[-1]["role"] == "assistant":
        turns[-1]["content"] = turns[-1]["content"].rstrip()
    return turns
