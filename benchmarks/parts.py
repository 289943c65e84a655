"""The parts the contenders stand on, each in processes of its own: model server, PostgreSQL, Valkey."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.databases.postgres import PostgresServer


@contextmanager
def model_server(latency_s: float) -> Iterator[str]:
    """The scripted server with a fixed latency; yields its OpenAI base URL."""
    command = [sys.executable, "-m", "tests.model_server", "--latency", str(latency_s), "--no-log"]
    command += ["--scores", "0.4", "0.9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"{process.stdout.readline().strip()}/v1"
        finally:
            process.terminate()


class CpuMeter:
    """CPU seconds of this process, some others, and all their children, since the meter was made."""

    def __init__(self, *pids: int) -> None:
        self._roots = [psutil.Process(pid) for pid in (os.getpid(), *pids)]
        self._before = self._total()

    def _total(self) -> dict[int, float]:
        found: dict[int, float] = {}
        for root in self._roots:
            for process in (root, *(root.children(recursive=True) if root.pid != os.getpid() else [])):
                try:
                    times = process.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                found[process.pid] = times.user + times.system
        return found

    def seconds(self) -> float:
        after = self._total()
        return sum(spent - self._before.get(pid, 0.0) for pid, spent in after.items())


def postmaster_pid(server: PostgresServer) -> int:
    return int((Path(server.folder) / "data" / "postmaster.pid").read_text().split("\n")[0])
