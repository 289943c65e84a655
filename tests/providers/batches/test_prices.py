"""Which models have batches, and what a call in a batch costs."""

from pathlib import Path
from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import Invalid, ProviderError
from redraft.providers.batches.batch_endpoint import BatchLimits
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import Usage
from redraft.settings import Settings

USAGE = Usage(input_tokens=1000, cached_input_tokens=200, output_tokens=400)
OWN = {"format": "openai", "base_url": "http://127.0.0.1:9/v1"}


def catalog_with(tmp_path: Path, **endpoints: Any) -> ProviderCatalog:
    return ProviderCatalog(Settings(data_dir=tmp_path, endpoints=endpoints))


# The price list has batch prices of the first and the third model, and none of the others
@pytest.mark.parametrize(
    "model", ["openai:gpt-4o", "openai:o1-mini", "anthropic:claude-haiku-4-5", "anthropic:claude-3-haiku-20240307"]
)
def test_a_call_in_a_batch_costs_half(tmp_path: Path, model: str):
    catalog, ref = catalog_with(tmp_path), ModelRef(*model.split(":"))
    live = catalog.price(ref, Usage(input_tokens=1000, output_tokens=400))
    batched = catalog.price(ref, Usage(input_tokens=1000, output_tokens=400), is_batch=True)
    assert live
    assert batched == live // 2


def test_an_endpoint_has_a_batch_price_of_its_own(tmp_path: Path):
    prices = {"a": {"input": 2.0, "output": 8.0}, "b": {"input": 2.0, "output": 8.0, "batch_factor": 0.75}}
    catalog = catalog_with(tmp_path, own={**OWN, "prices": prices, "batches": True})
    live = {name: catalog.price(ModelRef("own", name), USAGE) for name in "ab"}
    assert live["a"] == live["b"] == 5_200_000
    assert catalog.price(ModelRef("own", "a"), USAGE, is_batch=True) == 2_600_000
    assert catalog.price(ModelRef("own", "b"), USAGE, is_batch=True) == 3_900_000


def test_a_price_that_is_unknown_is_unknown_in_a_batch(tmp_path: Path):
    catalog = catalog_with(tmp_path, own={**OWN, "batches": True})
    assert catalog.price(ModelRef("own", "a"), USAGE, is_batch=True) is None
    assert catalog.price(ModelRef("openai", "gpt-4o"), Usage(), is_batch=True) is None


def test_only_vendors_and_endpoints_that_say_so_have_batches(tmp_path: Path):
    catalog = catalog_with(
        tmp_path,
        own={**OWN},
        with_batches={**OWN, "batches": True},
        second_account={"format": "anthropic", "base_url": "https://api.anthropic.com"},
    )
    names = ("openai", "anthropic", "local", "own", "with_batches", "second_account", "nobody")
    assert [catalog.has_batches(name) for name in names] == [True, True, False, False, True, True, False]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("local:smollm2-135m", "local has no batch endpoint."),
        ("own:a", "own has no batch endpoint. If its server has one, set endpoints.own.batches to true."),
        ("openai:a", "openai has no batch endpoint. OPENAI_BASE_URL sets another server"),
    ],
)
def test_a_model_without_batches_is_refused_by_the_name_of_its_provider(tmp_path: Path, model: str, words: str):
    settings = Settings(data_dir=tmp_path, endpoints={"own": OWN}, openai_base_url="http://127.0.0.1:9/v1")
    catalog, ref = ProviderCatalog(settings), ModelRef(*model.split(":"))
    with pytest.raises(Invalid) as refused:
        catalog.check_batches(ref, "/evaluator_model")
    assert refused.value.message.startswith(words)
    assert [(each.pointer, each.code) for each in refused.value.errors] == [("/evaluator_model", "batch_unsupported")]
    with pytest.raises(ProviderError) as failed:
        catalog.batches(ref.provider)
    assert not failed.value.retryable


def test_an_endpoint_can_have_limits_of_its_own(tmp_path: Path):
    catalog = catalog_with(tmp_path, own={**OWN, "batches": {"bytes": 100_000_000}}, other={**OWN, "batches": True})
    assert catalog.batches("own").limits == BatchLimits(50_000, 100_000_000)
    assert catalog.batches("other").limits == BatchLimits(50_000, 200_000_000)
    assert catalog.batches("anthropic").limits == BatchLimits(100_000, 256_000_000)
