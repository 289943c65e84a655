"""Computes the cost of calls in 1e-9 USD, as integers. An unknown cost is None, and never 0.

The prices come from the package genai_prices. The setting `prices` in `redraft/settings.py` replaces and adds prices.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from redraft.domain.calls.model_names import FREE_PROVIDER, ModelRef
from redraft.endpoints import ModelPrice
from redraft.providers.shared.protocol import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

_NANO = 1_000_000_000
_PER_MILLION = 1_000_000
_WRITE_FACTOR = 1.25  # Anthropic's price of a write to the cache, as a multiple of the price of input
# The price of a batched call as a share of the live price. It is used if the price list has no batch price. Both
# vendors document it: https://developers.openai.com/api/docs/guides/batch and
# https://platform.claude.com/docs/en/build-with-claude/batch-processing
_BATCH_FACTOR = Decimal("0.5")
_BATCH = {"processing": "batch"}


def price_nano_usd(
    ref: ModelRef,
    usage: Usage,
    *,
    own: ModelPrice | None = None,
    listed: ModelRef | None = None,
    is_batch: bool = False,
) -> int | None:
    """Return the cost of a call, or None if the cost is unknown.

    Args:
        ref: the model.
        usage: the tokens of the call. Without input or output tokens the cost is unknown, unless the model is free.
        own: the price in the settings. It has precedence over the price list.
        listed: the model in the public price list; None if its prices do not apply, as for compatible servers.
        is_batch: whether the call is part of a batch.
    """
    if ref.provider == FREE_PROVIDER or (own is not None and own.is_free):
        return 0
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if own is not None:
        factor = own.batch_factor if is_batch else 1.0
        return _own_price(own, usage, usage.input_tokens, usage.output_tokens, factor)
    return _listed_price(listed, usage, is_batch=is_batch) if listed else None


def _own_price(price: ModelPrice, usage: Usage, input_tokens: int, output_tokens: int, factor: float) -> int:
    cached = price.input if price.cached_input is None else price.cached_input
    write = price.input * _WRITE_FACTOR if price.cache_write_input is None else price.cache_write_input
    read_tokens, write_tokens = _cache_tokens(usage, input_tokens)
    total = price.input * (input_tokens - read_tokens - write_tokens) + cached * read_tokens + write * write_tokens
    return round((total + price.output * output_tokens) * factor * _NANO / _PER_MILLION)


def _cache_tokens(usage: Usage, input_tokens: int) -> tuple[int, int]:
    """Return the input tokens that were read from the cache and written to it, together at most the input tokens."""
    read = min(usage.cached_input_tokens or 0, input_tokens)
    return read, min(usage.cache_write_tokens or 0, input_tokens - read)


def _listed_price(ref: ModelRef, usage: Usage, *, is_batch: bool) -> int | None:
    # The import is here, because loading the price list takes half a second
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    read_tokens, write_tokens = _cache_tokens(usage, usage.input_tokens or 0)
    tokens = Tokens(
        input_tokens=usage.input_tokens,
        cache_read_tokens=read_tokens,
        cache_write_tokens=write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        found = calc_price(tokens, ref.name, provider_id=ref.provider, price_context=_BATCH if is_batch else None)
    except (LookupError, ValueError):
        return None
    factor = _BATCH_FACTOR if is_batch and not _has_batch_price(found.model) else 1
    return int((found.total_price * factor * _NANO).to_integral_value())


def _has_batch_price(model: "ModelInfo") -> bool:
    now = datetime.now(UTC)
    return any(
        variant.when == _BATCH and (variant.constraint is None or variant.constraint.active(now))
        for variant in model.price_variants or ()
    )
