"""The real app on a real socket, on each database in turn."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from api.app import create_app
from api.authentication import FAILURES
from api.intervals import Intervals
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.logs import configure_logs
from redraft.operations.jobs import submit
from redraft.operations.services import Services
from redraft.settings import Settings
from tests.support.api_server import ApiServer
from tests.support.valkey import ValkeyServer

REQUEST = {"instruct": "Why is the sky blue?", "eval_crit": "Names scattering."}


@pytest.fixture(scope="session", autouse=True)
def _plain_logs() -> Iterator[None]:
    configure_logs("INFO", "json")
    yield
    # Its stream is pytest's, and some libraries still log when the process ends.
    logging.getLogger().handlers.clear()


@pytest.fixture(autouse=True)
def _no_failures_before(valkey: ValkeyServer) -> None:
    """All tests come from one address."""
    with valkey.client() as client:
        for key in client.scan_iter(f"redraft:rate:{FAILURES.name}:*"):
            client.delete(key)


@pytest.fixture
def start_api(make_settings: Callable[..., Settings]) -> Iterator[Callable[..., ApiServer]]:
    """Start a server; keywords are settings, `intervals` and `build` go to the app."""
    started: list[ApiServer] = []

    def start(*, intervals: Intervals | None = None, build: Any = None, **changes: Any) -> ApiServer:
        options = {"build": build} if build else {}
        app = create_app(make_settings(**changes), intervals=intervals, **options)
        started.append(ApiServer(app).start())
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def api(start_api: Callable[..., ApiServer]) -> ApiServer:
    return start_api()


@pytest.fixture
def client(api: ApiServer) -> httpx2.Client:
    return api.client()


@pytest.fixture
def submit_job(services: Services) -> Callable[..., str]:
    """Store a job without HTTP; returns its id."""

    def store(**fields: Any) -> str:
        return submit.submit(services, GenerateAnswer.model_validate({**REQUEST, **fields})).job.id

    return store


def assert_problem(response: httpx2.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """The response is a whole problem document; returns it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert list(problem)[:9] == [
        "type", "title", "status", "code", "detail", "instance", "request_id", "retryable", "errors",
    ]  # fmt: skip
    assert problem["status"] == status
    assert problem["request_id"] == response.headers["x-request-id"]
    assert problem["type"] == f"urn:redraft:error:{problem['code']}"
    if code is not None:
        assert problem["code"] == code, problem
    return problem
