"""Real parts for all tests: SQLite and PostgreSQL, Valkey, worker processes, a scripted model server."""

import gc
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Generator, Iterator
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog
from _pytest.assertion import rewrite
from pydantic import SecretStr

from redraft.operations.services import Services
from redraft.runtime import build_runtime
from redraft.settings import Settings
from tests.model_server.server import ModelServer
from tests.support.databases.postgres import PostgresServer
from tests.support.databases.sqlite import create_sqlite
from tests.support.forks import CERTIFICATES, share_server
from tests.support.processes import GivenSettings, WorkerProcess
from tests.support.valkey import ValkeyServer

# A property holds or not; how long an example takes says something of the machine.
# Each run draws other examples; `make chaos` draws many at once.
for _profile, _examples in (("any machine", 25), ("thorough", 200)):
    hypothesis.settings.register_profile(
        _profile, max_examples=_examples, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
hypothesis.settings.load_profile("any machine")

# The default draws each traceback with the values of all variables: seconds of CPU where a test makes rows fail.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

# Rooms of tests that start processes of their own, and the longest test of a browser.
_SLOW = frozenset(
    {"chaos", "deploy", "embedded", "journeys", "local", "mcp", "packages", "rules", "simulation", "test_every_page.py"}
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Start one server of forks, and rewrite the assertions of all tests once, on two cores.

    Otherwise each of the processes of xdist does both for itself. A file that fails here is told of by whoever imports
    it.
    """
    share_server()
    files = [*Path(__file__).parent.rglob("test_*.py"), *Path(__file__).parent.rglob("conftest.py")]
    forked = multiprocessing.get_context("fork")
    halves = [forked.Process(target=_rewrite, args=(config, files[start::2])) for start in range(2)]
    for half in halves:
        half.start()
    for half in halves:
        half.join()


def _rewrite(config: pytest.Config, files: list[Path]) -> None:
    for file in files:
        compiled = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
        if sys.dont_write_bytecode or rewrite._read_pyc(file, compiled):
            continue
        rewrite.try_makedirs(compiled.parent)
        digest, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, compiled)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Nothing of what is collected becomes garbage, and the collector would go through all of it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """SQLite is enough, but for the tests of what the two databases do differently; the long form runs all on both."""
    for item in items:
        if _is_on_postgresql(item) and item.get_closest_marker("both_databases") is None:
            item.add_marker(pytest.mark.long)
    yield
    if worker := getattr(config, "workerinput", None):
        items[:] = _dealt(items, worker["workercount"])


def _dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Begin the part of each worker with tests of whole processes: at the end, one worker would run them alone."""
    modules = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    slow = [tests for tests in modules if not _SLOW.isdisjoint(tests[0].path.parts)]
    others = chain.from_iterable(tests for tests in modules if _SLOW.isdisjoint(tests[0].path.parts))
    parts: list[list[pytest.Item]] = []
    for number in range(workers):
        first = list(chain.from_iterable(slow[number::workers]))
        parts.append([*first, *islice(others, max(0, (len(items) + number) // workers - len(first)))])
    return [*chain.from_iterable(parts), *others]


def _is_on_postgresql(item: pytest.Item) -> bool:
    """Whether the fixture chose PostgreSQL, not the test itself."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    chosen = any("database_url" in mark.args[0] for mark in item.iter_markers("parametrize"))
    return not chosen and item.callspec.params.get("database_url") == "postgresql"


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: no collection need go through them again and again."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> None:
    for name in list(os.environ):
        if name.startswith(("REDRAFT_", "OPENAI_", "ANTHROPIC_")) or name in CERTIFICATES:
            del os.environ[name]


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer().start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def make_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Make an empty database with the schema, of the kind."""
    made: list[str] = []

    def make(kind: str) -> str:
        if kind == "sqlite":
            return create_sqlite(tmp_path / "redraft.db")
        server: PostgresServer = request.getfixturevalue("postgres")
        made.append(server.create_database())
        return server.url_of(made[-1])

    yield make
    for name in made:
        request.getfixturevalue("postgres").drop_database(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, make_database_url: Callable[[str], str]) -> str:
    """An empty database with the schema, on each kind in turn."""
    return make_database_url(request.param)


@pytest.fixture
def make_settings(
    database_url: str, valkey: ValkeyServer, model_server: ModelServer, tmp_path: Path
) -> Callable[..., Settings]:
    """Settings on the test's own database, broker and model server; short timers."""

    def make(**changes: Any) -> Settings:
        values: dict[str, Any] = {
            "data_dir": tmp_path,
            "database_url": database_url,
            "broker_url": valkey.url,
            "model": "openai:writer",
            "evaluator_model": "openai:judge",
            "openai_api_key": SecretStr("sk-test"),
            "openai_base_url": model_server.openai_url,
            "anthropic_api_key": SecretStr("sk-ant-test"),
            "anthropic_base_url": model_server.anthropic_url,
            "worker_concurrency": 8,
            "lease_s": 3.0,
            "heartbeat_s": 0.5,
            "sweep_s": 0.2,
            "ring_again_s": 0.4,
            "retry_wait_s": 0.1,
            "shutdown_grace_s": 5.0,
        }
        return GivenSettings(**{**values, **changes})

    return make


@pytest.fixture
def make_services(make_settings: Callable[..., Settings]) -> Iterator[Callable[..., Services]]:
    made: list[Services] = []

    def make(**changes: Any) -> Services:
        made.append(build_runtime(make_settings(**changes)))
        return made[-1]

    yield make
    for services in made:
        services.close()


@pytest.fixture
def services(make_services: Callable[..., Services]) -> Services:
    return make_services()


@pytest.fixture
def start_worker() -> Iterator[Callable[..., WorkerProcess]]:
    """Start worker processes; `wait_ready` is the caller's to call when it matters."""
    started: list[WorkerProcess] = []

    def start(services: Services, **environment: str) -> WorkerProcess:
        started.append(WorkerProcess(services, **environment))
        return started[-1]

    yield start
    for worker in started:
        worker.remove()


@pytest.fixture(autouse=True)
def _restored_logs() -> Iterator[None]:
    """Restore what a command in the process of the tests changes: it logs to an output that the test has closed."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
