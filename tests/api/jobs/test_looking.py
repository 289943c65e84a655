import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import httpx2
import pytest

from api.intervals import Intervals
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.queue import job_channel
from tests.api.conftest import assert_problem
from tests.support.api_server import ApiServer
from tests.support.valkey import ValkeyServer
from tests.support.waiting import patient, wait_until

# Slower than any test waits: whoever answers was woken.
ONLY_WOKEN = Intervals(poll_s=50, poll_offline_s=50)
NOT_LOOKED_S = 20


def channels(api: ApiServer) -> frozenset[str]:
    return api.app.state.context.notifications.channels


def poll(client: httpx2.Client, job_id: str, wait_s: int = 40) -> httpx2.Response:
    tag = client.get(f"/v1/jobs/{job_id}").headers["etag"]
    return client.get(f"/v1/jobs/{job_id}", headers={"If-None-Match": tag, "Prefer": f"wait={wait_s}"})


def test_a_version_that_is_known_is_not_sent_again(client: httpx2.Client, services: Services, submit_job):
    path = f"/v1/jobs/{submit_job()}"
    first = client.get(path)
    for known in (first.headers["etag"], f'"0", {first.headers["etag"]}', f"W/{first.headers['etag']}", "*"):
        response = client.get(path, headers={"If-None-Match": known})
        assert response.status_code == 304
        assert response.content == b""
        assert response.headers["etag"] == first.headers["etag"]
        assert response.headers["retry-after"] == "1"
    for other in ('"0"', "nonsense", '"'):
        assert client.get(path, headers={"If-None-Match": other}).json() == first.json()
    lifecycle.cancel(services, first.json()["id"])
    changed = client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]
    assert "retry-after" not in changed.headers


def test_iterations_are_embedded_on_request_under_a_tag_of_their_own(client: httpx2.Client):
    body = {"instruct": "i", "eval_crit": "c", "answer": "the answer"}
    path = client.post("/v1/evaluate-answer", json=body).headers["location"]
    plain, embedded = client.get(path), client.get(path, params={"include": "iterations"})
    assert plain.headers["etag"] != embedded.headers["etag"]
    assert embedded.json()["iterations"] == client.get(f"{path}/iterations").json()["data"]
    assert client.get(f"{path}/iterations/1").json() == client.get(f"{path}/iterations").json()
    assert_problem(client.get(path, params={"include": "everything"}), 422)


def test_a_long_poll_is_woken_by_the_change(start_api: Callable[..., ApiServer], services: Services, submit_job):
    api = start_api(intervals=ONLY_WOKEN)
    client, job_id = api.client(timeout=patient(60)), submit_job()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(poll, client, job_id)
        wait_until(lambda: job_channel(job_id) in channels(api))
        lifecycle.cancel(services, job_id)
        response = waiting.result(timeout=NOT_LOOKED_S)
    assert response.status_code == 200
    assert response.json()["status"] == "canceled"
    assert channels(api) == frozenset()


def test_a_long_poll_without_a_change_ends_with_304(client: httpx2.Client, submit_job: Callable[..., str]):
    started_at = time.monotonic()
    assert poll(client, submit_job(), wait_s=1).status_code == 304
    assert time.monotonic() - started_at >= 1


def test_waiting_without_a_version_waits_for_the_end(start_api, services: Services, submit_job):
    api = start_api(intervals=ONLY_WOKEN)
    client, job_id = api.client(timeout=patient(60)), submit_job()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, f"/v1/jobs/{job_id}", headers={"Prefer": "wait=40"})
        wait_until(lambda: job_channel(job_id) in channels(api))
        lifecycle.cancel(services, job_id)
        assert waiting.result(timeout=NOT_LOOKED_S).json()["status"] == "canceled"
    assert client.get(f"/v1/jobs/{job_id}", headers={"Prefer": "wait=40"}, timeout=NOT_LOOKED_S).status_code == 200


def test_a_job_that_is_not_there_is_not_waited_for(start_api):
    client = start_api(intervals=ONLY_WOKEN).client(timeout=NOT_LOOKED_S)
    headers = {"If-None-Match": '"1"', "Prefer": "wait=40"}
    assert_problem(client.get("/v1/jobs/job_none", headers=headers), 404)


def test_sixty_waiters_hold_no_threads(start_api, services: Services, submit_job: Callable[..., str]):
    api = start_api(intervals=ONLY_WOKEN)
    client = api.client(timeout=patient(60))
    ids = [submit_job() for _ in range(60)]
    with ThreadPoolExecutor(60) as pool:
        waiting: list[Future[httpx2.Response]] = [pool.submit(poll, client, job_id) for job_id in ids]
        wait_until(lambda: len(channels(api)) == len(ids), within_s=20)
        assert client.get(f"/v1/jobs/{ids[0]}", timeout=NOT_LOOKED_S).status_code == 200
        for job_id in ids:
            lifecycle.cancel(services, job_id)
        assert {each.result(timeout=NOT_LOOKED_S).status_code for each in waiting} == {200}


def test_a_server_that_stops_lets_its_waiters_go(start_api, submit_job: Callable[..., str]):
    api = start_api(intervals=ONLY_WOKEN)
    job_id = submit_job()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(poll, api.client(timeout=patient(60)), job_id)
        wait_until(lambda: job_channel(job_id) in channels(api))
        api.stop()
        assert waiting.result(timeout=NOT_LOOKED_S).status_code == 304


@pytest.fixture
def own_valkey():
    server = ValkeyServer().start()
    yield server
    server.remove()


def test_without_a_broker_waiters_look_by_themselves_and_hear_again_when_it_is_back(
    start_api, make_services, own_valkey: ValkeyServer, submit_job: Callable[..., str]
):
    api = start_api(intervals=Intervals(poll_s=50, poll_offline_s=0.2), broker_url=own_valkey.url)
    services = make_services(broker_url=own_valkey.url)
    client, notifications = api.client(timeout=patient(60)), api.app.state.context.notifications
    wait_until(lambda: notifications.is_listening)
    own_valkey.stop(kill=True)
    wait_until(lambda: not notifications.is_listening)
    cancel_while_polled(client, services, submit_job(), api)
    own_valkey.start()
    wait_until(lambda: notifications.is_listening)
    # Its queue leaves a broker that failed alone for a moment; another one does not know of that
    cancel_while_polled(client, make_services(broker_url=own_valkey.url), submit_job(), api)


def cancel_while_polled(client: httpx2.Client, services: Services, job_id: str, api: ApiServer) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(poll, client, job_id)
        wait_until(lambda: job_channel(job_id) in channels(api))
        lifecycle.cancel(services, job_id)
        assert waiting.result(timeout=NOT_LOOKED_S).json()["status"] == "canceled"
