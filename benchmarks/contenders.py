"""Runs a minimal Celery app and Redraft under the same load, with PostgreSQL, Valkey and several worker processes."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory

import psutil
import psycopg
from celery import Celery
from sqlalchemy import text

from benchmarks.loads import CRITERIA, Load, Outcome, task_of
from benchmarks.parts import CpuMeter, postmaster_pid, settings_for
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.jobs import submit
from redraft.runtime import build_runtime
from tests.support.databases.postgres import PostgresServer
from tests.support.processes import clean_environment, environment_of
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

_USERS = 8
# For this time after the last job, the CPU time of timers and heartbeats is measured
_IDLE_S = 3.0


@contextmanager
def processes(commands: list[list[str]], environment: dict[str, str]) -> Iterator[list[int]]:
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in commands
    ]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            process.kill()


def await_listeners(broker_url: str, count: int) -> None:
    """Wait until the workers listen, so that no benchmark measures their start."""
    control = Celery(broker=broker_url, set_as_current=False).control
    wait_until(lambda: len(control.inspect(timeout=0.5).ping() or {}) == count, within_s=60, what="workers")


def measure(
    submit_one: Callable[[int], object],
    is_done: Callable[[], bool],
    workers: Sequence[int],
    load: Load,
    services: tuple[PostgresServer, ValkeyServer],
) -> Outcome:
    """Submit all jobs from several threads, because a single thread would submit too slowly for the workers."""
    postgres, valkey = services
    pids = {"workers": workers, "PostgreSQL": [postmaster_pid(postgres)], "Valkey": [valkey.pid]}
    meter, started_at = CpuMeter(**pids), time.monotonic()
    with ThreadPoolExecutor(max_workers=_USERS) as users:
        list(users.map(submit_one, range(load.jobs)))
    submit_ms = meter.seconds()["driver"] * 1000 / load.jobs
    wait_until(is_done, within_s=600, every_s=0.05, what="the load")
    seconds, cpu_s = time.monotonic() - started_at, meter.seconds()
    rss_mb = sum(psutil.Process(pid).memory_info().rss for pid in workers) / 1e6
    idle = CpuMeter(**pids)
    time.sleep(_IDLE_S)
    idle_ms = {name: value * 1000 / _IDLE_S for name, value in idle.seconds().items()}
    return Outcome(seconds, cpu_s, load.calls, submit_ms, idle_ms, rss_mb)


@contextmanager
def minimal_celery(
    url: str, load: Load, workers: int, postgres: PostgresServer, valkey: ValkeyServer
) -> Iterator[tuple[Callable[[int], object], Callable[[], int], list[int]]]:
    """Run the minimal app.

    Yields a function that submits a job, a function that counts ended jobs, and the pids of the workers.
    """
    name = postgres.create_database()
    environment = {
        **clean_environment(),
        "MINIMAL_BROKER": valkey.url,
        "MINIMAL_DATABASE": postgres.url_of(name),
        "MINIMAL_MODEL": url,
    }
    from benchmarks.minimal_celery import QUEUE, TABLE, app, generate

    app.conf.broker_url = valkey.url
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.minimal_celery", "worker", "-P", "threads"]
    command += ["-c", str(load.in_flight // workers), "-l", "WARNING", "-Q", QUEUE]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    with psycopg.connect(postgres.url_of(name), autocommit=True) as connection:
        connection.execute(TABLE)

        def count() -> int:
            row = connection.execute("SELECT count(*) FROM steps WHERE step = 'done'").fetchone()
            return row[0] if row else 0

        with processes([[*command, "-n", f"minimal{number}@%h"] for number in range(workers)], environment) as pids:
            await_listeners(valkey.url, workers)
            yield lambda number: generate.delay(number, 1), count, pids
    postgres.drop_database(name)


def run_minimal_celery(url: str, load: Load, workers: int, postgres: PostgresServer, valkey: ValkeyServer) -> Outcome:
    with minimal_celery(url, load, workers, postgres, valkey) as (submit_one, count, pids):
        return measure(submit_one, lambda: count() == load.jobs, pids, load, (postgres, valkey))


def run_redraft(url: str, load: Load, workers: int, postgres: PostgresServer, valkey: ValkeyServer) -> Outcome:
    name = postgres.create_database()
    with TemporaryDirectory() as folder:
        database_url = postgres.url_of(name)
        settings = settings_for(folder, url, valkey, database_url, worker_concurrency=load.in_flight // workers)
        services = build_runtime(settings)

        def submit_one(number: int) -> None:
            submit.submit(services, GenerateAnswer(instruct=task_of(number), eval_crit=CRITERIA))

        def count(what: str) -> int:
            with services.database.read() as connection:
                return connection.execute(text(f"SELECT count(*) FROM {what}")).scalar_one()

        def is_done() -> bool:
            return count("jobs WHERE status = 'succeeded'") == load.jobs

        with processes([[sys.executable, "-m", "worker"]] * workers, environment_of(settings)) as pids:
            await_listeners(valkey.url, workers)
            outcome = measure(submit_one, is_done, pids, load, (postgres, valkey))
        if (made := count("calls")) != load.calls:
            raise RuntimeError(f"Redraft made {made} calls where the others make {load.calls}: nothing to compare.")
        services.close()
    postgres.drop_database(name)
    return outcome
