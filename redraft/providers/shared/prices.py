"""Computes the cost of calls in 1e-9 USD, as integers. An unknown cost is None, and never 0."""

from collections.abc import Mapping
from decimal import Decimal

from redraft.domain.calls.model_names import FREE_PROVIDER, ModelRef
from redraft.providers.shared.protocol import Usage
from redraft.settings import ModelPrice

_NANO = 1_000_000_000
_PER_MILLION = 1_000_000


def price_nano_usd(
    ref: ModelRef,
    usage: Usage,
    *,
    own_prices: Mapping[str, ModelPrice] | None = None,
    is_listed: bool = True,
) -> int | None:
    """Return the cost of a call, or None if it is unknown.

    Args:
        ref: the model.
        usage: the tokens of the call. Without input or output tokens the cost is unknown, unless the model is free.
        own_prices: the prices in the settings by `provider:name`. They have precedence over the price list.
        is_listed: whether the public price list of the vendor applies. It does not apply to compatible servers.
    """
    own = (own_prices or {}).get(str(ref))
    if ref.provider == FREE_PROVIDER or (own is not None and own.is_free):
        return 0
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if own is not None:
        return _own_price(own, usage.input_tokens, usage.cached_input_tokens or 0, usage.output_tokens)
    return _listed_price(ref, usage) if is_listed else None


def _own_price(price: ModelPrice, input_tokens: int, cached_tokens: int, output_tokens: int) -> int:
    cached = price.input if price.cached_input is None else price.cached_input
    cached_tokens = min(cached_tokens, input_tokens)
    total = price.input * (input_tokens - cached_tokens) + cached * cached_tokens + price.output * output_tokens
    return round(total * _NANO / _PER_MILLION)


def _listed_price(ref: ModelRef, usage: Usage) -> int | None:
    # Imported here, because to load the price list takes half a second
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    tokens = Tokens(
        input_tokens=usage.input_tokens,
        cache_read_tokens=min(usage.cached_input_tokens or 0, usage.input_tokens or 0),
        output_tokens=usage.output_tokens,
    )
    try:
        total: Decimal = calc_price(tokens, ref.name, provider_id=ref.provider).total_price
    except (LookupError, ValueError):
        return None
    return int((total * _NANO).to_integral_value())
