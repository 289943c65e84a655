"""The servers that the contenders use, each in its own processes: model server, PostgreSQL, Valkey."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from pydantic import SecretStr

from redraft.settings import Settings
from tests.support.databases.postgres import PostgresServer
from tests.support.valkey import ValkeyServer


@contextmanager
def model_server(latency_s: float) -> Iterator[str]:
    """Run the scripted model server with a fixed latency, and yield its OpenAI base URL."""
    command = [sys.executable, "-m", "tests.model_server", "--latency", str(latency_s), "--no-log"]
    command += ["--scores", "0.4", "0.9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"{process.stdout.readline().strip()}/v1"
        finally:
            process.terminate()


class CpuMeter:
    """Measures CPU seconds since its creation: of this process ("driver"), and of others with their children."""

    def __init__(self, **pids: Sequence[int]) -> None:
        self._roots = {name: [psutil.Process(pid) for pid in each] for name, each in pids.items()}
        self._before = self._totals()

    def _totals(self) -> dict[str, float]:
        return {"driver": time.process_time(), **{name: sum(map(_cpu_s, each)) for name, each in self._roots.items()}}

    def seconds(self) -> dict[str, float]:
        return {name: total - self._before[name] for name, total in self._totals().items()}


def _cpu_s(root: psutil.Process) -> float:
    """Return the CPU seconds of a process and its children, including ended children."""
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times())
    return total


def postmaster_pid(server: PostgresServer) -> int:
    return int((Path(server.folder) / "data" / "postmaster.pid").read_text().split("\n")[0])


def settings_for(folder: str, url: str, valkey: ValkeyServer, database_url: str, **changes: Any) -> Settings:
    """Return the settings of an installation with the model server at `url`. An empty database URL means SQLite."""
    values: dict[str, Any] = {
        "data_dir": Path(folder),
        "database_url": database_url,
        "broker_url": valkey.url,
        "model": "openai:writer",
        "evaluator_model": "openai:judge",
        "openai_api_key": SecretStr("none"),
        "openai_base_url": url,
        "log_level": "WARNING",
    }
    return Settings(_env_file=None, **{**values, **changes})  # pyright: ignore[reportCallIssue]
