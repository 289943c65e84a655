from collections.abc import Callable

import httpx2
import pytest

from redraft.operations.services import Services
from tests.api.conftest import assert_problem
from tests.model_server import ModelServer
from tests.support.shells import drain

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_two_iterations_are_compared_word_by_word(
    client: httpx2.Client, services: Services, submit_job: Callable[..., str], model_server: ModelServer
):
    model_server.script(generate=["The sky is blue.", "The sky looks blue."], evaluate=[0.4, 0.9])
    job_id = submit_job()
    drain(services)
    response = client.get(f"/v1/jobs/{job_id}/diff", params={"from": 1, "to": 2})
    assert response.status_code == 200
    assert response.json() == {
        "from_iteration": 1,
        "to_iteration": 2,
        "is_cut": False,
        "parts": [
            {"kind": "equal", "text": "The sky "},
            {"kind": "delete", "text": "is "},
            {"kind": "insert", "text": "looks "},
            {"kind": "equal", "text": "blue."},
        ],
    }


def test_what_is_not_there_is_not_compared(client: httpx2.Client, submit_job: Callable[..., str]):
    job_id = submit_job()
    assert_problem(client.get(f"/v1/jobs/{job_id}/diff?from=1&to=2"), 404, "not_found")
    assert_problem(client.get("/v1/jobs/job_none/diff?from=1&to=2"), 404, "not_found")
    assert_problem(client.get(f"/v1/jobs/{job_id}/diff?from=0"), 422)
