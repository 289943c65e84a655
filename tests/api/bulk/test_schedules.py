"""The routes of schedules."""

from typing import Any

import httpx2
import pytest

from redraft.operations.services import Services
from tests.operations.bulk.test_runs import DEFAULTS, dataset, rows


def body(services: Services, **fields: Any) -> dict[str, Any]:
    run = {"dataset_id": dataset(services, rows(2)), "defaults": DEFAULTS}
    return {"cron": "0 6 * * mon-fri", "run": run, **fields}


def test_a_schedule_is_created_listed_paused_resumed_and_deleted(client: httpx2.Client, services: Services):
    created = client.post("/v1/schedules", json=body(services, gates={"min_pass_rate": 0.5}))
    assert created.status_code == 201, created.text
    made = created.json()
    path = created.headers["Location"]
    assert path == f"/v1/schedules/{made['id']}" == made["urls"]["self"]
    assert (made["status"], made["cron"], made["gates"]["min_pass_rate"]) == ("active", "0 6 * * mon-fri", 0.5)
    assert client.get("/v1/schedules").json()["data"] == [made]
    paused = client.post(f"{path}/pause").json()
    assert (paused["status"], paused["next_at"]) == ("paused", None)
    assert client.post(f"{path}/resume").json() == client.get(path).json() == made
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"cron": "0 6 * *"}, "/cron"),
        ({"gates": {"min_pass_rate": 2}}, "/gates/min_pass_rate"),
        ({"run": {}}, "/run/dataset_id"),
    ],
)
def test_a_bad_schedule_is_refused(client: httpx2.Client, services: Services, fields: dict[str, Any], pointer: str):
    refused = client.post("/v1/schedules", json=body(services, **fields))
    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]
