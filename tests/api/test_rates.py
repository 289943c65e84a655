"""How often a caller may ask: counted by all API processes together, told in headers, and never in the way."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from sqlalchemy import event

from api.authentication import FAILURES
from api.http.rate_limits import network_of
from redraft.operations.admin import keys
from redraft.operations.services import Services
from tests.api.conftest import assert_problem
from tests.support.api_server import ApiServer
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

RATE_LIMIT = re.compile(r'"requests";r=(\d+);t=(\d+)')
Start = Callable[..., ApiServer]


@pytest.fixture
def token(services: Services) -> str:
    return keys.create_key(services, "test")[1]


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer().start()
    yield server
    server.remove()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def ask(client: httpx2.Client, token: str) -> httpx2.Response:
    return client.get("/v1/profiles", headers=bearer(token))


def left(response: httpx2.Response) -> int:
    found = RATE_LIMIT.fullmatch(response.headers["ratelimit"])
    assert found, response.headers
    return int(found[1])


def test_a_caller_sees_what_is_left_and_is_turned_away_after_it(start_api: Start, token: str):
    client = start_api(require_auth=True, requests_per_minute=5).client()
    for number in range(5):
        response = ask(client, token)
        assert response.status_code == 200
        assert response.headers["ratelimit-policy"] == '"requests";q=5;w=60'
        assert left(response) == 4 - number
    refused = ask(client, token)
    problem = assert_problem(refused, 429, "too_many_requests")
    assert problem["retryable"]
    assert 10 <= int(refused.headers["retry-after"]) <= 12
    assert left(refused) == 0
    assert int(RATE_LIMIT.fullmatch(refused.headers["ratelimit"])[2]) in range(57, 61)


def test_all_processes_count_together_and_each_key_for_itself(start_api: Start, services: Services, token: str):
    clients = [start_api(require_auth=True, requests_per_minute=20).client() for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: ask(clients[number % 2], token), range(40)))
    # On a machine that is too busy, Valkey is not waited for.
    counted = [answer.status_code for answer in answers if "ratelimit" in answer.headers]
    assert counted.count(200) <= 22
    assert {200, 429} == set(counted)
    assert ask(clients[0], keys.create_key(services, "other")[1]).status_code == 200


def test_the_share_comes_back_steadily(start_api: Start, token: str):
    client = start_api(require_auth=True, requests_per_minute=60).client()
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: ask(client, token).status_code, range(90)))
    assert statuses.count(429) > 0
    wait_until(lambda: ask(client, token).status_code == 200, within_s=5)


def test_refusals_for_other_reasons_count_and_tell_too(start_api: Start, token: str):
    client = start_api(require_auth=True, requests_per_minute=10).client()
    assert left(client.get("/v1/nowhere", headers=bearer(token))) == 9
    assert left(client.post("/v1/generate-answer", headers=bearer(token), content=b"")) == 8
    assert left(client.get("/metrics", headers=bearer(token))) == 7


def test_without_a_limit_or_without_keys_nothing_is_counted(start_api: Start, token: str):
    for client in (
        start_api(require_auth=True, requests_per_minute=0).client(),
        start_api(requests_per_minute=1).client(),
    ):
        for _ in range(3):
            response = ask(client, token)
            assert response.status_code == 200
            assert "ratelimit" not in response.headers


def count_waits(caplog: pytest.LogCaptureFixture) -> int:
    """How many requests waited for the broker, or for its refusal: each that did has said so."""
    events = [each.msg["event"] for each in caplog.records if isinstance(each.msg, dict)]
    return events.count("rate_limit_unavailable")


def test_without_a_broker_everybody_is_let_in_at_once(
    start_api: Start, token: str, own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    client = start_api(require_auth=True, requests_per_minute=1000, broker_url=own_valkey.url).client()
    assert left(ask(client, token)) == 999
    own_valkey.stop(kill=True)
    for _ in range(40):
        response = ask(client, token)
        assert response.status_code == 200
        assert "ratelimit" not in response.headers
    # One in two seconds, on however slow a machine
    assert 1 <= count_waits(caplog) <= 10
    own_valkey.start()
    wait_until(lambda: "ratelimit" in ask(client, token).headers, within_s=10)


def test_a_broker_that_hangs_holds_nobody_up(
    start_api: Start, token: str, own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    client = start_api(require_auth=True, broker_url=own_valkey.url).client()
    assert ask(client, token).status_code == 200
    # For longer than the client has patience
    with own_valkey.client() as valkey:
        valkey.execute_command("CLIENT", "PAUSE", "120000", "ALL")
    with ThreadPoolExecutor(8) as pool:
        assert {response.status_code for response in pool.map(lambda _: ask(client, token), range(80))} == {200}
    # The first of each thread, and again after two seconds, on however slow a machine
    assert 1 <= count_waits(caplog) <= 40


def test_wrong_keys_from_one_address_are_not_heard_any_more(start_api: Start, services: Services, token: str):
    server = start_api(require_auth=True)
    client = server.client()
    assert ask(client, token).status_code == 200
    for number in range(FAILURES.per_minute):
        assert_problem(ask(client, f"rd_guess{number}"), 401, "invalid_key")
    look_ups: list[str] = []

    @event.listens_for(server.app.state.context.services.database.engine, "before_cursor_execute")
    def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        look_ups.append(statement)

    new_token = keys.create_key(services, "new")[1]
    for guess in ("rd_another", new_token):
        refused = ask(client, guess)
        assert_problem(refused, 429, "too_many_requests")
        assert 1 <= int(refused.headers["retry-after"]) <= 60 / FAILURES.per_minute + 1
    assert look_ups == []
    assert ask(client, token).status_code == 200, "a key that was right before is not held up"
    assert_problem(client.get("/v1/profiles"), 401, "unauthenticated")


def test_a_good_key_is_still_looked_up(start_api: Start, services: Services):
    client = start_api(require_auth=True).client()
    key, token = keys.create_key(services, "test")
    assert ask(client, token).status_code == 200
    keys.revoke_key(services, key["id"])
    assert_problem(ask(client, token), 401, "invalid_key")


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("", ""),
        ("not-an-address", "not-an-address"),
    ],
)
def test_an_ipv6_network_is_one_address(address: str, site: str):
    assert network_of(address) == site
