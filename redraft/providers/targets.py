"""The servers that models are called on: the two vendors, and the endpoints of the settings."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import SecretStr

from redraft.endpoints import BatchSize, Endpoint, ModelPrice
from redraft.providers.batches.batch_client import BatchAccess
from redraft.providers.batches.batch_endpoint import BatchEndpoint, BatchLimits
from redraft.providers.batches.batch_transport import BatchProvider
from redraft.providers.shared.failures import Vendor
from redraft.providers.shared.protocol import LimitOrigin, Provider
from redraft.providers.shared.transport import timeouts_of
from redraft.settings import Settings

WireFormat = Literal["openai", "anthropic"]

_HOSTS: Mapping[WireFormat, str] = {"openai": "api.openai.com", "anthropic": "api.anthropic.com"}
_LABELS: Mapping[WireFormat, str] = {"openai": "OpenAI", "anthropic": "Anthropic"}


@dataclass(frozen=True, slots=True)
class Target:
    """A server with its wire format and its credentials.

    Attributes:
        name: the name before the colon of a model.
        format: the wire format.
        key: the API key; empty if no key is set.
        key_setting: the setting of the key, for messages.
        base_url: the address; None means the vendor's address.
        url_setting: the setting of the address, for messages.
        headers: further headers of each request.
        label: the name of the server in messages.
        note: a description of a usable server.
        needs_key: whether the server cannot be called without a key.
        price_of: returns the price of a model from the settings of the endpoint.
        max_output_tokens: the output limit of calls that have no limit of their own; None if no limit is sent.
        limit_origin: the setting of this limit.
        batches: whether the server has a batch API, or the limits of this API.
    """

    name: str
    format: WireFormat
    key: str
    key_setting: str
    base_url: str | None
    url_setting: str
    label: str
    note: str
    needs_key: bool
    max_output_tokens: int | None
    limit_origin: LimitOrigin
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    price_of: Callable[[str], ModelPrice | None] = lambda _model: None
    batches: bool | BatchSize = False

    @property
    def is_own_server(self) -> bool:
        """Whether the address belongs to a compatible server, and not to the vendor."""
        return is_own_server(self.base_url, _HOSTS[self.format])

    @property
    def is_usable(self) -> bool:
        return bool(self.key) or not self.needs_key


def targets_of(settings: Settings) -> dict[str, Target]:
    """Return the servers, by the name before the colon of their models. The server of local models is not included."""
    vendors = (
        _vendor(settings, "openai", settings.openai_api_key, settings.openai_base_url),
        _vendor(settings, "anthropic", settings.anthropic_api_key, settings.anthropic_base_url),
    )
    endpoints = [_endpoint(settings, name, each) for name, each in settings.endpoints.items()]
    return {target.name: target for target in (*vendors, *endpoints)}


def _vendor(settings: Settings, name: WireFormat, key: SecretStr | None, base_url: str | None) -> Target:
    url_setting, is_own = f"{name.upper()}_BASE_URL", is_own_server(base_url, _HOSTS[name])
    limit, origin = None, LimitOrigin()
    if name == "anthropic":
        setting = "anthropic_max_output_tokens"
        limit = settings.anthropic_max_output_tokens
        origin = LimitOrigin(f"REDRAFT_{setting.upper()}", setting in settings.model_fields_set)
    return Target(
        name=name,
        format=name,
        key=key.get_secret_value().strip() if key else "",
        key_setting=f"{name.upper()}_API_KEY",
        base_url=base_url,
        url_setting=url_setting,
        label=f"the server at {url_setting}" if is_own else _LABELS[name],
        note=f"{url_setting} sets its address." if is_own else "Any model name of the account works.",
        needs_key=not is_own,
        max_output_tokens=limit,
        limit_origin=origin,
        batches=not is_own,
    )


def _endpoint(settings: Settings, name: str, endpoint: Endpoint) -> Target:
    limit, where = endpoint.max_output_tokens, f"endpoints.{name}"
    default = settings.anthropic_max_output_tokens if endpoint.format == "anthropic" else None
    return Target(
        name=name,
        format=endpoint.format,
        key=settings.endpoint_key(name),
        key_setting=endpoint.api_key_env or f"{where}.api_key_env",
        base_url=endpoint.base_url,
        url_setting=f"{where}.base_url",
        label=f"the endpoint {name}",
        note=f"Write {name}:model with any model name of the server.",
        needs_key=endpoint.api_key_env is not None,
        max_output_tokens=limit or default,
        limit_origin=LimitOrigin(f"{where}.max_output_tokens", is_fixed=limit is not None),
        headers=endpoint.plain_headers,
        price_of=endpoint.price_of,
        batches=endpoint.batches or not is_own_server(endpoint.base_url, _HOSTS[endpoint.format]),
    )


def make_provider(target: Target, settings: Settings) -> Provider:
    """Create the provider of a server."""
    vendor = _vendor_of(target)
    if target.format == "openai":
        from redraft.providers.openai.provider import OpenAIAccess, OpenAIProvider

        return OpenAIProvider(
            OpenAIAccess(
                vendor,
                target.key,
                target.base_url,
                target.is_own_server,
                timeouts_of(settings),
                target.headers,
                target.max_output_tokens,
                target.limit_origin,
            ),
            target.name,
        )
    from redraft.providers.anthropic.provider import AnthropicAccess, AnthropicProvider

    return AnthropicProvider(
        AnthropicAccess(
            vendor,
            target.key,
            target.base_url,
            timeouts_of(settings),
            target.max_output_tokens or settings.anthropic_max_output_tokens,
            target.limit_origin,
            target.headers,
        ),
        target.name,
    )


def make_batches(target: Target, settings: Settings, provider: Provider) -> BatchEndpoint | None:
    """Create the batch endpoint of a server from the provider of its live calls.

    Return None if the server has no batch API.
    """
    from redraft.providers.anthropic.provider import AnthropicProvider
    from redraft.providers.batches.anthropic_batches import ANTHROPIC_LIMITS, AnthropicBatches
    from redraft.providers.batches.openai_batches import OPENAI_LIMITS, OpenAIBatches
    from redraft.providers.openai.provider import OpenAIProvider

    def access(provider: BatchProvider, limits: BatchLimits) -> BatchAccess:
        own = target.batches if isinstance(target.batches, BatchSize) else BatchSize()
        limits = BatchLimits(own.requests or limits.requests, own.bytes or limits.bytes)
        return BatchAccess(provider, _vendor_of(target), timeouts_of(settings), limits)

    if not target.batches:
        return None
    if isinstance(provider, OpenAIProvider):
        return OpenAIBatches(access(provider, OPENAI_LIMITS))
    return AnthropicBatches(access(provider, ANTHROPIC_LIMITS)) if isinstance(provider, AnthropicProvider) else None


def _vendor_of(target: Target) -> Vendor:
    return Vendor(target.label, target.key_setting, target.url_setting, target.key)


def is_own_server(base_url: str | None, vendor_host: str) -> bool:
    """Whether a base URL belongs to a compatible server, and not to the vendor."""
    # A user may also set the vendor's own address as the base URL
    return bool(base_url) and not re.match(rf"https?://{re.escape(vendor_host)}(:443)?(/|$)", base_url or "")
