"""Benchmark E: memory, event loop, leases and SIGTERM of one worker process with thousands of calls in flight."""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from sqlalchemy import text

from benchmarks.loads import CRITERIA, task_of
from benchmarks.parts import model_server, settings_for
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.admin.readiness import alive_workers
from redraft.operations.jobs import submit
from redraft.operations.services import Services
from redraft.runtime import build_runtime
from tests.support.databases.postgres import PostgresServer
from tests.support.processes import environment_of
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

_USERS = 8
_WORDS = 20
_EVERY_S = 0.25
_PROBE_S = 0.02
_LEASES = (
    "SELECT count(*), coalesce(min(extract(epoch FROM lease_expires_at - clock_timestamp())), 999) FROM jobs"
    " WHERE lease_owner IS NOT NULL AND status IN ('queued', 'running')"
)


@dataclass(frozen=True, slots=True)
class Crowd:
    """A load of jobs, each with one generate call and one evaluate call."""

    jobs: int
    in_flight: int
    call_s: float
    is_streamed: bool


@dataclass
class Watch:
    """The measurements of the worker, four per second."""

    process: psutil.Process
    services: Services
    rss_mb: float = 0.0
    descriptors: int = 0
    threads: int = 0
    in_flight: int = 0
    shortest_lease_s: float = 999.0
    own_delays_ms: list[float] = field(default_factory=list[float])
    """The delays of a thread of this idle process. Only the load of the machine causes them."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            try:
                self.rss_mb = max(self.rss_mb, self.process.memory_info().rss / 1e6)
                self.descriptors = max(self.descriptors, self.process.num_fds())
                self.threads = max(self.threads, self.process.num_threads())
            except psutil.NoSuchProcess:
                return
            with self.services.database.read() as connection:
                held, shortest_s = connection.execute(text(_LEASES)).one()
            self.in_flight = max(self.in_flight, held)
            self.shortest_lease_s = min(self.shortest_lease_s, float(shortest_s))

    def probe(self) -> None:
        while not self._stop.is_set():
            due = time.monotonic() + _PROBE_S
            time.sleep(_PROBE_S)
            self.own_delays_ms.append((time.monotonic() - due) * 1000)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def watching(process: psutil.Process, services: Services) -> Iterator[Watch]:
    watch = Watch(process, services)
    with ThreadPoolExecutor(2) as threads:
        for each in (watch.run, watch.probe):
            threads.submit(each)
        try:
            yield watch
        finally:
            watch.stop()


def measure_scale(crowd: Crowd, postgres: PostgresServer, valkey: ValkeyServer) -> dict[str, str]:
    """Run the crowd through one worker, then end that worker in the middle of a second crowd."""
    name = postgres.create_database()
    try:
        with TemporaryDirectory() as folder, model_server(crowd.call_s) as url:
            settings = settings_for(folder, url, valkey, postgres.url_of(name), worker_concurrency=crowd.in_flight)
            services = build_runtime(settings)
            _script(url, crowd)
            found = _measure(crowd, services, Path(folder))
            services.close()
        return found
    finally:
        postgres.drop_database(name)


def _measure(crowd: Crowd, services: Services, folder: Path) -> dict[str, str]:
    # Submitted before the worker starts, because the submission would take CPU time from the worker
    _submit(services, crowd, 0)
    worker = _start(services, folder)
    before, started_at = _cpu_s(worker.pid), time.monotonic()
    with watching(psutil.Process(worker.pid), services) as watch:
        _wait_for(services, crowd.jobs)
        seconds, cpu_s = time.monotonic() - started_at, _cpu_s(worker.pid) - before
        loop_ms = [float(line) for line in (folder / "delays").read_text().split()]
        idle_ms = list(watch.own_delays_ms)
        stopped_s = _end_in_the_middle(crowd, services, worker)
    lost = _scalar(services, "SELECT count(*) FROM calls WHERE status = 'lost'")
    second = _start(services, folder)
    _wait_for(services, 2 * crowd.jobs)
    second.terminate()
    second.wait(timeout=60)
    calls = 2 * crowd.jobs
    return {
        "calls/s, and the most that the latency allows": f"{calls / seconds:.0f}, {crowd.in_flight / crowd.call_s:.0f}",
        "jobs in flight": str(watch.in_flight),
        "highest RSS": f"{watch.rss_mb:.0f} MB",
        "descriptors, threads": f"{watch.descriptors}, {watch.threads}",
        "CPU of the worker": f"{cpu_s * 1000 / calls:.2f} ms a call",
        "delay of the event loop: p50, p99, highest": f"{_delays(loop_ms)} ms",
        "delay in an idle process at the same time": f"{_delays(idle_ms)} ms",
        "shortest remaining lease": f"{watch.shortest_lease_s:.1f} s of {services.settings.lease_s:g}",
        "leases lost": str(_scalar(services, "SELECT count(*) FROM jobs WHERE lost_leases > 0")),
        "SIGTERM until the end": f"{stopped_s:.1f} s of {services.settings.shutdown_grace_s:g}",
        "calls lost by SIGTERM": str(lost),
        "ends": json.dumps(_ends(services)),
        "warnings in the log": str(_log(folder).read_text().count('"level": "warning"')),
    }


def _end_in_the_middle(crowd: Crowd, services: Services, worker: subprocess.Popen[bytes]) -> float:
    """Send SIGTERM while nearly all calls of a second crowd are in flight. Return the seconds until the end."""
    _submit(services, crowd, crowd.jobs)
    in_flight = "SELECT count(*) FROM calls WHERE status = 'started'"
    wait_until(lambda: _scalar(services, in_flight) >= 0.9 * min(crowd.in_flight, crowd.jobs), within_s=120)
    stopped_at = time.monotonic()
    worker.terminate()
    worker.wait(timeout=120)
    return time.monotonic() - stopped_at


def _wait_for(services: Services, jobs: int) -> None:
    query = "SELECT count(*) FROM jobs WHERE finished_at IS NOT NULL"
    wait_until(lambda: _scalar(services, query) == jobs, within_s=600, every_s=0.25, what="the jobs")


def _log(folder: Path) -> Path:
    return folder / "log"


def _start(services: Services, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.probed_worker", str(folder / "delays")]
    log = _log(folder)
    with log.open("a") as output:
        worker = subprocess.Popen(command, env=environment_of(services.settings), stdout=output, stderr=output)

    def is_ready() -> bool:
        if worker.poll() is not None:
            raise RuntimeError(f"The worker ended: {log.read_text()[-2000:]}")
        return alive_workers(services) == 1

    wait_until(is_ready, within_s=60, what="the worker")
    return worker


def _script(url: str, crowd: Crowd) -> None:
    """Set the server's script. Streamed answers take as long as others, and begin after a fifth of this time."""
    answer: dict[str, Any] = {"text": "word " * _WORDS}
    if crowd.is_streamed:
        answer |= {"latency_s": crowd.call_s / 5, "pause_s": crowd.call_s * 0.8 / _WORDS}
    rules = [{"role": "generate", "replies": [answer]}]
    script = {"rules": rules, "scores": [0.9], "latency_s": crowd.call_s, "keep_log": False}
    request = urllib.request.Request(
        url.removesuffix("/v1") + "/_script", json.dumps(script).encode(), {"content-type": "application/json"}
    )
    request.method = "PUT"
    urllib.request.urlopen(request).read()


def _submit(services: Services, crowd: Crowd, first: int) -> None:
    def submit_one(number: int) -> None:
        body = GenerateAnswer(instruct=task_of(number), eval_crit=CRITERIA, stream=crowd.is_streamed)
        submit.submit(services, body)

    with ThreadPoolExecutor(_USERS) as users:
        list(users.map(submit_one, range(first, first + crowd.jobs)))


def _scalar(services: Services, query: str) -> int:
    with services.database.read() as connection:
        return connection.execute(text(query)).scalar_one()


def _ends(services: Services) -> dict[str, int]:
    with services.database.read() as connection:
        rows = connection.execute(text("SELECT status || ':' || stop_reason, count(*) FROM jobs GROUP BY 1"))
        return {row[0]: row[1] for row in rows}


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _delays(found_ms: Sequence[float]) -> str:
    """Return the median, the 99th percentile and the maximum of the delays."""
    found = sorted(found_ms)
    return " / ".join(f"{each:.0f}" for each in (found[len(found) // 2], found[int(len(found) * 0.99)], found[-1]))
