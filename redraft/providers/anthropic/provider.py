"""The provider for the Messages API: Anthropic itself, and servers with the same API.

A paused turn is continued here within one call, because only this wire format has paused turns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redraft.domain.calls.conversation import ReasoningEffort, keep_stable_parts
from redraft.errors import ProviderError
from redraft.providers.anthropic.replies import content_of, is_paused, read_reply
from redraft.providers.anthropic.streams import AnthropicEvents
from redraft.providers.shared.capabilities import CapabilityMemory, adapted_chat, plain_parameters, with_schema_in_words
from redraft.providers.shared.failures import Answer, Vendor, failure_of_answer
from redraft.providers.shared.media import anthropic_blocks, with_data
from redraft.providers.shared.protocol import Chat, ChatReply, LimitOrigin, Message, sendable
from redraft.providers.shared.replies import checked_key
from redraft.providers.shared.schemas import wire_schema
from redraft.providers.shared.sending import Connection, Endpoint, Sender, endpoint_headers, sdk_headers
from redraft.providers.shared.streams import DeltaEmitter, OnDelta
from redraft.providers.shared.transport import TimeLeft, Timeouts, http_client

ANTHROPIC_URL = "https://api.anthropic.com"
CONTINUATIONS_MAX = 5
_NO_KEY = "none"
# The version that the SDK sends. The SDK has no public constant for it
_API_VERSION = "2026-10-21"
# The smallest budget that the API accepts
_THINKING_MIN = 1024
_THINKING_TOKENS: Mapping[ReasoningEffort, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 4096,
    "high": 8192,
    "xhigh": 16_384,
    "max": 32_768,
}
# No model of Anthropic caches fewer than 1,024 tokens
_CACHED_CHARS_MIN = 4096


@dataclass(frozen=True, slots=True)
class AnthropicAccess:
    """The address and the credentials. If `base_url` is None, the address is Anthropic's.

    Attributes:
        max_output_tokens: the output limit of calls that have no limit of their own. The API requires a limit.
        limit_origin: the setting of this limit.
        headers: further headers of each request to an endpoint of the settings.
    """

    vendor: Vendor
    api_key: str
    base_url: str | None
    timeouts: Timeouts
    max_output_tokens: int
    limit_origin: LimitOrigin
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class AnthropicProvider:
    """The provider for one Anthropic account, or for one compatible server."""

    def __init__(self, access: AnthropicAccess, name: str = "anthropic") -> None:
        self.name = name
        self._access = access
        self._memory = CapabilityMemory()
        self._made: tuple[Connection, Sender] | None = None

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """See `Provider.wire_body`."""
        effort = chat.reasoning_effort
        # This API has no effort `minimal`
        adaptations = self._memory.of_chat(replace(chat, reasoning_effort="low") if effort == "minimal" else chat)
        chat = adapted_chat(chat, with_schema_in_words(chat, adaptations, takes_loose=False))
        if "no_cache_control" in adaptations:
            chat = replace(chat, messages=keep_stable_parts(chat.messages, 0))
        body: dict[str, Any] = {
            "model": chat.model.name,
            "max_tokens": chat.max_output_tokens or self._access.max_output_tokens,
            "messages": _turns(chat.messages),
        }
        if chat.system.strip():
            body["system"] = sendable(chat.system)
        if chat.reply_schema is not None and (wire := wire_schema(chat.reply_schema.schema)) is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": wire.schema}}
        body |= plain_parameters(replace(chat, seed=None))
        if chat.stream:
            body["stream"] = True
        body = self._memory.limits.fitted(body, chat.limit_origin or self._access.limit_origin)
        return self._with_reasoning(body, chat.reasoning_effort, is_budget="effort_as_budget" in adaptations)

    async def send(
        self,
        body: Mapping[str, Any],
        *,
        timeout_s: float,
        files: Mapping[str, str] | None = None,
        on_delta: OnDelta | None = None,
        limit_origin: LimitOrigin | None = None,
    ) -> ChatReply:
        """See `Provider.send`. If the model pauses its turn, the turn is sent back unchanged until it is complete."""
        # The first call imports the SDK, before the timeout of the call starts
        _, sender = self._ready()
        left, emitter = TimeLeft(timeout_s), DeltaEmitter(on_delta)
        origin = limit_origin or self._access.limit_origin
        answers = [await self._first_answer(sender, body, files, left, emitter, origin)]
        while is_paused(answers[-1]):
            if len(answers) > CONTINUATIONS_MAX:
                raise ProviderError(
                    "provider_bad_request",
                    f"The model paused its turn {len(answers)} times and did not complete it."
                    " Shorten the task, or use another model.",
                    http_status=answers[-1].status,
                    response=[answer.body for answer in answers],
                )
            paused = {"role": "assistant", "content": content_of(answers)}
            longer = {**body, "messages": [*body["messages"], paused]}
            answers.append(await sender.send(with_data(longer, files), left, emitter))
        reply = read_reply(self._access.vendor, answers)
        emitter.finish(reply.text)
        return reply

    def reply_in(self, body: Mapping[str, Any], answer: Answer) -> ChatReply:
        """Return the reply in an answer from a batch. Raises the same errors as `send`.

        A paused turn is incomplete, because a batch cannot continue it.
        """
        if answer.status >= 300 or not isinstance(answer.body, dict):
            error = failure_of_answer(self._access.vendor, answer)
            self._memory.adapt(error, body, limit_origin=self._access.limit_origin)
            raise error
        return read_reply(self._access.vendor, [answer])

    def connection(self) -> Connection:
        return self._ready()[0]

    def warm_up(self) -> None:
        self._ready()

    async def close(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            await made[0].close()

    async def _first_answer(
        self,
        sender: Sender,
        body: Mapping[str, Any],
        files: Mapping[str, str] | None,
        left: TimeLeft,
        emitter: DeltaEmitter,
        origin: LimitOrigin,
    ) -> Answer:
        try:
            return await sender.send(with_data(body, files), left, emitter)
        except ProviderError as error:
            self._memory.adapt(error, body, limit_origin=origin)
            raise

    def _with_reasoning(
        self, body: dict[str, Any], effort: ReasoningEffort | None, *, is_budget: bool
    ) -> dict[str, Any]:
        """Add the reasoning effort. Models that accept no effort get a budget of thinking tokens instead."""
        if effort is None:
            return body
        if effort == "none":
            return {**body, "thinking": {"type": "disabled"}}
        if not is_budget:
            config = {**body.get("output_config", {}), "effort": "low" if effort == "minimal" else effort}
            return {**body, "thinking": {"type": "adaptive"}, "output_config": config}
        # Thinking tokens count against the output limit, so at least half of the limit remains for the text
        budget = min(_THINKING_TOKENS[effort], body["max_tokens"] // 2)
        if budget < _THINKING_MIN or self._memory.refuses_budget(body["model"], budget):
            return body
        return {**body, "thinking": {"type": "enabled", "budget_tokens": budget}}

    def _ready(self) -> tuple[Connection, Sender]:
        self._made = self._made or self._make()
        return self._made

    def _make(self) -> tuple[Connection, Sender]:
        from anthropic import AsyncAnthropic, DefaultAioHttpClient

        http = http_client(DefaultAioHttpClient)
        key = checked_key(self._access.api_key, self._access.vendor) or _NO_KEY
        base_url = self._access.base_url or ANTHROPIC_URL
        if self.name == "anthropic":
            headers = sdk_headers(AsyncAnthropic(api_key=key, base_url=base_url, http_client=http))
        else:
            headers = endpoint_headers(key, self._access.headers, anthropic_version=_API_VERSION)
        endpoint = Endpoint("v1/messages", self._access.vendor, self._access.timeouts, AnthropicEvents)
        connection = Connection(base_url, headers, http)
        return connection, Sender(connection, endpoint)


def _turns(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Return the turns without blank turns, and without blanks at the end of a last assistant turn."""
    # Anthropic refuses a request with such blanks
    kept = [message for message in messages if message.content.strip()]
    if kept and kept[-1].role == "assistant":
        kept[-1] = Message("assistant", kept[-1].content.rstrip())
    return [{"role": message.role, "content": _content(message)} for message in kept]


def _content(message: Message) -> str | list[dict[str, Any]]:
    """Return the text. If there are media or cache breakpoints, return blocks: first the media, then the text."""
    text = sendable(message.content)
    ends = [end for end in message.stable_ends if end >= _CACHED_CHARS_MIN]
    if not ends and not message.media:
        return text
    return [*(block for media in message.media for block in anthropic_blocks(media)), *_text_blocks(text, ends)]


def _text_blocks(text: str, ends: Sequence[int]) -> list[dict[str, Any]]:
    """Return the parts of a text, with a cache breakpoint after each stable part that is long enough to be cached."""
    blocks: list[dict[str, Any]] = []
    start = 0
    for end in ends:
        # Anthropic refuses blank blocks
        if text[start:end].strip():
            blocks.append({"type": "text", "text": text[start:end], "cache_control": {"type": "ephemeral"}})
            start = end
    rest = text[start:]
    return [*blocks, {"type": "text", "text": rest}] if rest.strip() else blocks
