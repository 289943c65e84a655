"""Every answer is one that the API's description knows: status, content type, and body."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from jsonschema import Draft202012Validator

from api.app import create_app
from api.intervals import Intervals
from redraft.domain.admin.scopes import Scope
from redraft.domain.bulk.run_requests import CreateRun
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.admin import keys
from redraft.operations.bulk import datasets, runs
from redraft.operations.jobs import lifecycle, submit
from redraft.operations.services import Services
from redraft.settings import Settings
from redraft.storage.engine import schema
from tests.api.description.generating import Operation, Request, Schema, Values, operations
from tests.model_server.server import ModelServer
from tests.support.api_server import ApiServer
from tests.support.valkey import ValkeyServer

EXAMPLES_EACH = 6
# Without a worker it is right to say that it is not ready.
MAY_BE_UNAVAILABLE = "/readyz"
# What the description leaves open, and a job cannot do without.
KNOWN: dict[str, list[Any]] = {
    "model": ["openai:writer", ["openai:a", "openai:b"]],
    "evaluator_model": ["openai:judge", None],
    "answer_schema": [None, {"type": "object", "properties": {"a": {"type": "string"}}}],
    "eval_crit": ["c"],
    "max_cost_usd": [None],
    "webhook": [None],
    "after": ["1"],
    "defaults": [{}, {"eval_crit": "c"}],
    "overrides": [{}],
}


@pytest.fixture(scope="module")
def provider() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(scope="module")
def server(
    valkey: ValkeyServer, provider: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    folder: Path = tmp_path_factory.mktemp("conformance")
    chosen = Settings(
        _env_file=None,  # pyright: ignore[reportCallIssue]
        data_dir=folder,
        database_url=f"sqlite:///{folder / 'redraft.db'}",
        broker_url=valkey.url,
        model="openai:writer",
        openai_api_key="sk-test",  # pyright: ignore[reportArgumentType]
        openai_base_url=provider.openai_url,
    )
    with ApiServer(create_app(chosen, intervals=Intervals(0.05, 0.05, 0.05, 0.1))) as running:
        services = running.app.state.context.services
        schema.upgrade(services.database)
        yield running


@pytest.fixture(scope="module")
def known(server: ApiServer) -> dict[str, list[str]]:
    """Ids that exist: of a live job and of one that has ended, of a dataset and a run."""
    services = server.app.state.context.services
    dataset, _ = datasets.import_dataset(services, BytesIO(b'{"instruct": "i"}\nno row\n'), "rows.jsonl")
    run, _ = runs.create_run(services, CreateRun(dataset_id=dataset.id, defaults={"eval_crit": "c"}))
    ids = [submit.submit(services, GenerateAnswer(instruct="i", eval_crit="c")).job.id for _ in range(2)]
    lifecycle.cancel(services, ids[0])
    return {"job_id": ids, "dataset_id": [dataset.id], "run_id": [run.id]}


def check(document: Schema, operation: Operation, response: httpx2.Response) -> None:
    body = response.content
    told = (operation.method, response.request.url, response.status_code, body[:500])
    declared = operation.described["responses"].get(str(response.status_code))
    assert declared is not None, ("undeclared status", told)
    assert response.status_code < 500 or operation.path == MAY_BE_UNAVAILABLE, ("server error", told)
    media_type = response.headers.get("content-type", "").partition(";")[0]
    content: dict[str, Any] = declared.get("content", {})
    assert (media_type in content) if content else not body, ("undeclared content type", told)
    if media_type.endswith(("/json", "+json")):
        wanted = {**content[media_type]["schema"], "components": document["components"]}
        errors = [error.message for error in Draft202012Validator(wanted).iter_errors(response.json())]
        assert errors == [], told


def json_request(path: str, body: Any) -> Request:
    return Request(path, {"Content-Type": "application/json"}, json.dumps(body).encode())


class Exploring:
    """Asks one operation again and again, and checks every answer."""

    def __init__(self, server: ApiServer, known: dict[str, list[str]]) -> None:
        self._document: Schema = server.app.openapi()
        self._client = server.client()
        sound, spoilt = (Values(self._document, {**KNOWN, **known}, is_spoilt=each) for each in (False, True))
        self._request = lambda operation: sound.request(operation) | spoilt.request(operation)
        # Requests that the examples of the description cannot make: they need ids that exist, or are no JSON.
        run = {"dataset_id": known["dataset_id"][0], "defaults": {"eval_crit": "c"}}
        rows = Request("/v1/datasets?name=rows.jsonl", {"Content-Type": "application/jsonl"}, b'{"instruct": "i"}')
        self._valid = {"POST /v1/runs": json_request("/v1/runs", run), "POST /v1/datasets": rows}
        self.met: Counter[tuple[str, int]] = Counter()

    def explore_all(self) -> None:
        for operation in operations(self._document):
            for example in operation.examples:
                self._ask(operation, json_request(operation.path, example))
            if valid := self._valid.get(f"{operation.method} {operation.path}"):
                self._ask(operation, valid)
            self._explore(operation)

    def _ask(self, operation: Operation, request: Request) -> None:
        headers = {name: value.encode() for name, value in request.headers.items()}
        response = self._client.request(operation.method, request.target, content=request.content, headers=headers)
        check(self._document, operation, response)
        self.met[f"{operation.method} {operation.path}", response.status_code] += 1

    def _explore(self, operation: Operation) -> None:
        @seed(20261129)
        @settings(
            max_examples=EXAMPLES_EACH,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(self._request(operation))
        def explore(request: Request) -> None:
            self._ask(operation, request)

        explore()


def test_every_answer_is_described(server: ApiServer, known: dict[str, list[str]]):
    exploring = Exploring(server, known)
    exploring.explore_all()
    reached = {name for name, status in exploring.met if status < 400}
    refused = {status for _, status in exploring.met if status >= 400}
    assert {400, 404, 409, 422} <= refused
    assert {"POST /v1/generate-answer", "POST /v1/evaluate-answer", "POST /v1/jobs/{job_id}/continue"} <= reached
    assert "POST /v1/refine-question" in reached
    assert {"POST /v1/datasets", "POST /v1/runs", "GET /v1/runs/{run_id}/report"} <= reached
    assert len(reached) >= 24, reached


def test_refusals_at_the_gate_are_described_too(start_api: Callable[..., ApiServer], services: Services):
    server = start_api(require_auth=True, requests_per_minute=30)
    document, client = server.app.openapi(), server.client()
    tokens = {scope: keys.create_key(services, scope.value, [scope])[1] for scope in Scope}
    met: Counter[int] = Counter()
    for operation in operations(document):
        path = re.sub(r"\{\w+\}", "1", operation.path)
        for token in (None, "rd_wrong", *tokens.values()):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            response = client.request(operation.method, path, headers=headers)
            check(document, operation, response)
            met[response.status_code] += 1
    while not met[429]:
        response = client.get("/v1/profiles", headers={"Authorization": f"Bearer {tokens[Scope.READ]}"})
        met[response.status_code] += 1
    [profiles] = [each for each in operations(document) if each.path == "/v1/profiles"]
    check(document, profiles, response)
    assert {401, 403, 404, 429} <= met.keys()
