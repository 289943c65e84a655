"""Measures whether memory and descriptors of a worker and of `redraft serve` grow over thousands of jobs."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import psutil
from sqlalchemy import text

from benchmarks.loads import CRITERIA, task_of
from benchmarks.parts import model_server, settings_for
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.admin.readiness import alive_workers
from redraft.operations.jobs import submit
from redraft.runtime import build_runtime
from redraft.storage.engine.unit_of_work import Database
from tests.support.databases.postgres import PostgresServer
from tests.support.processes import environment_of
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

_USERS = 8
_QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

Sample = dict[str, tuple[float, int]]
"""Megabytes and descriptors by process."""


def grow_worker(jobs: int, every: int, postgres: PostgresServer, valkey: ValkeyServer) -> Iterator[tuple[int, Sample]]:
    """Yield memory and descriptors of a worker on PostgreSQL, each time that `every` further jobs have ended."""
    name = postgres.create_database()
    with TemporaryDirectory() as folder, model_server(0.0) as url:
        settings = settings_for(folder, url, valkey, postgres.url_of(name))
        services = build_runtime(settings)
        command = [sys.executable, "-m", "worker"]
        with _running(command, environment_of(settings)) as process:
            wait_until(lambda: alive_workers(services) == 1, within_s=60, what="the worker")

            def submit_one(number: int) -> None:
                submit.submit(services, GenerateAnswer(instruct=task_of(number), eval_crit=CRITERIA, iter_max=1))

            yield from _samples(process, services.database, submit_one, jobs, every)
        services.close()
    postgres.drop_database(name)


def grow_serve(jobs: int, every: int, valkey: ValkeyServer) -> Iterator[tuple[int, Sample]]:
    """Yield the same for `redraft serve` on SQLite. The jobs are submitted over HTTP."""
    with TemporaryDirectory() as folder, model_server(0.0) as url, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        settings = settings_for(folder, url, valkey, "").model_copy(update={"broker_url": None})
        settings.model_fields_set.discard("broker_url")
        command = [str(Path(sys.executable).parent / "redraft"), "serve", "--port", str(port)]
        with (
            _running(command, environment_of(settings)) as process,
            httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
        ):
            wait_until(lambda: _is_ready(client), within_s=60, what="serve")
            database = Database(settings.effective_database_url)

            def submit_one(number: int) -> None:
                body = {"instruct": task_of(number), "eval_crit": CRITERIA, "iter_max": 1}
                client.post("/v1/generate-answer", json=body).raise_for_status()

            yield from _samples(process, database, submit_one, jobs, every)
            database.close()


def _is_ready(client: httpx2.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.HTTPError:
        return False


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[psutil.Process]:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _samples(
    process: psutil.Process, database: Database, submit_one: Callable[[int], None], jobs: int, every: int
) -> Iterator[tuple[int, Sample]]:
    def count() -> int:
        with database.read() as connection:
            return connection.execute(text("SELECT count(*) FROM jobs WHERE finished_at IS NOT NULL")).scalar_one()

    with ThreadPoolExecutor(_USERS) as users:
        for done in range(every, jobs + 1, every):
            list(users.map(submit_one, range(done - every, done)))
            wait_until(lambda done=done: count() >= done, within_s=600, every_s=0.1, what="the jobs")
            yield done, _sample(process)


def _sample(process: psutil.Process) -> Sample:
    found: Sample = {}
    for number, each in enumerate([process, *process.children(recursive=True)]):
        try:
            found[f"{number} {_name_of(each)}"] = (each.memory_info().rss / 1e6, each.num_fds())
        except psutil.NoSuchProcess:
            continue
    return found


def _name_of(process: psutil.Process) -> str:
    words = process.cmdline()
    known = ("serve", "worker", "valkey-server")
    return next((name for name in known if any(word.endswith(name) for word in words)), Path(words[0]).name)
