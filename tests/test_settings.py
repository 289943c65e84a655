"""Settings that cannot work are refused when they are read."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis
from kombu import Connection
from openai import DefaultAioHttpClient
from pydantic import ValidationError

from redraft.providers.shared.transport import http_client
from redraft.setting_values import environment_errors, kombu_url, redis_url
from redraft.settings import Settings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lease_s": 20.0}, r"REDRAFT_LEASE_S \(20 s\) must be at least 3 times REDRAFT_HEARTBEAT_S \(8 s\)"),
        ({"sweep_s": 31.0}, "at least 1 times REDRAFT_SWEEP_S"),
        ({"deaf_after_s": 0.1}, "greater than or equal to 5"),
        ({"deaf_after_s": float("inf")}, "finite"),
        ({"shutdown_grace_s": float("inf")}, "finite"),
        ({"lease_s": float("nan")}, "finite|greater"),
    ],
)
def test_timers_that_cannot_work_are_refused(changes: dict[str, float], words: str):
    with pytest.raises(ValidationError, match=words):
        Settings(_env_file=None, **changes)  # pyright: ignore[reportCallIssue]


def test_the_defaults_fit():
    assert Settings(_env_file=None).lease_s == 30.0  # pyright: ignore[reportCallIssue]


def read(**changes: Any) -> Settings:
    return Settings(_env_file=None, **changes)  # pyright: ignore[reportCallIssue]


BROKERS = {
    "redis://host": ("redis", 0),
    "redis://host:6380/": ("redis", 0),
    "redis://user:p%40ss@host:6380/3": ("redis", 3),
    "rediss://:pass@host/1": ("rediss", 1),
    "rediss://host/1?ssl_cert_reqs=required": ("rediss", 1),
    "valkey://host:6379/2": ("redis", 2),
    "valkeys://host:6379/2": ("rediss", 2),
    "unix:///run/valkey.sock": ("socket", 0),
    "unix:///run/valkey.sock?db=4": ("socket", 4),
    "redis+socket:///run/valkey.sock": ("socket", 0),
    "redis+socket:///run/valkey.sock?virtual_host=5": ("socket", 5),
}


@pytest.mark.parametrize("url", BROKERS)
def test_both_clients_of_a_broker_read_its_url_alike(url: str):
    kind, database = BROKERS[url]
    given = read(broker_url=url).effective_broker_url
    pool = redis.ConnectionPool.from_url(redis_url(given))
    assert pool.connection_kwargs.get("db", 0) == database
    with Connection(kombu_url(given)) as connection:
        spelled = connection.as_uri(include_password=True)
        channel: Any = object.__new__(connection.transport.Channel)
        channel.connection = connection.transport
        assert channel._connparams()["db"] == database
    assert spelled.startswith({"redis": "redis://", "rediss": "rediss://", "socket": "redis+socket://"}[kind])
    if kind == "socket":
        assert pool.connection_kwargs["path"] == "/run/valkey.sock"


@pytest.mark.parametrize(
    "changes",
    [
        *({"broker_url": url} for url in ["localhost:6379", "localhost", "http://host", "amqp://guest:secret@host"]),
        *(
            {"broker_url": url}
            for url in ["redis://", "redis:host", "redis://host/name", "redis://host:port", "unix://"]
        ),
        *({"broker_url": url} for url in ["unix://run/s", "unix:///s?x=1", "redis://:secret#1@host", "redis://h ost"]),
        *({"broker_url": url} for url in ["redis://host/0?timeout=3", "sentinel://host", "redis://:secret@host:6379x"]),
        *({"database_url": url} for url in ["mysql://secret@host/db", "redraft.db", "sqlite://", "sqlite:///:memory:"]),
        *(
            {"database_url": url}
            for url in ["postgresql+asyncpg://me:secret@host/db", "postgresql://me:secret@host:x/db"]
        ),
        *(
            {"openai_base_url": url}
            for url in ["localhost:8080", "api.openai.com/v1", "ftp://h", "https://", "http://h:x"]
        ),
        *({"anthropic_base_url": url} for url in ["https:/host", "https://host/v1?key=secret", "https://ho st"]),
        *(
            {"openai_api_key": key}
            for key in ["\u201csecret\u201d", "sk-secret\nsk-other", "sk secret", "sk-\u00e4secret"]
        ),
    ],
    ids=str,
)
def test_an_address_or_a_key_that_cannot_work_is_refused_and_not_told(changes: dict[str, str]):
    with pytest.raises(ValidationError) as refused:
        read(**changes)
    (error,) = refused.value.errors()
    assert str(error["loc"][-1]).lower() in changes
    assert "must look like" in error["msg"] or "no HTTP header" in error["msg"]
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["postgres://me@host/db", "postgresql://me@host/db", "postgresql+psycopg://me@h:1/db"])
def test_a_database_may_be_named_as_its_vendors_do(url: str):
    assert read(database_url=url).database_url == url


@pytest.mark.parametrize(
    "secret",
    [
        "hunter2hunter2hunter2hunter2hunter2",
        "whsec_",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!w",
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_é",
    ],
)
def test_what_signs_no_webhook_is_refused_without_showing_it(secret: str):
    with pytest.raises(ValidationError, match="must be whsec_ and the base64 of 24 to 64 random bytes") as refused:
        read(webhook_secret=secret)
    assert all(part not in str(refused.value) for part in secret.split() if len(part) > 6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "neither a network nor a name") for text in ["10.0.0.1/8", "10.0.0.0/40", "1.2.3", "::1/x"]),
        *((text, "neither a network nor a name") for text in ["*.internal", "me@host", "host:80", "https://host"]),
        *((text, "names no host") for text in ["true", "10.0.0.0/8, False", "ON"]),
    ],
)
def test_a_place_that_no_webhook_can_reach_is_refused(text: str, words: str):
    with pytest.raises(ValidationError, match=words):
        read(webhook_allow_private=text)


def test_a_host_without_a_scheme_is_told_what_may_be_meant():
    with pytest.raises(ValidationError, match="did you mean redis://localhost:6379\\?"):
        read(broker_url="localhost:6379")


E1 = {"format": "openai", "base_url": "http://h/v1"}
PRICE = {"input": 1, "output": 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prices": {"openai:m": {"input": 1, "output": 1, "cachedinput": 1}}}, r"openai:m\.cachedinput"),
        ({"endpoints": {"e1": E1}, "prices": {"e2:m": PRICE}}, "REDRAFT_PRICES names 'e2:m', .* anthropic, e1, local"),
        ({"prices": {"gpt-x": PRICE}}, "REDRAFT_PRICES names 'gpt-x'"),
        ({"endpoints": {"e1": {**E1, "prices": {"e1:m": {"input": 1, "output": 1}}}}}, r"endpoints\.e1\.prices .* 'm'"),
        ({"model_limits": {"nowhere:m": {"calls_at_once": 1}}}, "REDRAFT_MODEL_LIMITS names 'nowhere:m'"),
        ({"model_limits": {"gpt-*": {"calls_at_once": 1}}}, "REDRAFT_MODEL_LIMITS names 'gpt-\\*'"),
        ({"prices": {"openai:m": {"input": float("inf"), "output": 1}}}, r"prices\.openai:m\.input"),
        ({"http_checks": {"tone": {"url": "http://u:p@h/"}}}, "without a user and a password"),
        ({"http_checks": {"500": {"url": "http://h/"}}}, "'500' is no name of a check"),
    ],
)
def test_a_name_that_no_call_can_have_is_refused(changes: dict[str, Any], words: str):
    with pytest.raises(ValidationError, match=words):
        read(**changes)


def test_limits_of_known_endpoints_are_accepted():
    limits = {name: {"calls_at_once": 1} for name in ("openai:m", "e1:*", "open*", "local:x")}
    assert len(read(endpoints={"e1": E1}, model_limits=limits).model_limits) == 4


def test_an_environment_that_no_client_could_use_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "empty.pem").touch()
    for name in ("none.pem", "empty.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / name))
        with pytest.raises(ValidationError, match=rf"SSL_CERT_FILE names .*{name}, which is no file with certificates"):
            read()
    monkeypatch.delenv("SSL_CERT_FILE")
    names = [
        name
        for name, _ in environment_errors({"ALL_PROXY": "socks4://h:1", "http_proxy": "h:80", "HTTPS_PROXY": "x://"})
    ]
    assert names == ["HTTPS_PROXY", "ALL_PROXY"]


# Case T2-29
def test_a_socks_proxy_is_used_but_for_what_is_not_proxied(monkeypatch: pytest.MonkeyPatch, model_server: Any):
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    timeout = httpx2.Timeout(5.0)

    async def get_both() -> None:
        async with http_client(DefaultAioHttpClient) as client:
            assert (await client.get(f"{model_server.openai_url}/nothing", timeout=timeout)).status_code
            with pytest.raises(httpx2.ConnectError):
                await client.get("http://192.0.2.1/", timeout=timeout)

    asyncio.run(get_both())
