"""All parts of a deployment, real ones, on which things are broken: API, workers, database, broker, provider."""

import contextlib
import json
import random
import shutil
import signal
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import httpx2
from pydantic import SecretStr

from redraft.errors import Unavailable
from redraft.operations.admin.readiness import alive_workers
from redraft.operations.services import Services
from redraft.runtime import build_runtime
from redraft.settings import Settings
from tests.chaos.members import Keeper, Member
from tests.chaos.storms.clocks import WrongClock, can_be_wrong
from tests.chaos.storms.databases import CrashingPostgres
from tests.model_server.server import ModelServer
from tests.support.databases.sqlite import create_sqlite
from tests.support.processes import GivenSettings, environment_of
from tests.support.valkey import ValkeyServer
from tests.support.waiting import patient, wait_until

Kind = Literal["postgresql", "sqlite"]
PRICES = {"openai:writer": {"input": 1.0, "output": 4.0}, "openai:judge": {"input": 2.0, "output": 8.0}}
PRICES["openai:other"] = PRICES["openai:judge"]
TIMERS: dict[str, Any] = {
    "worker_concurrency": 8,
    "lease_s": 3.0,
    "heartbeat_s": 0.5,
    "sweep_s": 0.3,
    "ring_again_s": 0.5,
    "retry_wait_s": 0.1,
    "retry_wait_max_s": 1.0,
    "circuit_wait_s": 0.5,
    "call_timeout_s": 6.0,
    "shutdown_grace_s": 4.0,
    "step_attempts_max": 12,
}


class Stage:
    """A context manager. `services` are the auditor's own, beside the API and the workers that are started on it."""

    def __init__(self, kind: Kind, *, seed: int = 0, mutant: str | None = None, **changes: Any) -> None:
        self.kind: Kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        self.valkey = ValkeyServer()
        self.model_server = ModelServer()
        self.postgres: CrashingPostgres | None = None
        self.clock: WrongClock | None = None
        self.api: Member | None = None
        self.workers: list[Member] = []
        self.port = _free_port()
        self._seed = seed
        self._mutation = [f"mutant={mutant}"] if mutant else []
        self._changes = changes
        self._parts = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as parts:
            parts.callback(shutil.rmtree, self.folder, ignore_errors=True)
            parts.callback(self.valkey.remove)
            self.valkey.start()
            parts.enter_context(self.model_server)
            self.settings = self._settings(self._open_database(parts))
            self.services: Services = build_runtime(self.settings)
            parts.callback(self.services.close)
            if can_be_wrong():
                self.clock = WrongClock(self.folder)
            self._parts = parts.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()

    def _open_database(self, parts: contextlib.ExitStack) -> str:
        if self.kind == "sqlite":
            return create_sqlite(self.sqlite_file)
        self.postgres = CrashingPostgres()
        parts.callback(self.postgres.stop)
        return self.postgres.url_of(self.postgres.create_database())

    @property
    def sqlite_file(self) -> Path:
        return self.folder / "redraft.db"

    def _settings(self, database_url: str) -> Settings:
        values = {
            "data_dir": self.folder,
            "database_url": database_url,
            "broker_url": self.valkey.url,
            "model": "openai:writer",
            "evaluator_model": "openai:judge",
            "openai_api_key": SecretStr("sk-test"),
            "openai_base_url": self.model_server.openai_url,
        }
        return GivenSettings(**{**values, **TIMERS, **self._changes})

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes; coverage is not measured in them: what they run others run too, and it slows them down."""
        usual = {name: value for name, value in environment_of(self.settings).items() if "COVERAGE" not in name}
        return {**usual, "REDRAFT_PRICES": json.dumps(PRICES)}

    def start_api(self, *points: str) -> Member:
        self.api = Member(
            "api", "tests.chaos.api", [f"port={self.port}", *self._mutation], self.environment, first=points
        )
        self._parts.callback(self.api.remove)
        return self.api

    def start_worker(self, *points: str) -> Member:
        """One more; its fail points hold for its first process only."""
        number = len(self.workers) + 1
        arguments = [f"seed={self._seed + number}", *self._mutation]
        worker = Member(f"worker-{number}", "tests.chaos.worker", arguments, self.environment, first=points)
        self.workers.append(worker)
        self._parts.callback(worker.remove)
        return worker

    def keep(self) -> None:
        """Start again whoever ends, until the stage is struck; call it when all have been started."""
        self._parts.callback(Keeper(self.members).stop)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def members(self) -> Sequence[Member]:
        return [*([self.api] if self.api else []), *self.workers]

    def wait_ready(self) -> Self:
        wait_until(self.is_up, within_s=30, every_s=0.1, what="the stage")
        return self

    def is_up(self, *, but: int = 0) -> bool:
        """Whether all workers but so many are heard of, and the API answers."""
        try:
            has_workers = alive_workers(self.services) >= len(self.workers) - but
        except Unavailable:
            return False
        return has_workers and (self.api is None or self.api_answers())

    def api_answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/livez", timeout=patient(1)).status_code == 200
        except httpx2.TransportError:
            return False

    def start_broker(self, *, without_data: bool = False) -> None:
        if without_data:
            shutil.rmtree(self.valkey.folder / "appendonlydir", ignore_errors=True)
        self.valkey.start()

    def calm(self) -> None:
        """Mend what is still broken: no process is stopped, and each clock is right."""
        for member in self.members:
            member.signal(signal.SIGCONT)
        if self.clock:
            self.clock.jump(0)


def _free_port() -> int:
    """Return a port below those of outgoing connections, which could take it before the API listens on it."""
    for port in random.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("None of 100 ports is free.")
