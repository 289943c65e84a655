"""Benchmark C: the time that Redraft adds to an iteration on an idle machine, embedded (SQLite) and on PostgreSQL."""

import subprocess
import sys
import time
from tempfile import TemporaryDirectory

from benchmarks.contenders import minimal_celery
from benchmarks.loads import CRITERIA, Load, task_of
from benchmarks.parts import settings_for
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.admin.readiness import alive_workers
from redraft.operations.jobs import queries, submit
from redraft.runtime import build_runtime
from redraft.storage.engine import schema
from tests.support.databases.postgres import PostgresServer
from tests.support.processes import environment_of
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

_ITERATIONS = 2
_JOBS = 60
# The first jobs are not measured, because they open the connections
_WARM = 5


def measure_added_ms(url: str, valkey: ValkeyServer, bare_ms: float, *, database_url: str = "") -> list[float]:
    """Return the added milliseconds per iteration, sorted: the duration of a job, minus the duration of bare calls.

    Args:
        url: the model server.
        valkey: the broker.
        bare_ms: the duration of the two calls of an iteration without Redraft.
        database_url: empty for SQLite.
    """
    with TemporaryDirectory() as folder:
        settings = settings_for(folder, url, valkey, database_url)
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
            taken = [_one_job(services, number) for number in range(_JOBS + _WARM)][_WARM:]
        finally:
            worker.terminate()
            worker.wait(timeout=20)
            services.close()
    return sorted(seconds * 1000 / _ITERATIONS - bare_ms for seconds in taken)


def measure_celery_ms(url: str, bare_ms: float, postgres: PostgresServer, valkey: ValkeyServer) -> list[float]:
    """Return the same figures for the minimal Celery app."""
    taken: list[float] = []
    with minimal_celery(url, Load(1, 16, 0.0), 1, postgres, valkey) as (submit_one, count, _):
        for number in range(_JOBS + _WARM):
            started_at = time.monotonic()
            submit_one(number)
            while count() <= number:
                time.sleep(0.001)
            taken.append(time.monotonic() - started_at)
    return sorted(seconds * 1000 / _ITERATIONS - bare_ms for seconds in taken[_WARM:])


def _one_job(services: submit.Services, number: int) -> float:
    started_at = time.monotonic()
    job_id = submit.submit(services, GenerateAnswer(instruct=task_of(number), eval_crit=CRITERIA)).job.id
    while not queries.get_version(services, job_id)[1]:
        time.sleep(0.001)
    seconds = time.monotonic() - started_at
    if (iterations := queries.get_job(services, job_id).progress.iteration) != _ITERATIONS:
        raise RuntimeError(f"The job took {iterations} iterations, not {_ITERATIONS}.")
    return seconds
