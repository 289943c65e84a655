"""`make bench`: compares Redraft with a minimal Celery app and with bare loops. README.md explains the tables.

Other load on the machine changes the numbers, so compare the ratios. Rounds are interleaved, and medians are shown.
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.bare import run_bare
from benchmarks.bulk import run_bulk
from benchmarks.contenders import run_minimal_celery, run_redraft
from benchmarks.latency import measure_added_ms, measure_celery_ms
from benchmarks.loads import Load, Outcome
from benchmarks.memory import grow_serve, grow_worker
from benchmarks.pages import measure_pages
from benchmarks.parts import model_server
from benchmarks.scale import Crowd, measure_scale
from redraft.logs import configure_logs
from tests.support.databases.postgres import PostgresServer
from tests.support.valkey import ValkeyServer

Contender = Callable[[str, Load], Outcome]
BARE = "bare threads, sharded clients"
CELERY = "minimal Celery, 2 processes"
PROCESSES = ("workers", "driver", "PostgreSQL", "Valkey")
REDRAFT = "Redraft, 2 processes"


class Bench:
    """The benchmarks, with the servers that they share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._console = Console(width=150)
        self._postgres, self._valkey = PostgresServer(), ValkeyServer().start()
        configure_logs("WARNING", "json")

    def close(self) -> None:
        self._valkey.remove()
        self._postgres.stop()

    def throughput(self) -> None:
        options = self._options
        self._compare("A", Load(options.jobs, options.in_flight, options.latency))

    def cpu(self) -> None:
        self._compare("B", Load(max(20, self._options.jobs * 2 // 5), 16, 0.0))

    def _compare(self, name: str, load: Load) -> None:
        found: dict[str, list[Outcome]] = defaultdict(list)
        for round_no in range(1, self._options.rounds + 1):
            for contender, run in self._contenders().items():
                with model_server(load.latency_s) as url:
                    outcome = run(url, load)
                found[contender].append(outcome)
                words = f"{outcome.calls_per_s:.1f} calls/s, {outcome.cpu_ms_per_call:.1f} ms a call"
                self._console.print(f"round {round_no}: {contender}: {words}", style="dim")
        title = f"{name}: {load.jobs} jobs x 4 calls, {load.in_flight} in flight, {load.latency_s:g} s a call"
        self._console.print(_ratios(title, found))
        self._console.print(_shares(title, found))

    def _contenders(self) -> dict[str, Contender]:
        servers = (self._postgres, self._valkey)
        return {
            BARE: lambda url, load: run_bare(url, load, sharded=True),
            CELERY: lambda url, load: run_minimal_celery(url, load, 2, *servers),
            REDRAFT: lambda url, load: run_redraft(url, load, 2, *servers),
        }

    def latency(self) -> None:
        load = Load(8, 1, 0.0)
        with model_server(0.0) as url:
            # The median of several short runs, so that a single pause of the machine does not change the result
            runs = [run_bare(url, load, sharded=False).seconds for _ in range(12)]
        bare_ms = statistics.median(runs) * 1000 / load.calls * 2
        self._console.print(f"the two bare calls of an iteration: {bare_ms:.1f} ms", style="dim")
        database_url = self._postgres.url_of(self._postgres.create_database())
        rows = {
            "minimal Celery": lambda url: measure_celery_ms(url, bare_ms, self._postgres, self._valkey),
            "Redraft, PostgreSQL": lambda url: measure_added_ms(url, self._valkey, bare_ms, database_url=database_url),
            "Redraft, SQLite": lambda url: measure_added_ms(url, self._valkey, bare_ms),
        }
        table = Table("", "p50 ms", "p99 ms", "of Celery", title="C: added ms per iteration, one job, idle machine")
        celery_ms = 0.0
        for name, run in rows.items():
            # Each contender has its own server, because the server counts the scores of a job by the job's number
            with model_server(0.0) as url:
                added = run(url)
            middle = statistics.median(added)
            celery_ms = celery_ms or middle
            # On a busy machine, the measured time of bare calls can exceed the time of the job
            ratio = f"{middle / celery_ms:.2f}" if celery_ms > 0 else "unknown"
            table.add_row(name, f"{middle:.1f}", f"{added[int(len(added) * 0.99)]:.1f}", ratio)
        self._console.print(table)

    def bulk(self) -> None:
        servers = (self._postgres, self._valkey)
        title = "D: a run of 4 calls a row, in times of the ideal (calls x seconds a call / in flight)"
        table = Table("in flight", "s a call", "workers", "a run", "jobs", BARE, "minimal Celery", title=title)
        for in_flight, latency_s, workers in ((20, 0.2, 1), (100, 0.2, 2), (100, 1.0, 2)):
            load = Load(10 * in_flight, in_flight, latency_s)
            found: list[str] = []
            for run in (
                lambda url, load, workers=workers: run_bulk(url, load, workers, *servers),
                lambda url, load, workers=workers: run_redraft(url, load, workers, *servers),
                lambda url, load: run_bare(url, load, sharded=True),
                lambda url, load, workers=workers: run_minimal_celery(url, load, workers, *servers),
            ):
                with model_server(latency_s) as url:
                    found.append(f"{run(url, load).seconds * in_flight / (load.calls * latency_s):.2f}")
            table.add_row(str(in_flight), f"{latency_s:g}", str(workers), *found)
        self._console.print(table)
        ratios: list[float] = []
        for _ in range(self._options.rounds):
            with model_server(0.0) as url:
                run = run_bulk(url, Load(200, 16, 0.0), 2, *servers)
            with model_server(0.0) as url:
                jobs = run_redraft(url, Load(200, 16, 0.0), 2, *servers)
            ratios.append(run.cpu_ms_per_call / jobs.cpu_ms_per_call)
        ratio = statistics.median(ratios)
        self._console.print(f"CPU time per call of a run, relative to the same jobs without a run: {ratio:.2f}")

    def scale(self) -> None:
        calls, call_s = self._options.scale, 10.0
        with model_server(call_s) as url:
            celery = run_minimal_celery(url, Load(calls // 2, calls, call_s), 1, self._postgres, self._valkey)
        words = (
            f"{celery.calls_per_s:.0f} calls/s, {celery.rss_mb:.0f} MB, {celery.ms_per_call('workers'):.2f} ms a call"
        )
        self._console.print(f"E: minimal Celery, one process of {calls} threads: {words}")
        for is_streamed in (False, True):
            crowd = Crowd(calls, calls, call_s, is_streamed)
            title = f"E: one process, {calls} calls of {call_s:g} s{', streamed' if is_streamed else ''}"
            table = Table("", "", title=title)
            for row in measure_scale(crowd, self._postgres, self._valkey).items():
                table.add_row(*row)
            self._console.print(table)

    def memory(self) -> None:
        jobs = self._options.memory_jobs
        every = max(1, jobs // 20)
        for title, samples in (
            ("worker, PostgreSQL", grow_worker(jobs, every, self._postgres, self._valkey)),
            ("redraft serve, SQLite", grow_serve(jobs, every, self._valkey)),
        ):
            self._console.print(f"memory and descriptors: {title}")
            for done, sample in samples:
                words = (f"{name} {rss_mb:.0f} MB, {count} open" for name, (rss_mb, count) in sample.items())
                self._console.print(f"{done} jobs: {' · '.join(words)}")

    def pages(self) -> None:
        for name, count in (("SQLite", 100_000), ("PostgreSQL", 1_000_000)):
            url = "" if name == "SQLite" else self._postgres.url_of(self._postgres.create_database())
            call_s = 0.5 if name == "SQLite" else 0.0
            title = f"pages, {count:,} jobs on {name}{', beside a worker with 16 calls in flight' if call_s else ''}"
            table = Table("page", "lowest ms", "p50", "highest", title=title)
            found = measure_pages(self._valkey, count, database_url=url, call_s=call_s)
            for page, times in found.items():
                table.add_row(page, *(f"{each:.1f}" for each in times))
            self._console.print(table)


BENCHMARKS: Mapping[str, Callable[[Bench], None]] = {
    "A": Bench.throughput,
    "B": Bench.cpu,
    "C": Bench.latency,
    "D": Bench.bulk,
    "E": Bench.scale,
    "memory": Bench.memory,
    "pages": Bench.pages,
}


def _ratios(title: str, found: Mapping[str, Sequence[Outcome]]) -> Table:
    def middle(name: str, value: Callable[[Outcome], float]) -> float:
        return statistics.median(map(value, found[name]))

    def ratio(name: str, of: str, value: Callable[[Outcome], float]) -> str:
        reference = middle(of, value)
        return f"{middle(name, value) / reference:.2f}" if reference else ""

    table = Table("", "calls/s", "of Celery", "of bare", "CPU ms a call", "of Celery", "submission ms", "of Celery")
    table.title = title
    for name in found:
        table.add_row(
            name,
            f"{middle(name, _rate):.0f}",
            ratio(name, CELERY, _rate),
            ratio(name, BARE, _rate),
            f"{middle(name, _cpu):.2f}",
            ratio(name, CELERY, _cpu),
            f"{middle(name, _submission):.2f}",
            ratio(name, CELERY, _submission),
        )
    return table


def _rate(outcome: Outcome) -> float:
    return outcome.calls_per_s


def _cpu(outcome: Outcome) -> float:
    return outcome.cpu_ms_per_call


def _submission(outcome: Outcome) -> float:
    return outcome.submit_ms


def _shares(title: str, found: Mapping[str, Sequence[Outcome]]) -> Table:
    columns = [f"{name}: ms a call + ms/s idle" for name in PROCESSES]
    table = Table("", *columns, "workers' MB", title=f"{title}: CPU by process")
    for name, outcomes in found.items():
        cells = [
            f"{statistics.median(o.ms_per_call(process) for o in outcomes):.2f}"
            f" + {statistics.median(o.idle_ms.get(process, 0.0) for o in outcomes):.1f}"
            for process in PROCESSES
        ]
        table.add_row(name, *cells, f"{statistics.median(o.rss_mb for o in outcomes):.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=500, help="jobs in A, each with 4 calls; B uses two fifths of them")
    parser.add_argument("--in-flight", type=int, default=500, help="number of calls in flight in A")
    parser.add_argument("--latency", type=float, default=1.0, help="duration of a call in A, in seconds")
    parser.add_argument("--scale", type=int, default=2000, help="number of calls in flight in E")
    parser.add_argument("--memory-jobs", type=int, default=20_000)
    parser.add_argument("--only", choices=BENCHMARKS, help="run one benchmark; memory and pages need this option")
    options = parser.parse_args()
    bench = Bench(options)
    try:
        for name in [options.only] if options.only else "ABCDE":
            BENCHMARKS[name](bench)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
