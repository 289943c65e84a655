"""Providers of installed packages."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redraft.cli.admin.diagnostics import diagnose
from redraft.domain.calls.model_names import ModelRef
from redraft.errors import Invalid
from redraft.operations.admin.installation import list_models
from redraft.operations.admin.model_checks import check_model
from redraft.providers.shared.transport import CALLS_LOOP
from tests.model_server import ModelServer
from tests.operations.calls.packages import installed_package
from tests.operations.driving import Driver

CODE = """
import asyncio
import contextlib
import time
from redraft.errors import ProviderError
from redraft.providers.shared.protocol import ChatReply, Usage

class Echo:
    name = "acme"

    def wire_body(self, chat):
        if chat.model.name == "no-body":
            raise KeyError("SECRET")
        if chat.model.name == "odd-body":
            return {"model": object()}
        return {"model": chat.model.name, "prompt": chat.messages[-1].content}

    async def send(self, body, *, timeout_s, files=None, on_delta=None, limit_origin=None):
        match body["model"]:
            case "crash":
                raise RuntimeError("SECRET")
            case "exit":
                raise SystemExit(1)
            case "odd":
                return "text"
            case "odd-code":
                raise ProviderError("nobody", "SECRET")
            case "quota":
                raise ProviderError("provider_quota", "Pay first.")
            case "odd-response":
                return ChatReply("text", "stop", Usage(), 200, {"score": float("nan")})
            case "odd-usage":
                return ChatReply("text", "stop", Usage("many"), 200, {})
            case "blank":
                return ChatReply(" ", "stop", Usage(1, 0, 1), 200, {})
            case "deaf":
                with contextlib.suppress(Exception):
                    on_delta("An echo.")
                return ChatReply("An echo.", "stop", Usage(), 200, {})
            case "slow":
                await asyncio.sleep(60)
        if on_delta:
            on_delta("An echo.")
        return ChatReply("An echo.", "stop", Usage(7, 0, 3), 200, {"text": "An echo."})

    def warm_up(self):
        raise RuntimeError("SECRET")

    async def close(self):
        raise RuntimeError("SECRET")

class Slow(Echo):
    def warm_up(self):
        time.sleep(0.6)

def refuse():
    raise RuntimeError("set ACME_KEY")
"""
ENTRY_POINTS = """
[redraft.providers]
acme = acme_models:Echo
refusing = acme_models:refuse
slow = acme_models:Slow
missing = acme_models:__name__
plain = builtins:dict
openai = acme_models:Echo
groq = acme_models:Echo
Upper = acme_models:Echo
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "acme_models.py").write_text(CODE)
    with installed_package(tmp_path, ENTRY_POINTS, monkeypatch):
        yield


@pytest.mark.parametrize("stream", [False, True])
def test_a_package_adds_a_provider(make_driver: Callable[..., Driver], model_server: ModelServer, *, stream: bool):
    driver = make_driver(prices={"acme:echo": {"input": 1, "output": 2}})
    model_server.script(evaluate=[0.9])
    job = driver.run_new(model="acme:echo", evaluator_model="openai:e", stream=stream)
    assert (job.stop_reason, driver.iterations(job.id)[0].answer) == ("accepted", "An echo.")
    row = driver.ledger(job.id)[0]
    assert (row["provider"], row["model"], row["input_tokens"]) == ("acme", "acme:echo", 7)
    assert row["cost_nano_usd"] == 7 * 1000 + 3 * 2000
    assert row["request"]["model"] == "echo"
    driver.services.providers.close()


def test_the_latency_of_a_call_has_no_time_of_imports(make_driver: Callable[..., Driver], model_server: ModelServer):
    driver = make_driver()
    model_server.script(evaluate=[0.9])
    job = driver.run_new(model="slow:echo", evaluator_model="openai:e")
    assert driver.ledger(job.id)[0]["latency_ms"] < 600
    assert check_model(driver.services, "slow:echo").latency_ms < 600
    driver.services.providers.close()
    assert check_model(driver.services, "slow:echo").latency_ms < 600


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        ("crash", "provider_bad_request", "raised RuntimeError"),
        ("exit", "provider_bad_request", "raised SystemExit"),
        ("odd", "provider_bad_request", "no valid ChatReply"),
        ("odd-code", "provider_bad_request", "raised ProviderError"),
        ("odd-usage", "provider_bad_request", "no valid ChatReply"),
        ("odd-response", "provider_bad_request", "raised ValueError"),
        ("no-body", "provider_bad_request", "raised KeyError"),
        ("odd-body", "provider_bad_request", "raised TypeError"),
        ("quota", "provider_quota", "Pay first."),
        ("blank", "empty_output", "no text"),
    ],
)
def test_what_a_package_gets_wrong_ends_the_job(driver: Driver, model: str, code: str, words: str):
    job = driver.run_new(model=f"acme:{model}", evaluator_model="openai:e", iter_max=1)
    assert (job.stop_reason, (job.error or {})["code"]) == ("error", code)
    assert words in str(job.error)
    assert "SECRET" not in str(job.error)


def test_a_request_that_no_evaluator_gets_is_an_error_or_a_warning(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.9])
    job = driver.run_new(model="openai:g", evaluator_model="acme:no-body")
    assert (job.stop_reason, (job.error or {})["model"]) == ("error", "acme:no-body")
    job = driver.run_new(model="openai:g", evaluation={"audit": "acme:no-body"})
    assert (job.stop_reason, [each.code for each in job.warnings]) == ("accepted", ["audit_failed"])


@pytest.mark.parametrize("model", ["echo", "deaf"])
def test_an_error_of_the_caller_is_no_error_of_the_package(driver: Driver, model: str):
    def refuse(_text: str) -> None:
        raise LookupError("gone")

    provider = driver.services.providers.get(ModelRef("acme", model))
    with pytest.raises(LookupError, match="gone"):
        CALLS_LOOP.run(provider.send({"model": model}, timeout_s=5, on_delta=refuse))


def test_a_call_ends_with_its_time(driver: Driver):
    error = check_model(driver.services, "acme:slow", timeout_s=0.02).error
    assert error is not None
    assert error.code == "provider_timeout"


def test_a_broken_provider_is_told_and_refused(make_driver: Callable[..., Driver]):
    groq: dict[str, Any] = {"groq": {"format": "openai", "base_url": "http://127.0.0.1:1/v1"}}
    driver = make_driver(endpoints=groq)
    for name in ("refusing", "missing", "plain"):
        with pytest.raises(Invalid, match="redraft doctor") as refused:
            driver.submit(model=f"{name}:m")
        assert (refused.value.code, refused.value.errors[0].pointer) == ("unknown_model", "/model")
    with pytest.raises(Invalid, match="Upper"):
        driver.submit(model="Upper:m")
    providers = driver.services.providers
    assert providers.base_url("groq")
    assert type(providers.get(ModelRef("openai", "m"))).__name__ == "OpenAIProvider"
    told = {finding.detail for finding in diagnose(driver.services.settings) if finding.name == "package"}
    assert told == {
        "provider acme of acme 1.0",
        "provider slow of acme 1.0",
        "provider refusing of acme 1.0: the provider cannot be created: RuntimeError: set ACME_KEY",
        "provider missing of acme 1.0: acme_models:__name__ is no function",
        "provider plain of acme 1.0: dict has no method wire_body, send, warm_up, close",
        "provider openai of acme 1.0: this name is built in; the package needs another name",
        "provider groq of acme 1.0: an endpoint of the settings has this name, and is used; rename one of them",
        "provider Upper of acme 1.0: a name is a small letter and at most 19 small letters, digits, '_' or '-'",
    }
    listed = {each.id: each for each in providers.models()}
    assert (listed["acme:*"].configured, listed["acme:*"].note) == (True, "Provided by the package acme 1.0.")
    assert (listed["refusing:*"].configured, "doctor" in listed["refusing:*"].note) == (False, True)
    assert {each.id for each in list_models(driver.services)} >= {"acme:*", "plain:*", "groq:*"}
