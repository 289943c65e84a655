"""`python -m tests.simulation`: run schedules, or show the one of a seed."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.simulation.schedule import Laboratory


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="show the schedule of this seed")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=memory()) as folder:
        laboratory = Laboratory(Path(folder))
        try:
            return show(laboratory, options.seed) if options.seed is not None else search(laboratory, options)
        finally:
            laboratory.close()


def memory() -> str | None:
    """A folder whose files are in memory, if there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def show(laboratory: Laboratory, seed: int) -> int:
    outcome = laboratory.simulate(seed)
    say(*outcome.trace, *outcome.problems)
    return 1 if outcome.problems else 0


def search(laboratory: Laboratory, options: argparse.Namespace) -> int:
    began, cpu, seed, failed = time.monotonic(), time.process_time(), options.first, 0
    counts: Counter[str] = Counter()
    while time.monotonic() - began < options.seconds:
        outcome = laboratory.simulate(seed)
        counts += outcome.counts
        if outcome.problems:
            failed += 1
            say(f"seed {seed}:", *(f"  {words}" for words in outcome.problems))
        seed += 1
    count, cpu_s = seed - options.first, time.process_time() - cpu
    say(f"{count} schedules, {dict(counts)}, {failed} with violations; {60 * count / cpu_s:.0f} a minute of CPU")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
