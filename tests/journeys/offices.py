"""A worker and an API that tests share, one after the other: starting a worker costs more than most of them."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import SecretStr

from api.app import create_app
from redraft.runtime import build_runtime
from redraft.settings import Settings
from tests.journeys.desks import Desk
from tests.model_server.server import ModelServer
from tests.support.api_server import ApiServer
from tests.support.databases.postgres import PostgresServer
from tests.support.databases.sqlite import create_sqlite
from tests.support.processes import WorkerProcess
from tests.support.valkey import ValkeyServer

TIMERS: dict[str, Any] = {
    "worker_concurrency": 8,
    "heartbeat_s": 0.5,
    "sweep_s": 0.2,
    "retry_wait_s": 0.1,
    "shutdown_grace_s": 5.0,
}


@dataclass(frozen=True)
class Office:
    """All parts of a deployment, ready for the next test."""

    desk: Desk
    model_server: ModelServer
    valkey: ValkeyServer

    def tidy(self) -> Self:
        """Forget what an earlier test has scripted and asked."""
        self.model_server.script()
        self.model_server.log.clear()
        return self


class Offices:
    """A context manager. An office is opened when it is first asked for; no test may end its worker."""

    def __init__(self) -> None:
        self._open: dict[str, Office] = {}
        self._parts = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def at(self, kind: str, postgres: Callable[[], PostgresServer]) -> Office:
        if kind not in self._open:
            self._open[kind] = self._start(kind, postgres)
        return self._open[kind].tidy()

    def _start(self, kind: str, postgres: Callable[[], PostgresServer]) -> Office:
        parts = self._parts
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="office-")))
        # Its own: a worker that outlives tests would take the messages of others
        valkey = ValkeyServer().start()
        parts.callback(valkey.remove)
        model_server = parts.enter_context(ModelServer())
        url = create_sqlite(folder / "redraft.db") if kind == "sqlite" else self._postgresql(postgres())
        settings = _settings(folder, url, valkey, model_server)
        services = build_runtime(settings)
        parts.callback(services.close)
        worker = WorkerProcess(services)
        parts.callback(worker.remove)
        server = parts.enter_context(ApiServer(create_app(settings)))
        worker.wait_ready()
        return Office(Desk(server.client()), model_server, valkey)

    def _postgresql(self, server: PostgresServer) -> str:
        name = server.create_database()
        self._parts.callback(server.drop_database, name)
        return server.url_of(name)


def _settings(folder: Path, url: str, valkey: ValkeyServer, model_server: ModelServer) -> Settings:
    values: dict[str, Any] = {
        "data_dir": folder,
        "database_url": url,
        "broker_url": valkey.url,
        "model": "openai:writer",
        "evaluator_model": "openai:judge",
        "openai_api_key": SecretStr("sk-test"),
        "openai_base_url": model_server.openai_url,
        "anthropic_api_key": SecretStr("sk-ant-test"),
        "anthropic_base_url": model_server.anthropic_url,
    }
    return Settings(_env_file=None, **{**values, **TIMERS})  # pyright: ignore[reportCallIssue]
