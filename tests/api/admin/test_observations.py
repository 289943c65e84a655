"""Observations over HTTP: lines of JSON, and the report of ranks."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from tests.api.conftest import assert_problem
from tests.support.api_server import ApiServer
from tests.support.rows.observed import add_observation

SHAPE = [
    "id", "job_id", "iteration", "candidate", "created_at", "query", "sources", "final_score", "grounding_score",
    "generator_model", "evaluator_model", "profile",
]  # fmt: skip
START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def job_id(submit_job: Callable[..., str]) -> str:
    return submit_job()


def export(client: httpx2.Client, **query: Any) -> list[dict[str, Any]]:
    response = client.get("/v1/observations", params=query)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].partition(";")[0] == "application/x-ndjson"
    assert response.text == "" or response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


def test_an_observation_is_a_line_of_json(client: httpx2.Client, services: Services, job_id: str):
    found = add_observation(services.database, job_id, 2, query="Why?\nSay\u2028it,\u2029now.\x85")
    [line] = export(client)
    assert list(line) == SHAPE
    assert line["id"] == found
    assert line["created_at"].endswith("Z")
    assert (line["job_id"], line["iteration"], line["query"]) == (job_id, 2, "Why?\nSay\u2028it,\u2029now.\x85")
    assert (line["final_score"], line["grounding_score"], line["profile"]) == (0.9, 1.0, "criteria")
    assert line["sources"][0] == {
        "source_number": 1,
        "chunk_id": "c1",
        "document_id": None,
        "title": None,
        "relevance_score": 0.9,
        "rank": 1,
        "cited": True,
    }


def test_without_observations_there_is_no_line_and_no_figure(client: httpx2.Client):
    assert export(client) == []
    assert client.get("/v1/observations/ranks").json() == {
        "observations": 0,
        "left_out": 0,
        "observations_needed": 30,
        "mean_relevance_score": {"cited": None, "uncited": None},
        "ranks": [],
    }


def test_an_export_is_narrowed_and_taken_up_again(
    client: httpx2.Client, services: Services, job_id: str, submit_job: Callable[..., str]
):
    found = [add_observation(services.database, job_id, n, at=START + timedelta(hours=n)) for n in range(120)]
    theirs = add_observation(services.database, submit_job(), at=START - timedelta(days=1))
    assert [each["id"] for each in export(client)] == [theirs, *found]
    assert [each["id"] for each in export(client, job_id=job_id)] == found
    assert [each["id"] for each in export(client, limit=70, after=theirs)] == found[:70]
    assert [each["id"] for each in export(client, limit=50, job_id=job_id)] == found[:50]
    assert [each["id"] for each in export(client, after=found[69])] == found[70:]
    assert export(client, after=found[-1]) == []
    day = {"created_after": "2026-11-01T00:00:00Z", "created_before": "2026-11-01T05:00:00+01:00"}
    assert [each["id"] for each in export(client, **day)] == found[1:4]
    assert client.get("/v1/observations/ranks", params=day).json()["observations"] == 3


def test_the_report_says_which_ranks_are_cited(client: httpx2.Client, services: Services, job_id: str):
    for n in range(8):
        add_observation(services.database, job_id, n, cited=(True, n < 2, False))
    for n in range(8, 10):
        add_observation(services.database, job_id, n, cited=(False,))
    add_observation(services.database, job_id, 10, cited=(None,))
    found = client.get("/v1/observations/ranks", params={"job_id": job_id}).json()
    assert (found["observations"], found["left_out"]) == (10, 1)
    assert [(each["rank"], each["offered"], each["cited"]) for each in found["ranks"]] == [
        (1, 10, 8),
        (2, 8, 2),
        (3, 8, 0),
    ]
    share = found["ranks"][0]["share"]
    assert (share["value"], round(share["low"], 2), round(share["high"], 2)) == (0.8, 0.49, 0.94)
    means = found["mean_relevance_score"]
    assert means["cited"] == pytest.approx((8 * 0.9 + 2 * 0.8) / 10)
    assert means["uncited"] == pytest.approx((2 * 0.9 + 6 * 0.8 + 8 * 0.7) / 16)


def test_a_deleted_jobs_observations_are_gone(client: httpx2.Client, services: Services, job_id: str):
    add_observation(services.database, job_id)
    lifecycle.cancel(services, job_id)
    assert client.delete(f"/v1/jobs/{job_id}").status_code == 204
    assert export(client) == []


@pytest.mark.parametrize(
    ("path", "name", "code"),
    [
        ("?after=obs_none", "after", "unknown_observation"),
        ("?limit=0", "limit", None),
        ("?created_after=2026", "created_after", None),
        ("?job=x", "job", None),
        ("/ranks?limit=3", "limit", None),
        ("/ranks?created_before=soon", "created_before", None),
    ],
)
def test_a_wrong_query_is_refused(client: httpx2.Client, path: str, name: str, code: str | None):
    problem = assert_problem(client.get(f"/v1/observations{path}"), 422)
    assert [error["pointer"] for error in problem["errors"]] == [f"query/{name}"]
    assert code in {None, problem["errors"][0]["code"]}


def test_reading_needs_the_scope_read(start_api: Callable[..., ApiServer], services: Services):
    api = start_api(require_auth=True)
    for scope, status in ((Scope.READ, 200), (Scope.WRITE, 403)):
        _, token = keys.create_key(services, scope.value, [scope])
        client = api.client(headers={"Authorization": f"Bearer {token}"})
        assert client.get("/v1/observations").status_code == status
        assert client.get("/v1/observations/ranks").status_code == status
    assert api.client().get("/v1/observations").status_code == 401
