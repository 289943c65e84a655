from collections.abc import Callable

import httpx2

from redraft.operations.admin import keys
from redraft.operations.services import Services
from tests.api.conftest import assert_problem
from tests.support.api_server import ApiServer


def test_ready_needs_a_worker_and_says_so(client: httpx2.Client):
    problem = assert_problem(client.get("/readyz"), 503, "not_ready")
    found = {check["name"]: check for check in problem["checks"]}
    assert {name for name, check in found.items() if not check["is_ready"]} == {"workers"}
    assert {"database", "migrations", "broker"} <= set(found)
    assert "redraft worker" in found["workers"]["detail"]


def test_details_are_for_those_who_are_known(start_api: Callable[..., ApiServer], services: Services):
    client = start_api(require_auth=True).client()
    token = keys.create_key(services, "test")[1]
    stranger = client.get("/readyz")
    assert all("detail" not in check for check in stranger.json()["checks"])
    known = client.get("/readyz", headers={"Authorization": f"Bearer {token}"})
    assert all(check["detail"] for check in known.json()["checks"])


def test_without_database_and_broker_it_lives_but_is_not_ready(start_api: Callable[..., ApiServer], tmp_path):
    away = f"redis+socket://{tmp_path}/no.sock"
    client = start_api(database_url=f"sqlite:///{tmp_path}/no/folder/db", broker_url=away).client()
    assert client.get("/livez").status_code == 200
    checks = assert_problem(client.get("/readyz"), 503)["checks"]
    assert {check["name"] for check in checks if not check["is_ready"]} == {"database", "broker"}


def test_models_are_listed(client: httpx2.Client):
    models = client.get("/v1/models").json()["data"]
    assert [model["id"] for model in models if model["default"]] == ["openai:writer"]
    assert all(model["note"] for model in models)
