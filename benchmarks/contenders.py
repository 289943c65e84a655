"""Plain Celery and Redraft under the same load: PostgreSQL, Valkey, N worker processes of threads."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from celery import Celery
from pydantic import SecretStr
from sqlalchemy import text

from benchmarks.loads import CRITERIA, Load, Outcome, task_of
from benchmarks.parts import CpuMeter, postmaster_pid
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.jobs import submit
from redraft.runtime import build_runtime
from redraft.settings import Settings
from redraft.storage.engine.work import Database
from tests.support.databases.postgres import PostgresServer
from tests.support.processes import clean_environment, environment_of
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

_USERS = 8
_PLAIN_TABLES = (
    "CREATE TABLE plain_calls (id bigserial PRIMARY KEY, job int, iteration int, kind text, request text, reply text)",
    "CREATE TABLE plain_done (job int PRIMARY KEY)",
)


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
    """What it takes to start is measured nowhere."""
    control = Celery(broker=broker_url, set_as_current=False).control
    wait_until(lambda: len(control.inspect(timeout=0.5).ping() or {}) == count, within_s=60, what="workers")


def _measure(submit_one: Callable[[int], object], is_done: Callable[[], bool], pids: list[int], load: Load) -> Outcome:
    """Submit all jobs, some at once as several users do: one alone would keep the workers waiting for jobs."""
    meter, started_at = CpuMeter(*pids), time.monotonic()
    with ThreadPoolExecutor(max_workers=_USERS) as users:
        list(users.map(submit_one, range(load.jobs)))
    wait_until(is_done, within_s=600, every_s=0.05, what="the load")
    return Outcome(time.monotonic() - started_at, meter.seconds(), load.calls)


def run_plain_celery(url: str, load: Load, workers: int, postgres: PostgresServer, valkey: ValkeyServer) -> Outcome:
    name = postgres.create_database()
    address = postgres.url_of(name).replace("postgresql://", "postgresql+psycopg://")
    database = Database(postgres.url_of(name))
    with database.write() as connection:
        for statement in _PLAIN_TABLES:
            connection.execute(text(statement))
    threads = load.in_flight // workers
    environment = {
        **clean_environment(),
        "PLAIN_BROKER": valkey.url,
        "PLAIN_DATABASE": address,
        "PLAIN_MODEL": url,
        "PLAIN_CONNECTIONS": str(threads),
    }
    os.environ.update({k: v for k, v in environment.items() if k.startswith("PLAIN_")})
    from benchmarks.plain_celery import app, generate

    app.conf.broker_url = valkey.url
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.plain_celery", "worker", "-P", "threads"]
    command += ["-c", str(threads), "-l", "WARNING", "-Q", "plain", "--without-gossip", "--without-mingle"]

    def submit_one(number: int) -> None:
        generate.delay(number, 1)

    def count_done() -> int:
        with database.read() as connection:
            return connection.execute(text("SELECT count(*) FROM plain_done")).scalar_one()

    named = [[*command, "-n", f"plain{number}@%h"] for number in range(workers)]
    with processes(named, environment) as pids:
        await_listeners(valkey.url, workers)
        outcome = _measure(
            submit_one, lambda: count_done() == load.jobs, [*pids, *_service_pids(postgres, valkey)], load
        )
    database.close()
    postgres.drop_database(name)
    return outcome


def run_redraft(url: str, load: Load, workers: int, postgres: PostgresServer, valkey: ValkeyServer) -> Outcome:
    name = postgres.create_database()
    with TemporaryDirectory() as folder:
        settings = Settings(
            _env_file=None,  # pyright: ignore[reportCallIssue]
            data_dir=Path(folder),
            database_url=postgres.url_of(name),
            broker_url=valkey.url,
            model="openai:writer",
            evaluator_model="openai:judge",
            openai_api_key=SecretStr("none"),
            openai_base_url=url,
            worker_concurrency=load.in_flight // workers,
            log_level="WARNING",
        )
        services = build_runtime(settings)

        def submit_one(number: int) -> None:
            submit.submit(services, GenerateAnswer(instruct=task_of(number), eval_crit=CRITERIA))

        def count(what: str) -> int:
            with services.database.read() as connection:
                return connection.execute(text(f"SELECT count(*) FROM {what}")).scalar_one()

        def is_done() -> bool:
            return count("jobs WHERE status = 'succeeded'") == load.jobs

        commands = [[sys.executable, "-m", "worker"] for _ in range(workers)]
        with processes(commands, environment_of(settings)) as pids:
            await_listeners(valkey.url, workers)
            outcome = _measure(submit_one, is_done, [*pids, *_service_pids(postgres, valkey)], load)
        if (made := count("calls")) != load.calls:
            raise RuntimeError(f"Redraft made {made} calls where the others make {load.calls}: nothing to compare.")
        services.close()
    postgres.drop_database(name)
    return outcome


def _service_pids(postgres: PostgresServer, valkey: ValkeyServer) -> list[int]:
    return [postmaster_pid(postgres), valkey.pid]
