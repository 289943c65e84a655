"""Which model is meant, what it costs, and whether it can be called at all."""

from pathlib import Path
from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import Invalid
from redraft.providers.catalog import DEFAULT_ANTHROPIC, DEFAULT_LOCAL, DEFAULT_OPENAI, ProviderCatalog
from redraft.providers.local.provider import missing_part
from redraft.providers.prices import price_nano_usd
from redraft.providers.shared.protocol import Usage
from redraft.settings import ModelPrice, Settings

MILLION = Usage(input_tokens=1_000_000, cached_input_tokens=0, output_tokens=1_000_000)


def catalog_of(tmp_path: Path, **settings: Any) -> ProviderCatalog:
    return ProviderCatalog(Settings(data_dir=tmp_path, **settings))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, DEFAULT_LOCAL),
        ({"anthropic_api_key": "k"}, DEFAULT_ANTHROPIC),
        ({"anthropic_api_key": "k", "openai_api_key": "k"}, DEFAULT_OPENAI),
        ({"openai_api_key": "  "}, DEFAULT_LOCAL),
        ({"openai_base_url": "http://127.0.0.1:1/v1"}, DEFAULT_LOCAL),
        ({"openai_api_key": "k", "model": "local:mine"}, ModelRef("local", "mine")),
        ({"model": "claude-x"}, ModelRef("anthropic", "claude-x")),
    ],
)
def test_the_default_model_follows_the_keys(tmp_path: Path, settings: dict[str, Any], expected: ModelRef):
    assert catalog_of(tmp_path, **settings).default_model() == expected


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_model_without_a_key_is_refused_with_the_keys_name(tmp_path: Path, provider: str):
    with pytest.raises(Invalid, match=f"{provider.upper()}_API_KEY") as caught:
        catalog_of(tmp_path).check_configured(ModelRef(provider, "m"), "/evaluator_model")
    assert caught.value.code == "provider_auth"
    assert caught.value.errors[0].pointer == "/evaluator_model"
    for way in ({f"{provider}_api_key": "k"}, {f"{provider}_base_url": "http://127.0.0.1:1"}):
        catalog_of(tmp_path, **way).check_configured(ModelRef(provider, "m"), "/model")


def test_the_vendors_own_address_still_needs_a_key(tmp_path: Path):
    catalog = catalog_of(tmp_path, openai_base_url="https://api.openai.com/v1")
    assert not catalog.is_configured("openai")
    with pytest.raises(Invalid):
        catalog.check_configured(ModelRef("openai", "m"), "/model")


def test_a_local_model_that_is_not_there_is_refused(tmp_path: Path):
    catalog = catalog_of(tmp_path, local_model=tmp_path / "none.gguf")
    with pytest.raises(Invalid) as caught:
        catalog.check_configured(DEFAULT_LOCAL, "/model")
    assert caught.value.code == "unknown_model"
    assert caught.value.message == missing_part(tmp_path / "none.gguf")


def test_models_are_listed_with_what_to_do(tmp_path: Path):
    listed = {model.id: model for model in catalog_of(tmp_path, openai_api_key="k").models()}
    assert [model.default for model in listed.values()] == [True, False, False]
    assert listed[str(DEFAULT_OPENAI)].configured
    assert "ANTHROPIC_API_KEY" in listed[str(DEFAULT_ANTHROPIC)].note
    own = catalog_of(tmp_path, model="openai:mine", openai_base_url="http://127.0.0.1:1/v1").models()
    assert (own[0].id, own[0].default) == ("openai:mine", True)
    assert "OPENAI_BASE_URL" in own[0].note


@pytest.mark.parametrize("ref", [DEFAULT_OPENAI, DEFAULT_ANTHROPIC])
def test_the_default_models_have_a_listed_price(ref: ModelRef):
    assert (price_nano_usd(ref, MILLION, listed=ref) or 0) > 100_000_000


def test_prices_are_whole_nano_dollars_and_the_cache_is_cheaper():
    ref = ModelRef("openai", "gpt-5-mini")
    plain = price_nano_usd(ref, Usage(1000, 0, 100, None), listed=ref)
    cached = price_nano_usd(ref, Usage(1000, 400, 100, None), listed=ref)
    assert plain == 250_000 + 200_000
    assert cached == 150_000 + 10_000 + 200_000


def test_writes_to_the_cache_cost_more_than_input_and_reads_less():
    ref, usage = ModelRef("anthropic", "claude-haiku-4-5"), Usage(1000, 400, 0, None, 500)
    assert price_nano_usd(ref, usage, listed=ref) == 100_000 + 40_000 + 625_000
    own = ModelPrice(input=1, output=1, cached_input=0.1)
    assert price_nano_usd(ref, usage, own=own) == 100_000 + 40_000 + 625_000
    own = ModelPrice(input=1, output=1, cached_input=0.1, cache_write_input=2)
    assert price_nano_usd(ref, usage, own=own) == 100_000 + 40_000 + 1_000_000
    assert price_nano_usd(ref, Usage(None, 400, 0, None, 500), own=own) is None


@pytest.mark.parametrize(
    ("ref", "usage", "expected"),
    [
        (ModelRef("openai", "no-such-model-x"), MILLION, None),
        (ModelRef("openai", "gpt-5-mini"), Usage(), None),
        (ModelRef("openai", "gpt-5-mini"), Usage(input_tokens=5), None),
        (ModelRef("local", "anything"), Usage(), 0),
    ],
)
def test_an_unknown_price_is_none_and_local_is_free(ref: ModelRef, usage: Usage, expected: int | None):
    assert price_nano_usd(ref, usage, listed=ref) == expected


def test_a_server_of_ones_own_has_only_the_prices_that_are_set(tmp_path: Path):
    prices = {"openai:mine": ModelPrice(input=1, output=2, cached_input=0.5)}
    catalog = catalog_of(tmp_path, openai_base_url="http://127.0.0.1:1/v1", prices=prices)
    assert catalog.price(ModelRef("openai", "gpt-5-mini"), MILLION) is None
    assert catalog.price(ModelRef("openai", "mine"), Usage(10, 4, 3)) == 6_000 + 2_000 + 6_000
    assert (catalog.price(DEFAULT_ANTHROPIC, MILLION) or 0) > 0


def test_a_model_whose_prices_are_zero_costs_nothing_whatever_its_tokens(tmp_path: Path):
    prices = {"openai:mine": ModelPrice(input=0, output=0), "openai:half": ModelPrice(input=0, output=1)}
    catalog = catalog_of(tmp_path, openai_base_url="http://127.0.0.1:1/v1", prices=prices)
    assert catalog.price(ModelRef("openai", "mine"), Usage()) == 0
    assert catalog.price(ModelRef("openai", "half"), Usage()) is None


def test_prices_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REDRAFT_PRICES", '{"openai:mine": {"input": 0.25, "output": 2}}')
    assert Settings().prices["openai:mine"] == ModelPrice(input=0.25, output=2)


def test_the_bundled_model_has_one_name():
    bundled = ProviderCatalog(Settings(_env_file=None))  # pyright: ignore[reportCallIssue]
    with pytest.raises(Invalid) as refused:
        bundled.check_configured(ModelRef("local", "nope"), "/model")
    assert refused.value.code == "unknown_model"
    assert "smollm2-135m" in refused.value.message


def test_a_local_model_that_runs_in_circles_is_stopped_early(tmp_path: Path):
    catalog = ProviderCatalog(Settings(data_dir=tmp_path))
    assert (catalog.verdict_tokens(DEFAULT_OPENAI), catalog.verdict_tokens(DEFAULT_LOCAL)) == (4096, 1024)
    brief = ProviderCatalog(Settings(data_dir=tmp_path, evaluator_max_output_tokens=100))
    assert brief.verdict_tokens(DEFAULT_LOCAL) == 100
