from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx2
import pytest

from redraft.operations.admin import keys
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.services import Services
from redraft.storage.jobs.job_filters import JobFilter
from tests.api.conftest import REQUEST, assert_problem
from tests.support.waiting import patient, wait_until


def stored_jobs(services: Services) -> list[str]:
    return [job.id for job in queries.list_jobs(services, JobFilter(limit=100))[0]]


def test_a_request_becomes_a_queued_job_with_its_place(client: httpx2.Client, services: Services):
    response = client.post("/v1/generate-answer", json={**REQUEST, "metadata": {"team": "sky"}})
    job = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == job["urls"]["self"] == f"/v1/jobs/{job['id']}"
    assert response.headers["retry-after"] == "1"
    assert response.headers["etag"] == f'"{job["version"]}"'
    assert (job["object"], job["kind"], job["status"]) == ("job", "generate_answer", "queued")
    assert job["result"] is None
    assert job["created_at"].endswith("Z")
    assert job["request"]["model"] == ["openai:writer"]
    assert job["request"]["revision"] == {"strategy": "revise", "from": "best"}
    assert "iterations" not in job
    assert stored_jobs(services) == [job["id"]]
    assert client.get(response.headers["location"]).json() == job


def test_an_answer_can_be_handed_in_for_a_verdict(client: httpx2.Client):
    response = client.post("/v1/evaluate-answer", json={**REQUEST, "answer": "Air scatters blue light."})
    assert response.status_code == 202
    assert response.json()["kind"] == "evaluate_answer"
    found = client.get(response.json()["urls"]["iterations"]).json()["data"]
    assert [each["answer"] for each in found] == ["Air scatters blue light."]


def test_validate_only_normalises_and_stores_nothing(client: httpx2.Client, services: Services):
    path = "/v1/generate-answer?validate_only=true"
    response = client.post(path, json={**REQUEST, "model": "gpt-6-luna", "evaluator_model": "gpt-6-luna"})
    assert response.status_code == 200
    estimate = response.json()
    assert estimate["request"]["model"] == ["openai:gpt-6-luna"]
    assert estimate["warnings"][0]["code"] == "evaluator_is_generator"
    assert estimate["calls_max"] >= 6
    assert_problem(client.post(path, json={**REQUEST, "iter_max": 0}), 422)
    assert stored_jobs(services) == []


# Case E15
@pytest.mark.both_databases
def test_twenty_requests_at_once_with_one_key_are_one_job(client: httpx2.Client, services: Services):
    barrier = Barrier(20)

    def post(_: int) -> httpx2.Response:
        barrier.wait()
        return client.post("/v1/generate-answer", json=REQUEST, headers={"Idempotency-Key": "one"})

    with ThreadPoolExecutor(20) as pool:
        responses = list(pool.map(post, range(20)))
    assert Counter(response.status_code for response in responses) == {202: 1, 200: 19}
    assert {response.json()["id"] for response in responses} == set(stored_jobs(services))
    assert len(stored_jobs(services)) == 1
    replays = [r for r in responses if r.headers.get("idempotent-replayed") == "true"]
    assert {response.status_code for response in replays} == {200}
    assert len(replays) == 19


# Case E15
def test_a_key_is_bound_to_its_body_and_its_route(client: httpx2.Client):
    headers = {"Idempotency-Key": "k"}
    first = client.post("/v1/generate-answer", json=REQUEST, headers=headers).json()["id"]
    other = client.post("/v1/generate-answer", json={**REQUEST, "iter_max": 2}, headers=headers)
    assert first in assert_problem(other, 422, "idempotency_key_reused")["detail"]
    judged = client.post("/v1/evaluate-answer", json={**REQUEST, "answer": "a"}, headers=headers)
    assert judged.status_code == 202
    assert judged.json()["id"] != first


# Case E15
@pytest.mark.both_databases
def test_two_callers_with_one_key_have_a_job_each(start_api, services: Services):
    client = start_api(require_auth=True).client()
    tokens = [keys.create_key(services, name)[1] for name in ("ann", "bob")]
    ids = {
        client.post(
            "/v1/generate-answer",
            json=REQUEST,
            headers={"Idempotency-Key": "k", "Authorization": f"Bearer {token}"},
        ).json()["id"]
        for token in tokens * 2
    }
    assert len(ids) == 2


def test_a_key_is_printable_and_of_bounded_length(client: httpx2.Client, services: Services):
    for key in (b"", b"x" * 256, b"schl\xfcssel", b"\xff\xfe", b"tab\there"):
        response = client.post("/v1/generate-answer", json=REQUEST, headers={b"Idempotency-Key": key})
        assert assert_problem(response, 422)["errors"][0]["pointer"] == "header/Idempotency-Key"
    assert stored_jobs(services) == []


def test_prefer_wait_answers_201_as_soon_as_the_job_has_ended(client: httpx2.Client, services: Services):
    with ThreadPoolExecutor(1) as pool:
        headers = {"Prefer": "respond-async, wait=30"}
        waiting = pool.submit(client.post, "/v1/generate-answer", json=REQUEST, headers=headers)
        [job_id] = wait_until(lambda: stored_jobs(services))
        lifecycle.cancel(services, job_id)
        response = waiting.result(timeout=patient(20))
    assert response.status_code == 201
    assert response.headers["location"] == f"/v1/jobs/{job_id}"
    assert "retry-after" not in response.headers
    assert response.json()["status"] == "canceled"


def test_prefer_wait_gives_up_with_202(client: httpx2.Client):
    response = client.post("/v1/generate-answer", json=REQUEST, headers={"Prefer": "wait=1"})
    assert (response.status_code, response.headers["preference-applied"]) == (202, "wait=1")


def test_a_preference_that_makes_no_sense_is_ignored(client: httpx2.Client):
    for prefer in ("wait=", "wait=abc", "wait=-5", "handling=lenient", ","):
        response = client.post("/v1/generate-answer", json=REQUEST, headers={"Prefer": prefer})
        assert response.status_code == 202
        assert "preference-applied" not in response.headers


def test_a_check_in_words_is_refused_at_its_criterion(client: httpx2.Client, services: Services):
    rubric = [{"id": "formula", "text": "Says that E = mc^2."}, {"id": "short", "text": "max_wrds=60"}]
    path = "/v1/generate-answer"
    problem = assert_problem(client.post(path, json={**REQUEST, "rubric": rubric}), 422)
    [error] = problem["errors"]
    assert (error["pointer"], error["code"]) == ("/rubric/1/text", "check_misread")
    assert "did you mean max_words=60?" in error["detail"]
    assert_problem(client.post(path, json={**REQUEST, "eval_crit": "max_wrds=60"}), 422)
    assert stored_jobs(services) == []
    assert client.post(path, json={**REQUEST, "rubric": rubric[:1]}).status_code == 202
