import re
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from fastapi.routing import iter_route_contexts

from api.authentication import OPEN_PATHS, OPEN_PREFIX, host_name
from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.services import Services
from tests.api.conftest import REQUEST, assert_problem
from tests.support.api_server import ApiServer


@pytest.fixture
def guarded(start_api: Callable[..., ApiServer]) -> ApiServer:
    return start_api(require_auth=True)


def test_no_route_is_reached_without_a_key_but_the_open_ones(guarded: ApiServer):
    client = guarded.client()
    tried = 0
    for route in iter_route_contexts(guarded.app.routes):
        path = re.sub(r"\{\w+\}", "1", route.path or "")
        for method in route.methods or {"GET"}:
            if path in OPEN_PATHS or (path + "/").startswith(OPEN_PREFIX):
                continue
            response = client.request(method, path, content=b"not even json")
            assert_problem(response, 401, "unauthenticated")
            assert response.headers["www-authenticate"].startswith("Bearer")
            tried += 1
    assert tried >= 14
    assert_problem(client.get("/unknown"), 401)
    assert_problem(client.get("/livez/"), 401)
    assert_problem(client.get("//livez"), 401)


def test_open_places_need_no_key(guarded: ApiServer):
    client = guarded.client()
    assert client.get("/livez").json() == {"status": "alive"}
    for path in ("/docs", "/openapi.json", "/static/pages/docs.css"):
        assert client.get(path).status_code == 200
    assert_problem(client.get("/static/../v1/jobs"), 401)


def test_a_valid_key_lets_in_until_it_is_revoked(guarded: ApiServer, services: Services):
    client = guarded.client()
    key, token = keys.create_key(services, "test")

    def ask(authorization: str) -> httpx2.Response:
        return client.get("/v1/jobs", headers={b"Authorization": authorization.encode()})

    assert ask(f"Bearer {token}").status_code == 200
    assert ask(f"bearer  {token}").status_code == 200
    assert client.get("/v1/jobs", headers={"Host": "any.example", "Authorization": f"Bearer {token}"}).is_success
    for wrong in (token, f"Basic {token}", "Bearer", "", f"Token {token}"):
        assert_problem(ask(wrong), 401, "unauthenticated")
    for wrong in (f"Bearer {token}x", "Bearer rd_", "Bearer ü", "Bearer " + "x" * 10_000):
        assert_problem(ask(wrong), 401, "invalid_key")
    keys.revoke_key(services, key["id"])
    assert_problem(ask(f"Bearer {token}"), 401, "invalid_key")


def test_a_key_does_what_its_scopes_allow_and_nothing_else(guarded: ApiServer, services: Services):
    client = guarded.client()
    tokens = {scope: keys.create_key(services, scope.value, [scope])[1] for scope in Scope}
    for method, path, needed in [
        ("GET", "/v1/jobs", "read"),
        ("HEAD", "/v1/jobs", "read"),
        ("POST", "/v1/generate-answer", "write"),
        ("POST", "/v1/refine-question", "write"),
        ("POST", "/v1/jobs/job_1/cancel", "write"),
        ("DELETE", "/v1/jobs/job_1", "write"),
        ("PROPFIND", "/v1/jobs", "write"),
        ("GET", "/metrics", "metrics"),
        ("POST", "/v1/keys", "admin"),
        ("GET", "/v1/keys/key_1", "admin"),
    ]:
        for scope, token in tokens.items():
            response = client.request(method, path, headers={"Authorization": f"Bearer {token}"})
            if scope == needed:
                assert response.status_code not in {401, 403}, (method, path)
                continue
            assert response.status_code == 403, (method, path, scope)
            assert f'scope="{needed}"' in response.headers["www-authenticate"]
            if method != "HEAD":
                assert f"'{needed}'" in assert_problem(response, 403, "insufficient_scope")["detail"]


def test_an_expired_key_is_no_key(guarded: ApiServer, services: Services):
    token = keys.create_key(services, "brief", lifetime_s=0.0)[1]
    headers = {"Authorization": f"Bearer {token}"}
    assert_problem(guarded.client().get("/v1/jobs", headers=headers), 401, "invalid_key")


def test_a_key_in_the_address_is_refused_and_not_repeated(guarded: ApiServer, services: Services):
    client = guarded.client()
    token = keys.create_key(services, "leaked")[1]
    for name in ("access_token", "api_key", "Authorization"):
        for headers in ({}, {"Authorization": f"Bearer {token}"}):
            response = client.get(f"/v1/jobs?{name}={token}", headers=headers)
            assert "Revoke this key" in assert_problem(response, 400, "credentials_in_address")["detail"]
            assert token not in response.text


def test_what_was_sent_twice_is_believed_in_neither_form(api: ApiServer, guarded: ApiServer):
    for twice in (
        [("Authorization", "Bearer rd_1"), ("Authorization", "Bearer rd_2")],
        [("Content-Type", "application/json"), ("Content-Type", "text/plain")],
        [("Idempotency-Key", "a"), ("Idempotency-Key", "b")],
    ):
        for server in (api, guarded):
            for path in ("/v1/jobs", "/livez"):
                assert_problem(server.client().get(path, headers=twice), 400, "ambiguous_header")


def test_what_is_refused_is_refused_before_its_body_is_read(guarded: ApiServer, services: Services):
    response = guarded.client().post("/v1/generate-answer", content=b"x" * 9_000_000)
    assert_problem(response, 401)


@pytest.mark.parametrize(
    ("settings", "is_needed"),
    [({}, False), ({"host": "0.0.0.0"}, True), ({"host": "::1"}, False), ({"require_auth": True}, True)],
)
def test_keys_are_needed_beyond_loopback(start_api, settings: dict[str, Any], is_needed):
    response = start_api(**settings).client().get("/v1/jobs")
    assert response.status_code == (401 if is_needed else 200)


def test_without_keys_only_this_machine_is_served(client: httpx2.Client, api: ApiServer):
    for host in (f"127.0.0.1:{api.port}", "localhost", "LOCALHOST:1", "[::1]:8000", "app.localhost", "127.1.2.3"):
        assert client.get("/v1/jobs", headers={"Host": host}).status_code == 200, host
    odd = ("localhost/", "u@localhost", "localhost:x", "localhost?", "localhost#", "[::1")
    for host in ("evil.example", "localhost.evil.example", "192.168.1.1", "x" * 300, "127.0.0.1.nip.io", *odd):
        assert_problem(client.get("/v1/jobs", headers={"Host": host}), 403, "host_not_allowed")
    assert client.get("/livez", headers={"Host": "evil.example"}).status_code == 200


def test_beyond_loopback_without_keys_addresses_are_served_but_no_names(start_api):
    client = start_api(host="0.0.0.0", require_auth=False).client()
    for host in ("192.168.1.1:8000", "localhost", "[fe80::1]"):
        assert client.get("/v1/jobs", headers={"Host": host}).status_code == 200
    assert_problem(client.get("/v1/jobs", headers={"Host": "evil.example"}), 403)


def test_pages_of_other_sites_change_nothing(client: httpx2.Client, api: ApiServer):
    def post(**headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.post("/v1/generate-answer", json=REQUEST, headers=named)

    for headers in (
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ):
        assert_problem(post(**headers), 403, "cross_site_request")
    assert client.get("/v1/jobs").json()["data"] == []
    assert post(Sec_Fetch_Site="same-origin", Origin=api.url).status_code == 202
    assert post(Sec_Fetch_Site="none").status_code == 202
    assert client.get("/v1/jobs", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("a:1", "a"),
        ("[::1]:1", "::1"),
        ("A.", "a"),
        *((odd, "") for odd in ("", "[", "u@a", "a:b", "a/b", "a b", "[::1]x")),
    ],
)
def test_host_names_are_read(host: str, name: str):
    assert host_name(host) == name
