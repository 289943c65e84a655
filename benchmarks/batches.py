"""`python -m benchmarks.batches`: executes the same run live and by batches, and compares costs, results and memory.

The generator has OpenAI's wire format and the evaluator Anthropic's, both on the scripted server. With `--kills`, the
worker is killed at random moments of the batch run, and started again.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.loads import CRITERIA
from benchmarks.parts import settings_for
from redraft.domain.bulk.run_requests import CreateRun
from redraft.operations.bulk import datasets, run_results, runs
from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from redraft.runtime import build_runtime
from redraft.settings import Settings
from tests.chaos.audit.provider_batches import audit_batches
from tests.model_server import Asked, BatchScript, ModelServer, Reply, Script
from tests.support.databases.postgres import PostgresServer
from tests.support.databases.sqlite import create_sqlite
from tests.support.processes import environment_of
from tests.support.valkey import ValkeyServer

_SCORES = (0.9,), (0.4, 0.9), (0.4, 0.6, 0.9), (0.4, 0.6, 0.5)
_POLL_S = 0.5
_MB = 1e6


class Responder:
    """Answers by the number of the row: some answers need two or three iterations, some are never accepted.

    With errors, one row in a hundred first gets a transient error, and another one always gets a permanent error.
    """

    def __init__(self, *, has_errors: bool) -> None:
        self._has_errors = has_errors
        self._asked = Counter[tuple[str, str]]()

    def __call__(self, asked: Asked) -> Reply:
        key = (asked.case, asked.role)
        row, turn = int(asked.case), self._asked[key]
        self._asked[key] += 1
        if asked.role == "evaluate":
            scores = _SCORES[row % len(_SCORES)]
            return Reply(score=scores[min(turn, len(scores) - 1)])
        if self._has_errors and row % 100 == 17 and turn == 0:
            return Reply(status=503)
        if self._has_errors and row % 100 == 18:
            return Reply(status=400)
        return Reply(text=f"The sky is blue by scattering, version {turn}.")


class Worker:
    """Starts and kills a worker, and records the peak memory of its processes."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self.peak_mb = 0.0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "worker"]
        self._process = subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL)

    def measure(self) -> None:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), "0")
        self.peak_mb = max(self.peak_mb, int(peak) * 1024 / _MB)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass(slots=True)
class Found:
    """The figures of a run, and its results by row."""

    run: Run
    seconds: float
    peak_mb: float
    results: list[tuple[Any, ...]]
    batches: int
    problems: list[str]

    def say(self, name: str) -> None:
        counts = Counter((status, reason) for _, status, reason, *_ in self.results)
        print(f"{name}: {self.seconds:.0f} s, ${self.run.usage.cost_usd}, {self.run.usage.calls} calls, {dict(counts)}")
        print(f"  {self.batches} batches in {len(self.run.rounds)} rounds; the worker needed {self.peak_mb:.0f} MB")
        for each in self.run.rounds:
            print(f"  round {each.number}: {each.succeeded} succeeded, {each.failed} failed, {each.wall_s} s")


@contextmanager
def _installation(server: ModelServer, database: str, valkey: ValkeyServer) -> Generator[Settings]:
    both = {"batches": True, "prices": {"*": {"input": 2.0, "output": 8.0}}}
    urls = {"openai": server.openai_url, "anthropic": server.anthropic_url}
    endpoints = {f"via-{name}": {"format": name, "base_url": url, **both} for name, url in urls.items()}
    postgres = PostgresServer() if database == "postgresql" else None
    url = postgres.url_of(postgres.create_database()) if postgres else ""
    short = {"batch_poll_s": 1.0, "retry_wait_s": 0.1, "lease_s": 10.0, "heartbeat_s": 2.0, "sweep_s": 1.0}
    with TemporaryDirectory() as folder:
        if not postgres:
            create_sqlite(Path(folder) / "redraft.db")
        try:
            yield settings_for(folder, server.openai_url, valkey, url, endpoints=endpoints, **short)
        finally:
            if postgres:
                postgres.stop()


def measure(options: argparse.Namespace, delivery: str, kills: int) -> Found:
    """Execute the run, and return its figures."""
    server, valkey = ModelServer(script=Script(keep_log=False, batch=BatchScript(polls=2))), ValkeyServer().start()
    server.respond(Responder(has_errors=options.errors))
    with server, _installation(server, options.database, valkey) as settings:
        services = build_runtime(settings)
        # Environment variables of this kind contain JSON
        endpoints = json.dumps(settings.model_dump(mode="json", include={"endpoints"})["endpoints"])
        worker = Worker({**environment_of(settings), "REDRAFT_ENDPOINTS": endpoints})
        try:
            began_at = time.monotonic()
            run_id = _start(services, options, delivery).id
            _await_end(services, run_id, worker, kills, options.seed)
            seconds = time.monotonic() - began_at
        finally:
            worker.kill()
        run, results = runs.get_run(services, run_id), _results(services, run_id)
        problems = audit_batches(services.database, server.batches())
        services.close()
    valkey.remove()
    return Found(run, seconds, worker.peak_mb, results, len(server.batches()), problems)


def _start(services: Services, options: argparse.Namespace, delivery: str) -> Run:
    rows = ({"custom_id": f"{n}", "instruct": f"[[case:{n}]] Why is the sky blue?"} for n in range(options.rows))
    data = BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())
    dataset, _ = datasets.import_dataset(services, data, "load.jsonl")
    models = {"model": "via-openai:writer", "evaluator_model": "via-anthropic:judge"}
    defaults = {"eval_crit": CRITERIA, "iter_max": options.iterations, **models}
    body = {"dataset_id": dataset.id, "delivery": delivery, "defaults": defaults, "max_in_flight": options.in_flight}
    return runs.create_run(services, CreateRun.model_validate(body))[0]


def _await_end(services: Services, run_id: str, worker: Worker, kills: int, seed: int) -> None:
    moments, next_at = random.Random(seed), time.monotonic()
    while runs.get_run(services, run_id).status == "running":
        worker.measure()
        time.sleep(_POLL_S)
        if kills and time.monotonic() >= next_at:
            next_at = time.monotonic() + moments.uniform(2.0, 8.0)
            time.sleep(moments.uniform(0.0, 1.0))
            worker.kill()
            worker.start()
            kills -= 1
    worker.measure()
    if kills:
        print(f"The run ended {kills} kills too early.")


def _results(services: Services, run_id: str) -> list[tuple[Any, ...]]:
    names = ("custom_id", "status", "stop_reason", "first_score", "final_score", "iterations")
    return [tuple(line[name] for name in names) for line in run_results.stream_results(services, run_id)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batches")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--kills", type=int, default=0, help="number of kills of the worker during the batch run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random moments of the kills")
    parser.add_argument("--errors", action="store_true", help="some calls get transient or permanent errors")
    parser.add_argument("--only-batch", action="store_true", help="skip the live run and the comparison")
    options = parser.parse_args()
    batch = measure(options, "batch", options.kills)
    batch.say("batch")
    checks: dict[str, Callable[[Found], bool]] = {
        "exactly half the cost": lambda live: 2 * _cost(batch.run) == _cost(live.run),
        "the same statuses and scores": lambda live: batch.results == live.results,
        "the audit found nothing": lambda _: not batch.problems,
    }
    print(*batch.problems[:10], sep="\n", end="")
    if options.only_batch:
        return
    live = measure(options, "live", 0)
    live.say("live")
    for name, is_met in checks.items():
        print(f"{name}: {'yes' if is_met(live) else 'NO'}")


def _cost(run: Run) -> Decimal:
    return Decimal(run.usage.cost_usd or "NaN")


if __name__ == "__main__":
    main()
