"""Jobs whose generator and evaluators are on different endpoints."""

from collections.abc import Callable
from typing import Any

import pytest

from redraft.errors import Invalid
from redraft.operations.admin.installation import list_models
from redraft.operations.admin.model_checks import check_model
from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.operations.driving import Driver

KEY = "key-of-the-endpoint-0123456789"


@pytest.fixture
def endpoints(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("SERVER_KEY", KEY)
    return {
        "writers": {
            "format": "openai",
            "base_url": model_server.openai_url,
            "prices": {"w": {"input": 1, "output": 2}},
        },
        "judges": {
            "format": "anthropic",
            "base_url": model_server.anthropic_url,
            "api_key_env": "SERVER_KEY",
            "headers": {"x-token": "team-secret-42"},
            "prices": {"*": {"input": 0, "output": 0}},
            "limits": {"calls_at_once": 1},
        },
    }


@pytest.mark.parametrize("stream", [False, True])
def test_one_endpoint_writes_while_others_evaluate(
    make_driver: Callable[..., Driver], model_server: ModelServer, endpoints: dict[str, Any], *, stream: bool
):
    driver = make_driver(endpoints=endpoints)
    model_server.script(generate=["It repeats team-secret-42."], evaluate=[0.9])
    panel = ["judges:a", "openai:b"]
    job = driver.run_new(model="writers:w", evaluation={"panel": panel, "audit": "judges:c"}, stream=stream)
    assert job.stop_reason == "accepted"
    rows = driver.ledger(job.id)
    assert [row["model"] for row in rows if row["type"] == "generate"] == ["writers:w"]
    assert {(row["provider"], row["model"]) for row in rows} >= {("judges", "judges:a"), ("judges", "judges:c")}
    assert {entry.dialect for entry in model_server.requests("evaluate")} == {"openai", "anthropic"}
    written = next(row for row in rows if row["type"] == "generate")
    assert written["cost_nano_usd"] == written["input_tokens"] * 1000 + written["output_tokens"] * 2000
    assert all(row["cost_nano_usd"] == 0 for row in rows if row["provider"] == "judges")
    assert KEY not in str(rows)
    assert "team-secret-42" not in str(rows)


def test_a_worker_without_the_endpoint_ends_the_job(make_driver: Callable[..., Driver], endpoints: dict[str, Any]):
    job_id = make_driver(endpoints=endpoints).submit(model="writers:w")
    job = make_driver().run(job_id)
    assert job.error
    assert (job.status, job.error["code"]) == ("failed", "unknown_model")
    assert "writers:w names no known model" in job.error["detail"]


def test_an_unknown_endpoint_is_refused_in_each_role(make_driver: Callable[..., Driver], endpoints: dict[str, Any]):
    driver = make_driver(endpoints=endpoints)
    for pointer, fields in {
        "/model": {"model": "other:w"},
        "/evaluator_model": {"evaluator_model": "other:w"},
        "/evaluation/panel/1": {"evaluation": {"panel": ["judges:a", "other:w"]}},
        "/evaluation/audit": {"evaluation": {"audit": "other:w"}},
    }.items():
        with pytest.raises(Invalid, match="one of openai, anthropic, writers, judges, local") as refused:
            driver.submit(**fields)
        assert refused.value.errors[0].pointer == pointer


def test_endpoints_are_checked_and_listed(make_services: Callable[..., Services], endpoints: dict[str, Any]):
    services = make_services(endpoints=endpoints)
    assert check_model(services, "judges:a").is_ok
    lines = {line.id: line for line in list_models(services)}
    assert (lines["writers:w"].input_usd, lines["judges:*"].is_ready) == ("1", True)
