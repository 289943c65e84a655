"""Checks a model by one short real call. Nothing is stored."""

import time
from dataclasses import dataclass

from redraft.domain.calls.conversation import Chat, Message
from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.operations.jobs.submit import resolve_model
from redraft.operations.resource_base import cost_usd
from redraft.operations.services import Services
from redraft.providers.shared.protocol import ADAPTATIONS_MAX, UnusableReply, Usage
from redraft.providers.shared.transport import CALLS_LOOP

# These errors mean that the model answered, so the key is valid
_ANSWERED = frozenset({"output_truncated", "empty_output", "refused"})


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """The outcome of the call. `cost_usd` is None if the price of the model is unknown or the call has no usage."""

    model: str
    latency_ms: int
    cost_usd: str | None
    error: ProviderError | None

    @property
    def is_ok(self) -> bool:
        return self.error is None


def check_model(services: Services, name: str = "", *, timeout_s: float | None = None) -> ModelCheck:
    """Make one short real call to a model. Without a name, the default model is called.

    Raises Invalid if the model is unknown, or its provider is not configured.
    """
    providers = services.providers
    ref = resolve_model(providers, name or str(providers.default_model()), "/model")
    longest_s = services.settings.call_timeout_s
    try:
        providers.prepare(ref)
    except ProviderError as error:
        return ModelCheck(str(ref), 0, None, error)
    started_at = time.monotonic()
    usage, error = _call(services, ref, longest_s if timeout_s is None else min(timeout_s, longest_s), ADAPTATIONS_MAX)
    latency_ms = round((time.monotonic() - started_at) * 1000)
    return ModelCheck(str(ref), latency_ms, cost_usd(providers.price(ref, usage)) if usage else None, error)


def _call(
    services: Services, ref: ModelRef, timeout_s: float, adaptations: int
) -> tuple[Usage | None, ProviderError | None]:
    # Enough output for models that think before they answer
    chat = Chat(ref, "", (Message("user", "Reply with the one word: ready"),), max_output_tokens=256)
    provider = services.providers.get(ref)
    try:
        return CALLS_LOOP.run(provider.send(provider.wire_body(chat), timeout_s=timeout_s)).usage, None
    except ProviderError as error:
        # The provider has changed the request after this refusal, so the same call may succeed now
        if error.is_adapted and adaptations:
            return _call(services, ref, timeout_s, adaptations - 1)
        usage = error.usage if isinstance(error, UnusableReply) else None
        return usage, None if error.code in _ANSWERED else error
