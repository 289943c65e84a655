"""The providers of installed packages. Their code can return or raise anything, so all of this is checked."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple
from typing import Any, cast, get_args

import structlog

from redraft.domain.calls.model_names import is_provider_name
from redraft.endpoints import BUILT_IN
from redraft.errors import ProviderError, ProviderErrorCode
from redraft.packages.entry_points import Extension
from redraft.providers.shared.media import digests_in
from redraft.providers.shared.protocol import Chat, ChatReply, LimitOrigin, Provider, UnusableReply, Usage
from redraft.providers.shared.replies import EMPTY, TOKENS_MAX
from redraft.providers.unusable import UnusableProvider
from redraft.redaction import remember

log = structlog.get_logger()

_METHODS = ("wire_body", "send", "warm_up", "close")


def name_error(name: str, endpoints: Collection[str]) -> str | None:
    """Return why an entry point with this name cannot be a provider, or None if it can."""
    if name in BUILT_IN:
        return "this name is built in; the package needs another name"
    if name in endpoints:
        return "an endpoint of the settings has this name, and is used; rename one of them"
    if not is_provider_name(name):
        return "a name is a small letter and at most 19 small letters, digits, '_' or '-'"
    return None


def unusable_message(name: str) -> str:
    """Return the message for callers. Only administrators see the reason, since it may contain secrets or paths."""
    return f"The provider {name!r} of an installed package cannot be used; `redraft doctor` says why."


def make_packaged(extension: Extension) -> Provider:
    """Create the provider of an entry point. If that fails, return a provider whose calls fail."""
    reason = extension.error
    if reason is None:
        try:
            made = extension.loaded()
        except (Exception, SystemExit) as error:
            log.exception("package_provider_not_created", provider=extension.name, package=extension.origin)
            reason = f"the provider cannot be created: {type(error).__name__}: {error}"[:500]
        else:
            reason = _shape_error(made)
            if reason is None:
                remember(getattr(made, "secrets", ()))
                return PackagedProvider(extension, made)
    return UnusableProvider(extension.name, unusable_message(extension.name), reason)


def _shape_error(made: Any) -> str | None:
    missing = [name for name in _METHODS if not callable(getattr(made, name, None))]
    if missing:
        return f"{type(made).__name__} has no method {', '.join(missing)}"
    secrets: Any = getattr(made, "secrets", ())
    if not isinstance(secrets, list | tuple) or not all(isinstance(each, str) for each in cast("list[Any]", secrets)):
        return f"{type(made).__name__}.secrets is no list of texts"
    return None


class PackagedProvider:
    """Passes calls to the provider of a package. Each fault of the package becomes a `ProviderError`."""

    def __init__(self, extension: Extension, made: Provider) -> None:
        self.name = extension.name
        self._origin = extension.origin
        self._made = made

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """See `Provider.wire_body`."""
        try:
            body: Any = self._made.wire_body(chat)
            _ensure_json(body)
        except (Exception, SystemExit) as error:
            raise self._failure(error) from error
        if not isinstance(body, dict):
            raise ProviderError("provider_bad_request", f"{self._label} returned no JSON object as the request.")
        media = {each.digest for message in chat.messages for each in message.media}
        if media - digests_in(cast("dict[str, Any]", body)):
            words = f"{self._label} sends no images and PDFs: leave the attachments out, or choose another model."
            raise ProviderError("provider_bad_request", words)
        return body  # pyright: ignore[reportUnknownVariableType]

    async def send(
        self,
        body: Mapping[str, Any],
        *,
        timeout_s: float,
        files: Mapping[str, str] | None = None,
        on_delta: Callable[[str], None] | None = None,
        limit_origin: LimitOrigin | None = None,
    ) -> ChatReply:
        """See `Provider.send`."""
        deltas = _Deltas(on_delta) if on_delta else None
        reply: Any = None
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self._made.send(
                    body,
                    timeout_s=timeout_s,
                    files=files,
                    on_delta=deltas,
                    limit_origin=limit_origin,
                )
            _ensure_json([getattr(reply, "response", None), getattr(reply, "headers", None)])
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if deltas is None or deltas.error is None:
                raise self._failure(error) from error
        # The package may have caught the error that `on_delta` raised
        if deltas is not None and deltas.error is not None:
            raise deltas.error
        if not _is_reply(reply):
            raise ProviderError("provider_bad_request", f"{self._label} returned no valid ChatReply.")
        if not reply.text.strip():
            raise UnusableReply("empty_output", EMPTY, reply)
        return reply

    def warm_up(self) -> None:
        """See `Provider.warm_up`. A failure is logged, because the first call reports it."""
        try:
            self._made.warm_up()
        except (Exception, SystemExit):
            log.exception("package_provider_not_warm", provider=self.name, package=self._origin)

    async def close(self) -> None:
        """See `Provider.close`. A failure is logged, because no call needs the provider any more."""
        try:
            await self._made.close()
        except (Exception, SystemExit):
            log.exception("package_provider_not_closed", provider=self.name, package=self._origin)

    @property
    def _label(self) -> str:
        return f"The provider {self.name!r} of {self._origin}"

    def _failure(self, error: BaseException) -> ProviderError:
        has_usage = not isinstance(error, UnusableReply) or _is_usage(error.usage)
        if isinstance(error, ProviderError) and error.code in get_args(ProviderErrorCode) and has_usage:
            return error
        if isinstance(error, TimeoutError):
            return ProviderError("provider_timeout", f"{self._label} did not answer in time.")
        log.error("package_provider_crashed", provider=self.name, package=self._origin, exc_info=error)
        return ProviderError("provider_bad_request", f"{self._label} raised {type(error).__name__}.")


class _Deltas:
    """Passes pieces of the text to the caller. An error of the caller is not an error of the package."""

    def __init__(self, on_delta: Callable[[str], None]) -> None:
        self._on_delta = on_delta
        self.error: Exception | None = None

    def __call__(self, text: str) -> None:
        try:
            self._on_delta(text)
        except Exception as error:
            self.error = error
            raise


def _ensure_json(value: Any) -> None:
    """Raise an exception for a value that the ledger cannot store."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _is_reply(reply: Any) -> bool:
    if not isinstance(reply, ChatReply) or not _is_usage(reply.usage) or not _is_number(reply.http_status):
        return False
    texts: tuple[Any, Any] = (reply.text, reply.finish_reason)
    return isinstance(texts[0], str) and isinstance(texts[1], str | None)


def _is_usage(usage: Any) -> bool:
    return isinstance(usage, Usage) and all(each is None or _is_number(each) for each in astuple(usage))


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= TOKENS_MAX
