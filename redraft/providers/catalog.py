"""Creates the providers of a process on first use, and says which models can be called, and at what price."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

from redraft.domain.calls.model_names import ModelRef, parse_model
from redraft.errors import Invalid
from redraft.providers.shared.failures import Vendor
from redraft.providers.shared.prices import price_nano_usd
from redraft.providers.shared.protocol import LimitOrigin, Provider, Usage
from redraft.providers.shared.transport import CALLS_LOOP, timeouts_of
from redraft.settings import Settings

DEFAULT_OPENAI = ModelRef("openai", "gpt-6-luna")
DEFAULT_ANTHROPIC = ModelRef("anthropic", "claude-haiku-5-5")
# The name of the bundled model. With REDRAFT_LOCAL_MODEL, any name after `local:` means the file of that setting
DEFAULT_LOCAL = ModelRef("local", "smollm2-135m")


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One line of `GET /v1/models`."""

    id: str
    provider: str
    configured: bool
    default: bool
    note: str


class ProviderCatalog:
    """Creates the providers of a process from the settings, and keeps them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._made: dict[str, Provider] = {}
        self._makers: dict[str, Callable[[], Provider]] = {
            "openai": self._make_openai,
            "anthropic": self._make_anthropic,
            "local": self._make_local,
        }

    def get(self, ref: ModelRef) -> Provider:
        """Return the provider of a model. Each provider is created once per process."""
        made = self._made.get(ref.provider)
        if made is not None:
            return made
        with self._lock:
            if ref.provider not in self._made:
                self._made[ref.provider] = self._makers[ref.provider]()
            return self._made[ref.provider]

    def warm_up(self) -> None:
        """Prepare the providers of the default models for their first call."""
        named = [str(self.default_model()), self._settings.evaluator_model]
        for ref in {parse_model(name, "/model") for name in named if name}:
            self.get(ref).warm_up()

    def default_model(self) -> ModelRef:
        """Return the model in the settings, or a model whose API key is set, or the bundled model, in this order."""
        if self._settings.model:
            return parse_model(self._settings.model, "/model")
        if self._openai_key:
            return DEFAULT_OPENAI
        return DEFAULT_ANTHROPIC if self._anthropic_key else DEFAULT_LOCAL

    def is_configured(self, provider: str) -> bool:
        """Whether calls to a provider are possible. A compatible server may need no key."""
        if provider == "openai":
            return bool(self._openai_key or self._is_own_openai)
        if provider == "anthropic":
            return bool(self._anthropic_key or self._is_own_anthropic)
        return self._local_failure() is None

    def check_configured(self, ref: ModelRef, pointer: str) -> None:
        """Refuse a model that cannot be called, before a job is stored.

        Raises:
            Invalid: if no key is set (code `provider_auth`), or the local model is not installed (`unknown_model`).
        """
        if ref.provider == "local":
            if failure := self._local_failure() or self._misnamed(ref):
                raise Invalid.at(pointer, failure, "unknown_model")
        elif not self.is_configured(ref.provider):
            key = f"{ref.provider.upper()}_API_KEY"
            raise Invalid.at(pointer, f"{ref} needs a key: set {key}.", "provider_auth")

    def price(self, ref: ModelRef, usage: Usage) -> int | None:
        """Return the cost of a call in 1e-9 USD. None if it is unknown."""
        is_own = {"openai": self._is_own_openai, "anthropic": self._is_own_anthropic}
        return price_nano_usd(
            ref, usage, own_prices=self._settings.prices, is_listed=not is_own.get(ref.provider, False)
        )

    def verdict_tokens(self, ref: ModelRef) -> int:
        """Return the output limit of the first call of an evaluation, in tokens."""
        most = self._settings.evaluator_max_output_tokens
        if ref.provider != "local":
            return most
        from redraft.providers.local.provider import OUTPUT_TOKENS

        return min(most, OUTPUT_TOKENS)

    def verdict_limit_origin(self, *, is_second: bool = False) -> LimitOrigin:
        """Return the origin of `verdict_tokens`. The larger limit of a retry has no setting of its own."""
        return self._limit_origin("evaluator_max_output_tokens", is_own=is_second)

    def _limit_origin(self, field: str, *, is_own: bool = False) -> LimitOrigin:
        return LimitOrigin(f"REDRAFT_{field.upper()}", field in self._settings.model_fields_set and not is_own)

    def models(self) -> list[ListedModel]:
        """Return one model per provider, and the default model."""
        default = self.default_model()
        refs = dict.fromkeys((default, DEFAULT_OPENAI, DEFAULT_ANTHROPIC, DEFAULT_LOCAL))
        return [
            ListedModel(
                str(ref),
                ref.provider,
                self.is_configured(ref.provider),
                ref == default,
                self._note(ref.provider),
            )
            for ref in refs
        ]

    def close(self) -> None:
        """Close all providers. A later `get` creates them again."""
        with self._lock:
            made, self._made = self._made, {}

        async def close_all() -> None:
            for provider in made.values():
                await provider.close()

        if made:
            CALLS_LOOP.run(close_all())

    def _note(self, provider: str) -> str:
        if provider == "local":
            return self._local_failure() or "Runs on this machine. The bundled model is tiny: for trying out only."
        if not self.is_configured(provider):
            return f"Set {provider.upper()}_API_KEY to use it."
        is_own = self._is_own_openai if provider == "openai" else self._is_own_anthropic
        return f"Served at {provider.upper()}_BASE_URL." if is_own else "Any model name of the account works."

    @property
    def _openai_key(self) -> str:
        key = self._settings.openai_api_key
        return key.get_secret_value().strip() if key else ""

    @property
    def _anthropic_key(self) -> str:
        key = self._settings.anthropic_api_key
        return key.get_secret_value().strip() if key else ""

    @property
    def _is_own_openai(self) -> bool:
        return is_own_server(self._settings.openai_base_url, "api.openai.com")

    @property
    def _is_own_anthropic(self) -> bool:
        return is_own_server(self._settings.anthropic_base_url, "api.anthropic.com")

    def _local_failure(self) -> str | None:
        from redraft.providers.local.provider import missing_part

        return missing_part(self._settings.local_model)

    def _misnamed(self, ref: ModelRef) -> str | None:
        """Say why there is no local model with this name. Return None if there is one."""
        # If the user has set a model file, every name after `local:` means this file
        if self._settings.local_model or ref == DEFAULT_LOCAL:
            return None
        remedy = "To use another file, set REDRAFT_LOCAL_MODEL."
        return f"{ref} is not installed. The bundled model is {DEFAULT_LOCAL}. {remedy}"

    def _make_openai(self) -> Provider:
        from redraft.providers.openai.provider import OpenAIAccess, OpenAIProvider

        is_own = self._is_own_openai
        label = "the server at OPENAI_BASE_URL" if is_own else "OpenAI"
        return OpenAIProvider(
            OpenAIAccess(
                Vendor(label, "OPENAI_API_KEY", "OPENAI_BASE_URL", self._openai_key),
                self._openai_key,
                self._settings.openai_base_url,
                is_own,
                timeouts_of(self._settings),
            )
        )

    def _make_anthropic(self) -> Provider:
        from redraft.providers.anthropic.provider import AnthropicAccess, AnthropicProvider

        label = "the server at ANTHROPIC_BASE_URL" if self._is_own_anthropic else "Anthropic"
        return AnthropicProvider(
            AnthropicAccess(
                Vendor(label, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", self._anthropic_key),
                self._anthropic_key,
                self._settings.anthropic_base_url,
                timeouts_of(self._settings),
                self._settings.anthropic_max_output_tokens,
                self._limit_origin("anthropic_max_output_tokens"),
            )
        )

    def _make_local(self) -> Provider:
        from redraft.providers.local.provider import LocalProvider

        return LocalProvider(self._settings)


def is_own_server(base_url: str | None, vendor_host: str) -> bool:
    """Whether a base URL belongs to a compatible server, and not to the vendor."""
    return bool(base_url) and not re.match(rf"https?://{re.escape(vendor_host)}(:443)?(/|$)", base_url or "")
