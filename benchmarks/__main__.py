"""`make bench`: A (calls/s), B (CPU per call), C (added latency) and D (a bulk run) beside bare loops and plain Celery.

Machines are noisy: read the ratios, not the numbers. Rounds are interleaved; the medians are shown.
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from benchmarks.bare import run_bare
from benchmarks.bulk import run_bulk
from benchmarks.contenders import run_plain_celery, run_redraft
from benchmarks.latency import measure_added_ms
from benchmarks.loads import Load, Outcome
from benchmarks.pages import measure_pages
from benchmarks.parts import model_server
from redraft.logs import configure_logs
from tests.support.databases.postgres import PostgresServer
from tests.support.valkey import ValkeyServer

Contender = Callable[[str, Load], Outcome]
REFERENCE = "bare threads, sharded clients"
PEER = "plain Celery + PostgreSQL, 2 processes"
OURS = "Redraft + PostgreSQL, 2 processes"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=500, help="jobs of 4 calls in A; B uses a fifth")
    parser.add_argument("--in-flight", type=int, default=500)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds a call takes in A")
    parser.add_argument("--only", choices=["A", "B", "C", "D", "E"], help="E, pages of a million jobs, only so")
    options = parser.parse_args()
    console = Console()
    postgres, valkey = PostgresServer(), ValkeyServer().start()
    contenders = _contenders(postgres, valkey)
    try:
        if options.only in {None, "A"}:
            load = Load(options.jobs, options.in_flight, options.latency)
            _compare(console, "A: calls/s", contenders, load, options.rounds, lambda o: o.calls_per_s)
        if options.only in {None, "B"}:
            load = Load(max(20, options.jobs // 5), 20, 0.0)
            _compare(console, "B: CPU ms a call", contenders, load, options.rounds, lambda o: o.cpu_ms_per_call)
        if options.only in {None, "C"}:
            _latency(console, postgres, valkey)
        if options.only in {None, "D"}:
            _bulk(console, postgres, valkey)
        if options.only == "E":
            _pages(console, postgres, valkey)
    finally:
        valkey.remove()
        postgres.stop()


def _contenders(postgres: PostgresServer, valkey: ValkeyServer) -> dict[str, Contender]:
    return {
        "bare threads, one client": lambda url, load: run_bare(url, load, sharded=False),
        REFERENCE: lambda url, load: run_bare(url, load, sharded=True),
        "plain Celery + PostgreSQL, 1 process": lambda u, o: run_plain_celery(u, o, 1, postgres, valkey),
        PEER: lambda url, load: run_plain_celery(url, load, 2, postgres, valkey),
        "Redraft + PostgreSQL, 1 process": lambda url, load: run_redraft(url, load, 1, postgres, valkey),
        OURS: lambda url, load: run_redraft(url, load, 2, postgres, valkey),
    }


def _compare(
    console: Console,
    title: str,
    contenders: dict[str, Contender],
    load: Load,
    rounds: int,
    measure: Callable[[Outcome], float],
) -> None:
    found: dict[str, list[float]] = defaultdict(list)
    for round_no in range(1, rounds + 1):
        for name, run in contenders.items():
            with model_server(load.latency_s) as url:
                value = measure(run(url, load))
            found[name].append(value)
            console.print(f"round {round_no}: {name}: {value:.1f}", style="dim")
    medians = {name: statistics.median(values) for name, values in found.items()}
    table = Table(
        "contender",
        title,
        "of bare, sharded",
        "of plain Celery, 2",
        title=f"{load.jobs} jobs x 4 calls, {load.in_flight} in flight, {load.latency_s:g} s a call",
    )
    for name, value in medians.items():
        table.add_row(name, f"{value:.1f}", f"{value / medians[REFERENCE]:.2f}", f"{value / medians[PEER]:.2f}")
    console.print(table)


def _latency(console: Console, postgres: PostgresServer, valkey: ValkeyServer) -> None:
    table = Table("database", "p50 ms", "p99 ms", title="C: added milliseconds per iteration, one job, idle machine")
    with model_server(0.0) as url:
        load = Load(100, 1, 0.0)
        bare_ms = run_bare(url, load, sharded=False).seconds * 1000 / load.calls * 2
    console.print(f"an iteration's two calls by themselves: {bare_ms:.1f} ms", style="dim")
    for name, database_url in (("SQLite", ""), ("PostgreSQL", postgres.url_of(postgres.create_database()))):
        # One each: it counts the scores of a job by the job's number
        with model_server(0.0) as url:
            added = measure_added_ms(url, valkey, bare_ms, database_url=database_url)
        table.add_row(name, f"{statistics.median(added):.1f}", f"{added[int(len(added) * 0.99)]:.1f}")
    console.print(table)


def _bulk(console: Console, postgres: PostgresServer, valkey: ValkeyServer) -> None:
    title = "D: a run of 4 calls a row, in times of the ideal: calls x seconds a call / in flight"
    table = Table("in flight", "s a call", "workers", "a run", REFERENCE, "plain Celery + PostgreSQL", title=title)
    for in_flight, latency_s, workers in ((10, 0.2, 1), (20, 0.2, 1), (100, 0.2, 2), (100, 1.0, 2)):
        load = Load(10 * in_flight, in_flight, latency_s)
        ideal_s = load.calls * load.latency_s / in_flight
        with model_server(load.latency_s) as url:
            run_s = run_bulk(url, load, workers, postgres, valkey)
        with model_server(load.latency_s) as url:
            bare_s = run_bare(url, load, sharded=True).seconds
        with model_server(load.latency_s) as url:
            plain_s = run_plain_celery(url, load, workers, postgres, valkey).seconds
        found = (f"{seconds / ideal_s:.2f}" for seconds in (run_s, bare_s, plain_s))
        table.add_row(str(in_flight), f"{latency_s:g}", str(workers), *found)
    console.print(table)


def _pages(console: Console, postgres: PostgresServer, valkey: ValkeyServer) -> None:
    configure_logs("WARNING", "json")
    for name, count in (("SQLite", 100_000), ("PostgreSQL", 1_000_000)):
        url = "" if name == "SQLite" else postgres.url_of(postgres.create_database())
        table = Table("page", "p50 ms", "highest", title=f"E: pages, {count:,} jobs on {name}")
        for page, (middle, highest) in measure_pages(valkey, count, database_url=url).items():
            table.add_row(page, f"{middle:.1f}", f"{highest:.1f}")
        console.print(table)


if __name__ == "__main__":
    main()
