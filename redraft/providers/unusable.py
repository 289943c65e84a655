"""The provider of models that this process cannot call."""

from collections.abc import Callable, Mapping
from typing import Any

from redraft.errors import ProviderError
from redraft.providers.shared.protocol import Chat, ChatReply, LimitOrigin


class UnusableProvider:
    """Fails each call. It is used if another process accepted the job, or if the installation has changed.

    Attributes:
        reason: what is wrong with the package of the provider; empty if the provider is unknown.
    """

    def __init__(self, name: str, message: str, reason: str = "") -> None:
        self.name = name
        self.reason = reason
        self._message = message

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """See `Provider.wire_body`. Nothing is sent, so the body only names the model."""
        return {"model": chat.model.name}

    async def send(
        self,
        body: Mapping[str, Any],
        *,
        timeout_s: float,
        files: Mapping[str, str] | None = None,
        on_delta: Callable[[str], None] | None = None,
        limit_origin: LimitOrigin | None = None,
    ) -> ChatReply:
        """See `Provider.send`. Nothing is sent."""
        del body, timeout_s, files, on_delta, limit_origin
        raise ProviderError("unknown_model", self._message)

    def warm_up(self) -> None:
        """Do nothing, because there is no client."""

    async def close(self) -> None:
        """Do nothing, because there is no client."""
