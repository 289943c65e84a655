"""Creates the providers of a process on first use. Says which models can be called, and what a call costs."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import structlog

from redraft.domain.calls.model_names import FREE_PROVIDER, ModelRef, parse_model
from redraft.endpoints import ANY_MODEL
from redraft.errors import Invalid, ProviderError
from redraft.packages.entry_points import Extension, extensions
from redraft.providers.batches.batch_endpoint import BatchEndpoint
from redraft.providers.packaged import make_packaged, name_error, unusable_message
from redraft.providers.prices import price_nano_usd
from redraft.providers.shared.protocol import LimitOrigin, Provider, Usage
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.providers.targets import make_batches, make_provider, targets_of
from redraft.providers.unusable import UnusableProvider
from redraft.settings import Settings

log = structlog.get_logger()

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
        self._preparing = threading.Lock()
        self._prepared: set[str] = set()
        self._targets = targets_of(settings)

    def get(self, ref: ModelRef) -> Provider:
        """Return the provider of a model. Each provider is created once per process.

        If the settings have no such provider, each call fails, because another process may have accepted the job.
        """
        made = self._made.get(ref.provider)
        if made is not None:
            return made
        with self._lock:
            if ref.provider not in self._made:
                self._made[ref.provider] = self._make(ref)
            return self._made[ref.provider]

    def _make(self, ref: ModelRef) -> Provider:
        if ref.provider == FREE_PROVIDER:
            from redraft.providers.local.provider import LocalProvider

            return LocalProvider(self._settings)
        target = self._targets.get(ref.provider)
        if target is not None:
            return make_provider(target, self._settings)
        package = self._packages.get(ref.provider)
        return make_packaged(package) if package else UnusableProvider(ref.provider, self._unknown(ref))

    @cached_property  # packages are imported only where a model or a list needs them
    def _packages(self) -> Mapping[str, Extension]:
        """The providers of installed packages, except those whose names the settings or Redraft already use."""
        found = extensions("redraft.providers")
        return {name: each for name, each in found.items() if name_error(name, self._settings.endpoints) is None}

    def package_errors(self) -> dict[str, str]:
        """Return the error of each provider of an installed package that cannot be used, by name."""
        names = extensions("redraft.providers")
        errors = {name: name_error(name, self._settings.endpoints) or self._package_failure(name) for name in names}
        return {name: error for name, error in errors.items() if error}

    def _package_failure(self, name: str) -> str:
        """Return why the provider of a package cannot be used, or an empty text."""
        provider = self.get(ModelRef(name, ANY_MODEL))
        return provider.reason if isinstance(provider, UnusableProvider) else ""

    def warm_up(self) -> None:
        """Prepare the providers of the default models for their first call."""
        named = [str(self.default_model()), self._settings.evaluator_model]
        for ref in {parse_model(name, "/model") for name in named if name}:
            self.prepare(ref)

    def prepare(self, ref: ModelRef) -> None:
        """Warm up the provider of a model, once per process. Calls then import nothing."""
        if ref.provider in self._prepared:
            return
        with self._preparing:
            if ref.provider not in self._prepared:
                self.get(ref).warm_up()
                self._prepared.add(ref.provider)

    def default_model(self) -> ModelRef:
        """Return the model in the settings, or a model whose API key is set, or the bundled model, in this order."""
        if self._settings.model:
            return parse_model(self._settings.model, "/model")
        if self._targets["openai"].key:
            return DEFAULT_OPENAI
        return DEFAULT_ANTHROPIC if self._targets["anthropic"].key else DEFAULT_LOCAL

    def is_known(self, provider: str) -> bool:
        """Whether a provider is built in, is an endpoint of the settings, or comes from an installed package."""
        return provider == FREE_PROVIDER or provider in self._targets or provider in self._packages

    def is_configured(self, provider: str) -> bool:
        """Whether calls to a provider are possible. A compatible server may need no key."""
        if provider == FREE_PROVIDER:
            return self._local_failure() is None
        if provider in self._targets:
            return self._targets[provider].is_usable
        return provider in self._packages and not self._package_failure(provider)

    def base_url(self, provider: str) -> str | None:
        """Return the address of a provider if the settings have one."""
        target = self._targets.get(provider)
        return target.base_url if target else None

    def check_configured(self, ref: ModelRef, pointer: str) -> None:
        """Refuse a model that cannot be called, before a job is stored.

        Raises:
            Invalid: if no key is set (code `provider_auth`), or with the code `unknown_model` if the endpoint is not in
                the settings, the package of the provider cannot be used, or the local model is not installed.
        """
        if ref.provider == FREE_PROVIDER:
            if failure := self._local_failure() or self._misnamed(ref):
                raise Invalid.at(pointer, failure, "unknown_model")
        elif target := self._targets.get(ref.provider):
            if not target.is_usable:
                raise Invalid.at(pointer, f"{ref} needs a key: set {target.key_setting}.", "provider_auth")
        elif ref.provider not in self._packages:
            raise Invalid.at(pointer, self._unknown(ref), "unknown_model")
        elif self._package_failure(ref.provider):
            raise Invalid.at(pointer, unusable_message(ref.provider), "unknown_model")

    def _unknown(self, ref: ModelRef) -> str:
        known = ", ".join((*self._targets, *self._packages, FREE_PROVIDER))
        example = "for example openai:gpt-6-luna"
        return f"{ref} names no known model. Write provider:name with one of {known}, {example}."

    def has_batches(self, provider: str) -> bool:
        """Whether a provider has a batch endpoint: a vendor at its own address, or an endpoint with `batches`."""
        target = self._targets.get(provider)
        return target is not None and bool(target.batches)

    def check_batches(self, ref: ModelRef, pointer: str) -> None:
        """Refuse a model whose provider has no batch endpoint.

        Raises:
            Invalid: with the name of the provider (code `batch_unsupported`).
        """
        if not self.has_batches(ref.provider):
            raise Invalid.at(pointer, self._without_batches(ref.provider), "batch_unsupported")

    def batches(self, provider: str) -> BatchEndpoint:
        """Return the batch endpoint of a provider, which uses the client of the live calls and is ready for a request.

        Raises:
            ProviderError: if the provider has no batch endpoint, because the settings have changed since the
                submission (code `provider_bad_request`).
        """
        ref, target = ModelRef(provider, ANY_MODEL), self._targets.get(provider)
        # Without this, the first request would import the SDK on the event loop, which stops all calls meanwhile
        self.prepare(ref)
        endpoint = make_batches(target, self._settings, self.get(ref)) if target else None
        if endpoint is None:
            raise ProviderError("provider_bad_request", self._without_batches(provider))
        return endpoint

    def _without_batches(self, provider: str) -> str:
        words = f"{provider} has no batch endpoint."
        target = self._targets.get(provider)
        if target is None:
            return words
        if provider in self._settings.endpoints:
            return f"{words} If its server has one, set endpoints.{provider}.batches to true."
        return f"{words} {target.url_setting} sets another server; make it an endpoint of the settings with batches."

    def price(self, ref: ModelRef, usage: Usage, *, is_batch: bool = False) -> int | None:
        """Return the cost of a live or batched call in 1e-9 USD, or None if the cost is unknown."""
        target = self._targets.get(ref.provider)
        own = self._settings.prices.get(str(ref)) or (target and target.price_of(ref.name))
        # An endpoint with the address of a vendor has the prices of this vendor
        listed = ModelRef(target.format, ref.name) if target and not target.is_own_server else None
        try:
            return price_nano_usd(ref, usage, own=own or None, listed=listed, is_batch=is_batch)
        except Exception:  # the reply is already paid for, so it must not be lost
            log.exception("price_failed", model=str(ref))
            return None

    def verdict_tokens(self, ref: ModelRef) -> int:
        """Return the output limit of the first call of an evaluation, in tokens."""
        most = self._settings.evaluator_max_output_tokens
        if ref.provider != FREE_PROVIDER:
            return most
        from redraft.providers.local.provider import OUTPUT_TOKENS

        return min(most, OUTPUT_TOKENS)

    def verdict_limit_origin(self, *, is_second: bool = False) -> LimitOrigin:
        """Return the setting of `verdict_tokens`. The larger limit of a retry (`is_second`) may be lowered."""
        field = "evaluator_max_output_tokens"
        return LimitOrigin(f"REDRAFT_{field.upper()}", field in self._settings.model_fields_set and not is_second)

    def models(self) -> list[ListedModel]:
        """Return the default model, one model per vendor, and the models of each endpoint and package in the settings.

        An endpoint or a package for which the settings name no model has the line `NAME:*`.
        """
        default = self.default_model()
        refs = dict.fromkeys((default, DEFAULT_OPENAI, DEFAULT_ANTHROPIC, DEFAULT_LOCAL, *self._of_names()))
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

    def _of_names(self) -> list[ModelRef]:
        settings = self._settings
        named = [settings.model, settings.evaluator_model, *settings.prices, *settings.model_limits]
        refs: list[ModelRef] = []
        for provider in (*settings.endpoints, *self._packages):
            endpoint = settings.endpoints.get(provider)
            own = endpoint.prices if endpoint else ()
            prefix = f"{provider}:"
            models = [*own, *(name.removeprefix(prefix) for name in named if name.startswith(prefix))]
            models = [model for model in models if ANY_MODEL not in model] or [ANY_MODEL]
            refs += [ModelRef(provider, model) for model in models]
        return refs

    def close(self) -> None:
        """Close all providers. A later `get` creates them again."""
        with self._lock:
            made, self._made = self._made, {}
            self._prepared.clear()

        async def close_all() -> None:
            for provider in made.values():
                await provider.close()

        if made:
            CALLS_LOOP.run(close_all())

    def _note(self, provider: str) -> str:
        if provider == FREE_PROVIDER:
            return self._local_failure() or "Runs on this machine. The bundled model is tiny: for trying out only."
        if target := self._targets.get(provider):
            return target.note if target.is_usable else f"Set {target.key_setting} to use it."
        if provider not in self._packages:
            return "No endpoint of the settings and no package has this name."
        if self._package_failure(provider):
            return unusable_message(provider)
        return f"Provided by the package {self._packages[provider].origin}."

    def _local_failure(self) -> str | None:
        from redraft.providers.local.provider import missing_part

        return missing_part(self._settings.local_model)

    def _misnamed(self, ref: ModelRef) -> str | None:
        """Return why there is no local model with this name, or None if the model exists."""
        # If the user has set a model file, every name after `local:` means this file
        if self._settings.local_model or ref == DEFAULT_LOCAL:
            return None
        remedy = "To use another file, set REDRAFT_LOCAL_MODEL."
        return f"{ref} is not installed. The bundled model is {DEFAULT_LOCAL}. {remedy}"
