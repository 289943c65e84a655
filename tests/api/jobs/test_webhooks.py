"""Webhooks over HTTP: what is refused with a job, what is shown of its deliveries, sending again."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from tests.api.conftest import REQUEST, assert_problem
from tests.support.api_server import ApiServer
from tests.support.receiver import SECRET

HOOK = "https://hooks.example/jobs?token=t0p"
CRITERIA = {"eval_crit": "True."}
SHAPE = [
    "id", "job_id", "run_id", "type", "seq", "url", "status", "failing", "attempts", "attempts_left", "next_at",
    "http_status", "error", "created_at", "delivered_at",
]  # fmt: skip


@pytest.fixture
def client(start_api: Callable[..., ApiServer]) -> httpx2.Client:
    return start_api(webhook_secret=SecretStr(SECRET)).client()


def submit(client: httpx2.Client, webhook: Any, route: str = "generate-answer", **fields: Any) -> httpx2.Response:
    return client.post(f"/v1/{route}", json={**REQUEST, **fields, "webhook": webhook})


def test_a_jobs_webhook_is_echoed_without_the_secret_and_its_deliveries_are_listed(client: httpx2.Client):
    for route, fields in (("generate-answer", {}), ("evaluate-answer", {"answer": "Air scatters blue."})):
        job = submit(client, {"url": HOOK, "events": ["job.queued", "done"]}, route, **fields).json()
        assert job["request"]["webhook"] == {"url": HOOK, "events": ["job.queued", "done"]}
        response = client.get(f"/v1/jobs/{job['id']}/webhook-deliveries")
        [delivery] = response.json()["data"]
        assert list(delivery) == SHAPE
        assert delivery["id"].startswith("whd_")
        assert (delivery["type"], delivery["seq"], delivery["status"]) == ("job.queued", 1, "pending")
        assert (delivery["attempts"], delivery["url"], delivery["job_id"]) == (0, HOOK, job["id"])
        assert SECRET.removeprefix("whsec_") not in response.text


def test_a_delivery_is_sent_again_when_asked(client: httpx2.Client):
    job = submit(client, {"url": HOOK, "events": ["job.queued"]}).json()
    base = f"/v1/jobs/{job['id']}/webhook-deliveries"
    [delivery] = client.get(base).json()["data"]
    response = client.post(f"{base}/{delivery['id']}/redeliver")
    assert response.status_code == 202
    assert (list(response.json()), response.json()["status"]) == (SHAPE, "pending")
    assert_problem(client.post(f"{base}/whd_none/redeliver"), 404, "not_found")
    assert_problem(client.post(f"/v1/jobs/job_none/webhook-deliveries/{delivery['id']}/redeliver"), 404, "not_found")
    assert_problem(client.get("/v1/jobs/job_none/webhook-deliveries"), 404, "not_found")


def test_a_job_without_a_webhook_has_no_deliveries(client: httpx2.Client):
    job = submit(client, None).json()
    assert job["request"]["webhook"] is None
    assert client.get(f"/v1/jobs/{job['id']}/webhook-deliveries").json() == {"data": []}


WRONG_URLS = [
    ({"url": "ftp://hooks.example/"}, "/webhook/url", "webhook_url"),
    ({"url": "https://user:pw@hooks.example/"}, "/webhook/url", "webhook_url"),
    ({"url": "http://169.254.169.254/latest/meta-data"}, "/webhook/url", "address_not_allowed"),
    ({"url": "http://2130706433/"}, "/webhook/url", "address_not_allowed"),
    ({"url": HOOK, "events": ["done"]}, "/webhook/events/0", "literal_error"),
    ({"url": HOOK, "events": []}, "/webhook/events", "too_short"),
    ({"url": HOOK, "secret": "x"}, "/webhook/secret", "extra_forbidden"),
]


def start_run(client: httpx2.Client, webhook: Any) -> httpx2.Response:
    rows = b'{"instruct": "Q"}\n'
    dataset = client.post("/v1/datasets", content=rows, headers={"Content-Type": "application/jsonl"}).json()
    return client.post("/v1/runs", json={"dataset_id": dataset["id"], "defaults": CRITERIA, "webhook": webhook})


def test_the_deliveries_of_a_run_are_listed_and_sent_again(client: httpx2.Client):
    run = start_run(client, {"url": HOOK}).json()
    assert run["webhook"] == {"url": HOOK, "events": ["run.finished"]}
    base = f"/v1/runs/{run['id']}/webhook-deliveries"
    assert client.get(base).json() == {"data": []}
    client.post(f"/v1/runs/{run['id']}/cancel")
    [delivery] = client.get(base).json()["data"]
    assert list(delivery) == SHAPE
    assert (delivery["type"], delivery["run_id"], delivery["job_id"]) == ("run.finished", run["id"], None)
    again = client.post(f"{base}/{delivery['id']}/redeliver")
    assert (again.status_code, again.json()["id"]) == (202, delivery["id"])
    assert_problem(client.post(f"{base}/whd_none/redeliver"), 404, "not_found")
    assert_problem(client.get("/v1/runs/run_none/webhook-deliveries"), 404, "not_found")


def test_deliveries_are_found_under_their_own_noun_only(client: httpx2.Client):
    run = start_run(client, {"url": HOOK}).json()
    client.post(f"/v1/runs/{run['id']}/cancel")
    job = submit(client, {"url": HOOK, "events": ["job.queued"]}).json()
    for owner_id, own, other in ((run["id"], "runs", "jobs"), (job["id"], "jobs", "runs")):
        [delivery] = client.get(f"/v1/{own}/{owner_id}/webhook-deliveries").json()["data"]
        wrong = f"/v1/{other}/{owner_id}/webhook-deliveries"
        assert_problem(client.get(wrong), 404, "not_found")
        assert_problem(client.post(f"{wrong}/{delivery['id']}/redeliver"), 404, "not_found")


def test_a_run_whose_webhook_cannot_be_sent_is_refused_with_its_place(client: httpx2.Client):
    for webhook, pointer, code in WRONG_URLS:
        problem = assert_problem(start_run(client, webhook), 422)
        assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(pointer, code)]
    assert client.get("/v1/runs").json()["data"] == []


def test_without_a_secret_a_run_with_a_webhook_is_refused(start_api: Callable[..., ApiServer]):
    assert_problem(start_run(start_api().client(), {"url": HOOK}), 422, "webhooks_not_configured")


# Case E14
@pytest.mark.parametrize(
    ("webhook", "pointer", "code"),
    [
        ({"url": "ftp://hooks.example/"}, "/webhook/url", "webhook_url"),
        ({"url": "https://user:pw@hooks.example/"}, "/webhook/url", "webhook_url"),
        ({"url": "https://hooks.example/" + "x" * 2000}, "/webhook/url", "string_too_long"),
        ({"url": HOOK, "events": []}, "/webhook/events", "too_short"),
        ({"url": HOOK, "events": ["finished"]}, "/webhook/events/0", "literal_error"),
        ({"url": HOOK, "secret": "x"}, "/webhook/secret", "extra_forbidden"),
        ({"events": ["done"]}, "/webhook/url", "missing"),
        ({"url": "http://127.0.0.1/"}, "/webhook/url", "address_not_allowed"),
        ({"url": "http://[fe80::1]/"}, "/webhook/url", "address_not_allowed"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "/webhook/url", "address_not_allowed"),
        ({"url": "http://2130706433/"}, "/webhook/url", "address_not_allowed"),
        ({"url": "http://0x7f000001/"}, "/webhook/url", "address_not_allowed"),
        ({"url": "http://[::1]/"}, "/webhook/url", "address_not_allowed"),
        ({"url": "http://127.0.0.1:6379/"}, "/webhook/url", "address_not_allowed"),
        ({"url": "file:///etc/passwd"}, "/webhook/url", "webhook_url"),
        ({"url": "http://localhost:8000/"}, "/webhook/url", "address_not_allowed"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place(
    client: httpx2.Client, webhook: dict[str, Any], pointer: str, code: str
):
    problem = assert_problem(submit(client, webhook), 422)
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(pointer, code)]
    assert client.get("/v1/jobs").json()["data"] == []


def test_it_says_why_an_address_is_refused(client: httpx2.Client):
    problem = assert_problem(submit(client, {"url": "http://10.1.2.3/"}), 422, "address_not_allowed")
    assert "10.1.2.3 is private" in problem["detail"]
    assert "REDRAFT_WEBHOOK_ALLOW_PRIVATE" in problem["detail"]


def test_without_a_secret_a_webhook_is_refused_also_when_only_checked(start_api: Callable[..., ApiServer]):
    client = start_api().client()
    for response in (
        submit(client, {"url": HOOK}),
        client.post("/v1/generate-answer?validate_only=true", json={**REQUEST, "webhook": {"url": HOOK}}),
    ):
        problem = assert_problem(response, 422, "webhooks_not_configured")
        assert problem["errors"][0]["pointer"] == "/webhook"
        assert "REDRAFT_WEBHOOK_SECRET" in problem["detail"]
