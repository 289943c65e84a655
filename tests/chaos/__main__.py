"""`make chaos`: storms on PostgreSQL and on SQLite; exit code 1 if anything is wrong afterwards."""

import argparse
import random
import sys

from rich.console import Console
from rich.table import Table

from tests.chaos.stage import Kind
from tests.chaos.storms.storm import Report, Size, run_storm


def main() -> int:
    options = _options()
    seed = options.seed if options.seed is not None else random.randrange(1, 10**6)
    console = Console(highlight=False)
    console.print(f"seed {seed}; again with: make chaos SEED={seed} JOBS={options.jobs} FAULTS={options.faults}")
    reports = [_storm(console, kind, seed, options) for kind in options.on]
    for report in reports:
        _show(console, report)
    return 1 if any(report.violations for report in reports) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seed", type=int, help="replays the same jobs and faults; without it one is drawn")
    parser.add_argument("--jobs", type=int, default=500, help="on PostgreSQL; SQLite gets two fifths")
    parser.add_argument("--faults", type=int, default=60, help="on PostgreSQL; SQLite gets two fifths")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--on", nargs="+", choices=["postgresql", "sqlite"], default=["postgresql", "sqlite"])
    return parser.parse_args()


def _storm(console: Console, kind: Kind, seed: int, options: argparse.Namespace) -> Report:
    share = 1.0 if kind == "postgresql" else 0.4
    faults = round(options.faults * share)
    size = Size(round(options.jobs * share), options.workers, faults)
    return run_storm(kind, seed, size, lambda words: console.print(words, style="dim"))


def _show(console: Console, report: Report) -> None:
    table = Table("faults", "times", title=f"{report.kind}, seed {report.seed}, {report.seconds:.0f} s", min_width=50)
    for name, count in sorted(report.faults.items()):
        table.add_row(name, str(count))
    console.print(table)
    console.print(f"jobs by stop reason: {_told(report.stop_reasons)}")
    console.print(f"calls by outcome: {_told(report.calls)}; {report.requests} requests, {report.wasted} wasted")
    console.print(f"steps with wasted calls: {report.wasted_steps}, at most {report.wasted_steps_max}")
    console.print(f"ends of processes by exit code: {_told(report.exits)}; slowest POST {report.slowest_post_s:.2f} s")
    if not report.violations:
        console.print("no violation", style="green")
    for words in report.violations:
        console.print(f"VIOLATION {words}", style="red", soft_wrap=True)


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
