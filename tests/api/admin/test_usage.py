"""What calls took, added up by day and model."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from sqlalchemy import insert, select

from redraft.operations.services import Services
from redraft.storage.engine.tables import calls
from tests.api.conftest import assert_problem

DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def add_call(services: Services, submit_job: Callable[..., str]) -> Callable[..., None]:
    job_id = submit_job()

    def add(at: datetime, model: str = "openai:writer", **columns: object) -> None:
        usual = {
            "job_id": job_id,
            "type": "generate",
            "step": "generate",
            "iteration": 1,
            "candidate": 1,
            "seq": 1,
            "attempt": 1,
            "lease_token": 1,
            "provider": model.partition(":")[0],
            "status": "ok",
            "request": {},
            "input_tokens": 10,
            "cached_input_tokens": 4,
            "cache_write_tokens": 3,
            "output_tokens": 5,
            "reasoning_tokens": 2,
            "cost_nano_usd": 1_000_000,
        }
        with services.database.write() as connection:
            number = len(connection.execute(select(calls.c.id)).all())
            row = {**usual, "id": f"call_{number}", "seq": number, "model": model, "finished_at": at, **columns}
            connection.execute(insert(calls).values(**row))

    return add


def usage(client: httpx2.Client, **query: str) -> dict:
    response = client.get("/v1/usage", params={"created_after": "2026-10-01", "created_before": "2026-11-20", **query})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.both_databases
def test_calls_are_added_up_by_day_and_model(client: httpx2.Client, add_call: Callable[..., None]):
    add_call(DAY)
    add_call(DAY + timedelta(hours=11), cached=True, cost_nano_usd=0)
    add_call(DAY + timedelta(hours=13), status="error", cost_nano_usd=None, input_tokens=None)
    add_call(DAY, "anthropic:judge", status="unknown", cost_nano_usd=None)
    add_call(DAY, finished_at=None, status="started")
    found = usage(client)
    assert [(line["day"], line["model"], line["calls"], line["cost_usd"]) for line in found["data"]] == [
        ("2026-11-02", "openai:writer", 1, "0"),
        ("2026-11-01", "anthropic:judge", 1, None),
        ("2026-11-01", "openai:writer", 2, "0.001"),
    ]
    assert found["total"] == {
        "calls": 4,
        "failed_calls": 2,
        "cached_calls": 1,
        "input_tokens": 30,
        "cached_input_tokens": 16,
        "cache_write_tokens": 12,
        "output_tokens": 20,
        "reasoning_tokens": 8,
        "cost_usd": None,
        "unpriced_calls": 1,
    }
    assert usage(client, model="openai:writer")["total"]["cost_usd"] == "0.001"
    assert usage(client, kind="evaluate_answer")["data"] == []
    assert usage(client, kind="generate_answer")["total"] == found["total"]
    assert usage(client, created_after="2026-11-02")["total"]["calls"] == 1
    assert usage(client, created_before="2026-11-01")["total"] == {**dict.fromkeys(found["total"], 0), "cost_usd": "0"}


def test_without_a_span_the_last_days_count(client: httpx2.Client, add_call: Callable[..., None]):
    add_call(datetime.now(UTC) - timedelta(days=29))
    add_call(datetime.now(UTC) - timedelta(days=31))
    assert client.get("/v1/usage").json()["total"]["calls"] == 1


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ("created_after=2024-01-01&created_before=2026-01-01", "query/created_after", "span_too_long"),
        ("created_after=2026-02-01&created_before=2026-01-01", "query/created_before", "empty_span"),
        ("kind=essay", "query/kind", None),
    ],
)
def test_a_span_that_cannot_be_added_up_is_refused(client: httpx2.Client, query: str, pointer: str, code: str | None):
    problem = assert_problem(client.get(f"/v1/usage?{query}"), 422)
    assert problem["errors"][0]["pointer"] == pointer
    assert code in {None, problem["code"]}
