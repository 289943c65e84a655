"""C: what Redraft adds to one iteration of one job on an idle machine, embedded (SQLite) and on PostgreSQL."""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import SecretStr

from benchmarks.loads import CRITERIA, task_of
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.admin.health import alive_workers
from redraft.operations.jobs import queries, submit
from redraft.runtime import build_runtime
from redraft.settings import Settings
from redraft.storage.engine import schema
from tests.support.processes import environment_of
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

_ITERATIONS = 2


def measure_added_ms(
    url: str, valkey: ValkeyServer, bare_ms: float, *, database_url: str = "", jobs: int = 60
) -> list[float]:
    """Added milliseconds per iteration, sorted: from submission to the end, less the bare calls.

    Args:
        url: the model server.
        valkey: the broker.
        bare_ms: what the two calls of an iteration take by themselves.
        database_url: empty for SQLite.
        jobs: how many jobs, one after the other.
    """
    with TemporaryDirectory() as folder:
        settings = Settings(
            _env_file=None,  # pyright: ignore[reportCallIssue]
            data_dir=Path(folder),
            database_url=database_url,
            broker_url=valkey.url,
            model="openai:writer",
            evaluator_model="openai:judge",
            openai_api_key=SecretStr("none"),
            openai_base_url=url,
            log_level="WARNING",
        )
        services = build_runtime(settings)
        if not database_url:
            schema.upgrade(services.database)
        worker = subprocess.Popen(
            [sys.executable, "-m", "worker"],
            env=environment_of(settings),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: alive_workers(services) == 1, within_s=60, what="the worker")
            taken = [_one_job(services, number) for number in range(jobs + 5)][5:]
        finally:
            worker.terminate()
            worker.wait(timeout=20)
            services.close()
    return sorted(seconds * 1000 / _ITERATIONS - bare_ms for seconds in taken)


def _one_job(services: submit.Services, number: int) -> float:
    started_at = time.monotonic()
    job_id = submit.submit(services, GenerateAnswer(instruct=task_of(number), eval_crit=CRITERIA)).job.id
    while not queries.get_version(services, job_id)[1]:
        time.sleep(0.001)
    seconds = time.monotonic() - started_at
    if (iterations := queries.get_job(services, job_id).progress.iteration) != _ITERATIONS:
        raise RuntimeError(f"The job took {iterations} iterations, not {_ITERATIONS}.")
    return seconds
