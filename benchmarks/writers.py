"""`python -m benchmarks.writers`: measures how many units of work per second a database stores for 1 to 8 processes.

Each job has three units of work: its submission, a claim, and a transition with its event. No model is called and no
message is sent, so the result is the limit of the database. Compare the ratios, not the numbers.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from redraft.domain.jobs.ids import new_id
from redraft.storage.engine import schema
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import events, jobs, step_claims, transitions
from tests.support.databases.postgres import PostgresServer

PROCESSES = (1, 2, 4, 8)
UNITS_PER_JOB = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.writers")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--threads", type=int, default=4, help="threads of each process")
    parser.add_argument("--write", metavar="URL", help="run as one of the writer processes")
    options = parser.parse_args()
    if options.write:
        print(*write(options.write, options.seconds, options.threads))
        return
    server = PostgresServer()
    try:
        compare(options, {"SQLite": sqlite_url(), "PostgreSQL": server.url_of(server.create_database())})
    finally:
        server.stop()


def sqlite_url() -> str:
    url = f"sqlite:///{Path(tempfile.mkdtemp(prefix='writers-')) / 'redraft.db'}"
    database = Database(url)
    schema.upgrade(database)
    database.close()
    return url


def compare(options: argparse.Namespace, urls: dict[str, str]) -> None:
    table = Table("database", "processes", "units of work/s", "of one process", "p50 ms", "p99 ms")
    for name, url in urls.items():
        alone = 0.0
        for count in PROCESSES:
            rate, p50_ms, p99_ms = measure(url, count, options)
            alone = alone or rate
            table.add_row(name, str(count), f"{rate:.0f}", f"{rate / alone:.2f}", f"{p50_ms:.1f}", f"{p99_ms:.1f}")
    Console().print(table)


def measure(url: str, count: int, options: argparse.Namespace) -> tuple[float, float, float]:
    """Return the units of work per second of all processes together, and the duration of a unit: p50 and p99 in ms."""
    command = [sys.executable, "-m", "benchmarks.writers", "--write", url]
    command += ["--seconds", str(options.seconds), "--threads", str(options.threads)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    told = [[float(each) for each in writer.communicate()[0].split()] for writer in writers]
    assert all(writer.returncode == 0 for writer in writers), "a writer failed"
    return sum(each[0] for each in told), statistics.median(each[1] for each in told), max(each[2] for each in told)


def write(url: str, seconds: float, threads: int) -> tuple[float, float, float]:
    """Write for `seconds`. Return the units of work per second, and the median and the 99th percentile in ms."""
    from concurrent.futures import ThreadPoolExecutor

    database = Database(url, pool_size=threads)
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(threads) as pool:
        taken = [
            each
            for part in pool.map(lambda n: write_until(database, f"wrk_{n}", until), range(threads))
            for each in part
        ]
    database.close()
    taken.sort()
    return len(taken) / seconds, taken[len(taken) // 2] * 1000, taken[int(len(taken) * 0.99)] * 1000


def write_until(database: Database, owner: str, until: float) -> list[float]:
    taken: list[float] = []
    while time.monotonic() < until:
        job_id = new_id("job")
        for unit in (submit, claim, move):
            began = time.monotonic()
            unit(database, job_id, owner)
            taken.append(time.monotonic() - began)
    return taken


def submit(database: Database, job_id: str, _owner: str) -> None:
    values = {
        "id": job_id,
        "kind": "generate_answer",
        "status": "queued",
        "request": {"instruct": "Q" * 500},
        "metadata": {},
        "warnings": [],
        "model": "openai:writer",
        "evaluator_model": "openai:judge",
        "request_hash": "0" * 64,
        "step": "generate",
        "iteration_limit": 3,
        "event_seq": 1,
    }
    with database.write() as connection:
        job = jobs.add(connection, values, 600)
        assert job is not None
        events.add(connection, job, 1, [("job.queued", {"message": "m" * 80})])


def claim(database: Database, job_id: str, owner: str) -> None:
    with database.write() as connection:
        assert step_claims.claim(connection, job_id, "generate", 1, owner=owner, lease_s=30) is not None


def move(database: Database, job_id: str, _owner: str) -> None:
    with database.write() as connection:
        job = jobs.get(connection, job_id)
        assert job is not None
        first = transitions.advance(connection, job_id, job.lease_token, {"step": "evaluate"}, new_events=1)
        assert first is not None
        events.add(connection, job, first, [("iteration.generated", {"message": "m" * 80})])


if __name__ == "__main__":
    main()
