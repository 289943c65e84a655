"""`POST /v1/refine-question`: a draft that can be sent as it is, and what happens when there is none."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from api.dependencies import DRAFTS_AT_ONCE
from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.jobs import queries
from redraft.operations.services import Services
from redraft.storage.jobs.job_filters import JobFilter
from tests.api.conftest import assert_problem
from tests.model_server.scripts import DRAFT, Reply
from tests.model_server.server import ModelServer
from tests.support.api_server import ApiServer
from tests.support.waiting import wait_until

PATH = "/v1/refine-question"
QUESTION = {"question": "capital of switzerland?"}


def test_the_answer_is_a_request_with_reasons_and_usage(client: httpx2.Client, services: Services):
    response = client.post(PATH, json=QUESTION)
    assert response.status_code == 200
    draft = response.json()
    assert list(draft) == ["instruct", "resp_format", "eval_crit", "rubric", "reasoning", "usage"]
    assert [each["id"] for each in draft["rubric"]] == ["names-a-city", "is-short"]
    assert draft["usage"]["calls"] == 1
    assert queries.list_jobs(services, JobFilter())[0] == []
    request = {name: draft[name] for name in ("instruct", "resp_format", "eval_crit", "rubric")}
    sent = client.post("/v1/generate-answer", json=request)
    assert sent.status_code == 202
    assert {name: sent.json()["request"][name] for name in request} == request


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/question", "missing"),
        ({"question": " "}, "/question", "blank"),
        ({"question": 7}, "/question", "string_type"),
        ({**QUESTION, "models": "x"}, "/models", "extra_forbidden"),
        ({**QUESTION, "model": "nonsense"}, "/model", "unknown_model"),
        ({**QUESTION, "model": "local:other"}, "/model", "unknown_model"),
    ],
)
def test_what_cannot_be_asked_is_refused(client: httpx2.Client, body: dict[str, Any], pointer: str, code: str):
    problem = assert_problem(client.post(PATH, json=body), 422)
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(pointer, code)]


@pytest.mark.parametrize(
    ("reply", "status", "code", "is_retryable"),
    [
        (Reply(status=401, raw={"error": {"message": "Incorrect API key provided"}}), 502, "provider_auth", False),
        (Reply(status=404, raw={"error": {"code": "model_not_found", "message": "No"}}), 502, "unknown_model", False),
        (Reply(text="no json"), 502, "draft_invalid", True),
        (Reply(status=500, raw={"error": {"message": "Oops"}}), 503, "provider_unavailable", True),
        (Reply(fault="reset"), 503, "provider_unavailable", True),
    ],
)
def test_a_provider_that_fails_is_a_problem(
    client: httpx2.Client, model_server: ModelServer, reply: Reply, status: int, code: str, *, is_retryable: bool
):
    model_server.script(draft=[reply])
    response = client.post(PATH, json=QUESTION)
    problem = assert_problem(response, status, code)
    assert problem["retryable"] is is_retryable
    assert ("retry-after" in response.headers) is (status == 503)


def test_a_provider_says_itself_when_to_come_back(client: httpx2.Client, model_server: ModelServer):
    raw = {"error": {"message": "Slow down"}}
    model_server.script(draft=[Reply(status=429, raw=raw, headers={"retry-after": "17"})])
    response = client.post(PATH, json=QUESTION)
    assert_problem(response, 503, "provider_rate_limited")
    assert response.headers["retry-after"] == "17"


def test_while_models_write_drafts_others_are_served(client: httpx2.Client, model_server: ModelServer):
    model_server.script(draft=[Reply(verdict=DRAFT, is_held=True)])
    with ThreadPoolExecutor(DRAFTS_AT_ONCE) as pool:
        waiting = [pool.submit(client.post, PATH, json=QUESTION) for _ in range(DRAFTS_AT_ONCE)]
        wait_until(lambda: len(model_server.requests("draft")) == DRAFTS_AT_ONCE, within_s=20, what="all drafts begun")
        assert client.get("/v1/jobs").status_code == 200
        refused = client.post(PATH, json=QUESTION)
        model_server.release()
        assert [each.result().status_code for each in waiting] == [200] * DRAFTS_AT_ONCE
    assert_problem(refused, 503, "too_many_drafts")
    assert refused.headers["retry-after"]


def test_a_key_must_be_allowed_to_spend(start_api: Callable[..., ApiServer], services: Services):
    client = start_api(require_auth=True).client()
    assert_problem(client.post(PATH, json=QUESTION), 401)
    for scope, status in ((Scope.READ, 403), (Scope.WRITE, 200)):
        token = keys.create_key(services, scope.value, [scope])[1]
        response = client.post(PATH, json=QUESTION, headers={"Authorization": f"Bearer {token}"})
        assert response.status_code == status


def test_a_body_has_a_limit(start_api: Callable[..., ApiServer]):
    client = start_api(max_body_bytes=2000).client()
    assert_problem(client.post(PATH, json={"question": "x" * 3000}), 413)


def test_nothing_of_the_reply_is_told_when_it_is_of_no_use(client: httpx2.Client, model_server: ModelServer):
    hostile = {**DRAFT, "rubric": [{"id": "<script>", "text": "<script>", "kind": "<script>"}]}
    model_server.script(draft=[hostile])
    response = client.post(PATH, json=QUESTION)
    assert_problem(response, 502, "draft_invalid")
    assert "<script>" not in json.dumps(response.json())
