from collections.abc import Callable

import httpx2

from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from tests.api.conftest import REQUEST, assert_problem


# Case D07
def test_cancel_ends_a_job_once(client: httpx2.Client, submit_job: Callable[..., str]):
    path = f"/v1/jobs/{submit_job()}"
    first, second = client.post(f"{path}/cancel"), client.post(f"{path}/cancel")
    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json() == second.json() == client.get(path).json()
    assert (first.json()["status"], first.json()["stop_reason"]) == ("canceled", "canceled")


def test_continue_takes_a_job_up_again(client: httpx2.Client, submit_job: Callable[..., str]):
    path = f"/v1/jobs/{submit_job()}"
    assert_problem(client.post(f"{path}/continue", json={}), 409, "job_not_terminal")
    client.post(f"{path}/cancel")
    response = client.post(f"{path}/continue", json={"iter_max": 2, "guidance": "Shorter."})
    assert response.status_code == 202
    assert response.headers["location"] == path
    assert response.json()["status"] == "queued"
    assert response.json()["continuations"] == 1
    client.post(f"{path}/cancel")
    assert client.post(f"{path}/continue").status_code == 202


def test_continue_checks_what_it_is_given(client: httpx2.Client, services: Services, submit_job):
    job_id = submit_job()
    lifecycle.cancel(services, job_id)
    path = f"/v1/jobs/{job_id}/continue"
    for body, pointer in [
        ({"iter_max": 0}, "/iter_max"),
        ({"guidance": "\x00"}, "/guidance"),
        ({"model": "nobody:knows"}, "/model"),
        ({"instruct": "another"}, "/instruct"),
    ]:
        problem = assert_problem(client.post(path, json=body), 422)
        assert pointer in {error["pointer"] for error in problem["errors"]}
    assert client.get(f"/v1/jobs/{job_id}").json()["status"] == "canceled"


def test_a_verdict_on_a_given_answer_cannot_be_continued(client: httpx2.Client):
    path = client.post("/v1/evaluate-answer", json={**REQUEST, "answer": "a"}).headers["location"]
    client.post(f"{path}/cancel")
    assert_problem(client.post(f"{path}/continue", json={}), 409)


def test_delete_takes_everything_along_once_a_job_has_ended(client: httpx2.Client, submit_job: Callable[..., str]):
    path = f"/v1/jobs/{submit_job()}"
    assert_problem(client.delete(path), 409, "job_not_terminal")
    client.post(f"{path}/cancel")
    response = client.delete(path)
    assert (response.status_code, response.content) == (204, b"")
    for gone in ("", "/events", "/iterations", "/calls"):
        assert_problem(client.get(path + gone), 404)
    assert_problem(client.delete(path), 404)
