"""Endpoints of the settings: each is a server of its own, in either wire format."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import ValidationError

from redraft.domain.calls.model_names import ModelRef
from redraft.endpoints import ModelPrice
from redraft.errors import Invalid, ProviderError
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import Chat, Message, Usage
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.rate_limiter import limit_of
from redraft.settings import Settings
from tests.model_server import ModelServer, Reply
from tests.model_server.requests import Asked

DOCS = Path(__file__).parents[2] / "docs" / "compatible-servers.md"
KEYS = {
    name: f"gsk_{name}_0123456789" for name in ("GROQ_API_KEY", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY", "GATEWAY_KEY")
}
PATHS = {
    "vllm": "/v1/chat/completions",
    "groq": "/openai/v1/chat/completions",
    "azure": "/openai/v1/chat/completions",
    "gemini": "/v1beta/openai/chat/completions",
    "openrouter": "/api/v1/chat/completions",
    "gateway": "/v1/messages",
}
MILLION = Usage(input_tokens=1_000_000, cached_input_tokens=0, output_tokens=1_000_000)


def example() -> str:
    """The TOML in the documentation."""
    found = re.search(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert found
    return found[1]


def endpoint(url: str, **changes: Any) -> dict[str, Any]:
    return {"format": "openai", "base_url": url, **changes}


@pytest.fixture
def documented(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of the documentation, with the scripted server in place of each host."""
    for name, key in {**KEYS, "OPENROUTER_API_KEY": "sk-or-0123456789"}.items():
        monkeypatch.setenv(name, key)
    text = re.sub(r'(?<=base_url = ")https?://[^/"]+', server.url, example())
    Path("redraft.toml").write_text(text, "utf-8")
    return Settings()


@pytest.fixture
def catalog(documented: Settings) -> Iterator[ProviderCatalog]:
    made = ProviderCatalog(documented)
    yield made
    made.close()


def call(catalog: ProviderCatalog, ref: ModelRef, **rest: Any) -> str:
    provider = catalog.get(ref)
    body = provider.wire_body(Chat(ref, "Be brief.", (Message("user", "Hello"),), **rest))
    return CALLS_LOOP.run(provider.send(body, timeout_s=10)).text


@pytest.mark.parametrize("is_streamed", [False, True])
def test_each_documented_endpoint_is_called_at_its_path_with_its_key(
    server: ModelServer, documented: Settings, catalog: ProviderCatalog, *, is_streamed: bool
):
    asked: list[Asked] = []

    def answer(request: Asked) -> Reply:
        asked.append(request)
        return Reply(text="ready")

    server.respond(answer)
    assert set(documented.endpoints) == set(PATHS)
    for name in PATHS:
        assert call(catalog, ModelRef(name, "org/m:free"), stream=is_streamed) == "ready"
    sent = dict(zip(PATHS, asked, strict=True))
    assert {name: request.path for name, request in sent.items()} == PATHS
    assert {request.model for request in asked} == {"org/m:free"}
    assert sent["groq"].headers["authorization"] == f"Bearer {KEYS['GROQ_API_KEY']}"
    assert sent["azure"].headers["authorization"] == f"Bearer {KEYS['AZURE_OPENAI_API_KEY']}"
    assert sent["gateway"].headers["authorization"] == f"Bearer {KEYS['GATEWAY_KEY']}"
    assert sent["gateway"].headers["x-team-token"] == "team-42-secret"
    assert sent["openrouter"].headers["http-referer"] == "https://example.com"
    assert (sent["vllm"].body["max_tokens"], "max_tokens" in sent["groq"].body) == (4096, False)


def test_a_header_replaces_the_authorization_of_the_wire_format(server: ModelServer):
    asked: list[Asked] = []
    server.respond(lambda request: asked.append(request) or Reply(text="ready"))
    headers = {"Authorization": "Custom key"}
    endpoints = {
        "a": endpoint(server.openai_url, headers=headers),
        "b": endpoint(server.anthropic_url, headers=headers, format="anthropic"),
    }
    made = ProviderCatalog(Settings(endpoints=endpoints))  # pyright: ignore[reportArgumentType]
    for name in endpoints:
        call(made, ModelRef(name, "m"))
    made.close()
    assert [request.headers["authorization"] for request in asked] == ["Custom key", "Custom key"]


def test_an_endpoint_gets_no_headers_of_the_environment_that_belong_to_a_vendors_account(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    for name in ("ORG_ID", "PROJECT_ID", "API_KEY", "ADMIN_KEY", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", f"ambient-{name}")
    for name in ("API_KEY", "AUTH_TOKEN", "WEBHOOK_SIGNING_KEY"):
        monkeypatch.setenv(f"ANTHROPIC_{name}", f"ambient-{name}")
    lines = "X-Account: ambient\nUser-Agent: ambient\nAuthorization: ambient"
    for vendor in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{vendor}_BASE_URL", "http://ambient.invalid")
        monkeypatch.setenv(f"{vendor}_CUSTOM_HEADERS", lines)
    asked: list[Asked] = []
    server.respond(lambda request: asked.append(request) or Reply(text="ready"))
    made = ProviderCatalog(
        Settings(
            openai_api_key="sk-test",  # pyright: ignore[reportArgumentType]
            openai_base_url=server.openai_url,
            anthropic_api_key="sk-test",  # pyright: ignore[reportArgumentType]
            anthropic_base_url=server.anthropic_url,
            endpoints={  # pyright: ignore[reportArgumentType]
                "a": endpoint(server.openai_url, headers={"X-Own": "a"}),
                "b": endpoint(server.anthropic_url, headers={"X-Own": "b"}, format="anthropic"),
            },
        )
    )
    for name in ("openai", "anthropic", "a", "b"):
        call(made, ModelRef(name, "m"))
    made.close()
    openai, anthropic, a, b = (request.headers for request in asked)
    assert (openai["openai-organization"], openai["openai-project"]) == ("ambient-ORG_ID", "ambient-PROJECT_ID")
    assert (openai["x-account"], anthropic["x-account"]) == ("ambient", "ambient")
    fixed = {"accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host"}
    for headers, name, of_format in ((a, "a", set[str]()), (b, "b", {"anthropic-version"})):
        assert set(headers) == fixed | of_format | {"user-agent", "x-own"}
        assert (headers["x-own"], headers["authorization"]) == (name, "Bearer none")
        assert "ambient" not in str(headers)
    assert b["anthropic-version"] == anthropic["anthropic-version"]


def test_the_documented_addresses_are_those_of_the_vendors():
    endpoints: dict[str, Any] = tomllib.loads(example())["endpoints"]
    hosts = {name: urlsplit(str(each["base_url"])).hostname for name, each in endpoints.items()}
    assert hosts["groq"] == "api.groq.com"
    assert hosts["azure"] == "my-resource.openai.azure.com"
    assert hosts["gemini"] == "generativelanguage.googleapis.com"
    assert hosts["openrouter"] == "openrouter.ai"


def test_prices_and_limits_are_those_of_the_endpoint(documented: Settings, catalog: ProviderCatalog):
    assert catalog.price(ModelRef("groq", "openai/gpt-oss-120b"), MILLION) == 750_000_000
    assert catalog.price(ModelRef("groq", "gpt-5-mini"), MILLION) is None
    assert catalog.price(ModelRef("vllm", "anything"), Usage()) == 0
    own = documented.model_copy(
        update={"prices": {"vllm:dear": documented.endpoints["groq"].price_of("openai/gpt-oss-120b")}}
    )
    assert ProviderCatalog(own).price(ModelRef("vllm", "dear"), MILLION) == 750_000_000
    limit = limit_of("groq:x", documented.all_model_limits)
    assert limit
    assert (limit.name, limit.requests_per_minute, limit.calls_at_once) == ("groq:*", 30, None)


def test_a_price_that_cannot_be_computed_is_unknown(documented: Settings):
    endless = ModelPrice.model_construct(input=float("inf"), output=1.0, cached_input=None, cache_write_input=None)
    odd = documented.model_copy(update={"prices": {"vllm:odd": endless}})
    assert ProviderCatalog(odd).price(ModelRef("vllm", "odd"), MILLION) is None


def test_an_endpoint_with_the_address_of_a_vendor_has_its_prices():
    work = ProviderCatalog(Settings(endpoints={"work": endpoint("https://api.openai.com/v1")}))  # pyright: ignore[reportArgumentType]
    assert work.price(ModelRef("work", "gpt-5-mini"), MILLION)


def test_the_models_of_endpoints_are_listed_with_what_they_need(documented: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GROQ_API_KEY")
    listed = {model.id: model for model in ProviderCatalog(Settings()).models()}
    assert listed["vllm:Qwen/Qwen3-32B"].default
    assert listed["vllm:Qwen/Qwen3-32B"].configured
    assert listed["gemini:*"].configured
    groq = listed["groq:openai/gpt-oss-120b"]
    assert (groq.configured, groq.note) == (False, "Set GROQ_API_KEY to use it.")
    with pytest.raises(Invalid, match=r"groq:m needs a key: set GROQ_API_KEY\."):
        ProviderCatalog(Settings()).check_configured(ModelRef("groq", "m"), "/model")
    assert ProviderCatalog(documented).is_configured("groq")


def test_an_unknown_endpoint_is_refused_with_the_known_ones(catalog: ProviderCatalog):
    with pytest.raises(Invalid) as refused:
        catalog.check_configured(ModelRef("grok", "m"), "/evaluation/panel/0")
    assert (refused.value.code, refused.value.errors[0].pointer) == ("unknown_model", "/evaluation/panel/0")
    assert "openai, anthropic, vllm, groq, azure, gemini, openrouter, gateway, local" in refused.value.message
    with pytest.raises(ProviderError, match="grok:m names no known model") as failed:
        call(catalog, ModelRef("grok", "m"))
    assert failed.value.code == "unknown_model"


def test_keys_and_secret_headers_are_secrets_of_the_settings(documented: Settings):
    for secret in (*KEYS.values(), "team-42-secret"):
        assert secret in documented.secrets
        assert secret not in repr(documented)
    assert "https://example.com" not in documented.secrets
    headers = {"X-Trace": "a1" * 10, "X-Origin": "https://example.com/a1b2c3"}
    odd = Settings(endpoints={"x": endpoint(URL, headers=headers)})  # pyright: ignore[reportArgumentType]
    assert "a1" * 10 in odd.secrets
    assert "https://example.com/a1b2c3" not in odd.secrets


def test_an_error_names_the_endpoint_and_its_settings(server: ModelServer, catalog: ProviderCatalog):
    server.script(generate=[Reply(status=401, raw={"error": {"message": f"bad key {KEYS['GROQ_API_KEY']}"}})])
    with pytest.raises(ProviderError) as failed:
        call(catalog, ModelRef("groq", "m"))
    assert failed.value.code == "provider_auth"
    assert failed.value.message == "The endpoint groq answered 401: bad key [secret]. Check GROQ_API_KEY."


def test_keys_are_also_read_from_the_env_file(tmp_path: Path):
    (tmp_path / ".env").write_text("OTHER_KEY=from-the-file\n")
    settings = Settings(endpoints={"other": endpoint("http://h/v1", api_key_env="OTHER_KEY")})  # pyright: ignore[reportArgumentType]
    assert settings.endpoint_key("other") == "from-the-file"


URL = "http://h/v1"


@pytest.mark.parametrize(
    ("endpoints", "place", "words"),
    [
        ({"openai": endpoint(URL)}, "endpoints.openai", "built in"),
        ({"My Server": endpoint(URL)}, "endpoints.My Server", "small letter"),
        ({"a" * 21: endpoint(URL)}, "endpoints.aaaaa", "at most 19"),
        ({"x": endpoint("h:8000/v1")}, "endpoints.x.base_url", "must look like https://host/path"),
        ({"x": endpoint("http://u:secret@h/v1")}, "endpoints.x.base_url", "without a user and a password"),
        ({"x": {"format": "openai"}}, "endpoints.x.base_url", "required"),
        ({"x": endpoint(URL, format="gemini")}, "endpoints.x.format", "'openai' or 'anthropic'"),
        ({"x": endpoint(URL, api_key="sk-secret")}, "endpoints.x.api_key", "Extra inputs"),
        ({"x": endpoint(URL, api_key_env="gsk_secret")}, "endpoints.x.api_key_env", "the name of an environment"),
        ({"x": endpoint(URL, headers={"Host": "secret"})}, "endpoints.x.headers", "no header that can be set"),
        ({"x": endpoint(URL, headers={"X-Y": "secret\n"})}, "endpoints.x.headers", "value of X-Y"),
        ({"x": endpoint(URL, limits={"per_minute": 1})}, "endpoints.x.limits.per_minute", "Extra inputs"),
        ({"x": endpoint(URL, prices={"m": {"input": -1, "output": 1}})}, "endpoints.x.prices.m.input", "greater"),
        ({"x": endpoint(URL, prices={"m": {"input": 1, "output": 1e300}})}, "endpoints.x.prices.m.output", "less"),
        ({"x": endpoint(URL, prices={"m": {"input": float("nan"), "output": 1}})}, "endpoints.x.prices.m.in", "finite"),
        ({"x": endpoint(URL, max_output_tokens=0)}, "endpoints.x.max_output_tokens", "greater"),
    ],
)
def test_a_wrong_endpoint_is_refused_with_its_place(endpoints: Mapping[str, Any], place: str, words: str):
    with pytest.raises(ValidationError, match=words) as refused:
        Settings(endpoints=endpoints)  # pyright: ignore[reportArgumentType]
    (error,) = refused.value.errors()
    assert ".".join(map(str, error["loc"])).startswith(place)
    assert "secret" not in str(refused.value)


def test_a_key_that_no_header_can_hold_is_refused_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BAD_KEY", "secret key")
    with pytest.raises(ValidationError, match="BAD_KEY, the key of endpoint 'x'") as refused:
        Settings(endpoints={"x": endpoint(URL, api_key_env="BAD_KEY")})  # pyright: ignore[reportArgumentType]
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modle = 'x'", "redraft.toml has 'modle', which is no setting: did you mean 'model'?"),
        ("REDRAFT_MODEL = 'x'", "did you mean 'model'?"),
        ("[endpoint.x]", "did you mean 'endpoints'?"),
        ("model = ", "redraft.toml is no valid TOML: Invalid value"),
    ],
)
def test_a_wrong_file_of_settings_is_refused(text: str, words: str):
    Path("redraft.toml").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=re.escape(words)):
        Settings()


def test_the_environment_completes_the_file(monkeypatch: pytest.MonkeyPatch):
    Path("redraft.toml").write_text(f'[endpoints.x]\nformat = "openai"\nbase_url = "{URL}"\n', "utf-8")
    monkeypatch.setenv(
        "REDRAFT_ENDPOINTS", '{"x": {"max_output_tokens": 9}, "y": {"format": "anthropic", "base_url": "http://y"}}'
    )
    endpoints = Settings().endpoints
    assert (endpoints["x"].base_url, endpoints["x"].max_output_tokens, endpoints["y"].format) == (URL, 9, "anthropic")
