"""One person's machine: a data folder with SQLite, a scripted provider, a broker; a real worker where needed."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic import SecretStr

from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.jobs import submit
from redraft.operations.services import Services
from redraft.runtime import build_runtime
from redraft.settings import Settings
from tests.model_server.server import ModelServer
from tests.support.databases.sqlite import create_sqlite
from tests.support.processes import GivenSettings, WorkerProcess
from tests.support.shells import Shell, drain
from tests.support.valkey import ValkeyServer

Build = Callable[..., Services]


@pytest.fixture(autouse=True)
def _as_if_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No `.env` of the developer; what a command does to the logs ends with the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    before = structlog.get_config() if structlog.is_configured() else None
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    if before:
        structlog.configure(**before)


def settings_for(folder: Path, valkey: ValkeyServer, model_server: ModelServer, **changes: Any) -> Settings:
    values: dict[str, Any] = {
        "data_dir": folder,
        "broker_url": valkey.url,
        "model": "openai:writer",
        "evaluator_model": "openai:judge",
        "openai_api_key": SecretStr("sk-test-0123456789abcdef"),
        "openai_base_url": model_server.openai_url,
        "worker_concurrency": 4,
        "heartbeat_s": 0.5,
        "sweep_s": 0.2,
        "retry_wait_s": 0.1,
        "shutdown_grace_s": 2.0,
    }
    return GivenSettings(**{**values, **changes})


def open_services(settings: Settings) -> Services:
    settings.data_dir.mkdir(exist_ok=True)
    create_sqlite(settings.data_dir / "redraft.db")
    return build_runtime(settings)


@pytest.fixture
def home(tmp_path: Path, valkey: ValkeyServer, model_server: ModelServer) -> Iterator[Services]:
    """A data folder of its own, without a worker."""
    services = open_services(settings_for(tmp_path / "data", valkey, model_server))
    yield services
    services.close()


@pytest.fixture
def shell(home: Services) -> Shell:
    return Shell.of(home)


@pytest.fixture
def add_job(home: Services) -> Callable[..., str]:
    """A job in that data folder; `is_done` runs it to its end."""

    def add(instruct: str = "Say hello.", *, is_done: bool = False, **fields: Any) -> str:
        request = GenerateAnswer(instruct=instruct, eval_crit="Friendly.", **fields)
        job_id = submit.submit(home, request).job.id
        if is_done:
            drain(home)
        return job_id

    return add


@pytest.fixture(scope="session")
def staffed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Services, ModelServer]]:
    """A data folder with a worker process and a provider, shared by the tests of one pytest process.

    The broker is its own: this worker outlives tests, and would take the messages of theirs.
    """
    valkey = ValkeyServer().start()
    with ModelServer() as server:
        # Beside all other tests of its process: it looks seldom
        changes = {"sweep_s": 1.0, "heartbeat_s": 2.0}
        services = open_services(settings_for(tmp_path_factory.mktemp("staffed"), valkey, server, **changes))
        worker = WorkerProcess(services).wait_ready()
        yield services, server
        server.stop()  # ends the calls that tests have left hanging
        worker.remove()
        services.close()
    valkey.remove()


@pytest.fixture
def office(staffed: tuple[Services, ModelServer]) -> Shell:
    """A shell beside the worker."""
    return Shell.of(staffed[0])


@pytest.fixture
def provider(staffed: tuple[Services, ModelServer]) -> ModelServer:
    """The provider of that worker, with no script of an earlier test."""
    staffed[1].script()
    return staffed[1]
