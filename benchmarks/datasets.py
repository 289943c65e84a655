"""Writes and reads datasets of any size.

`python -m benchmarks.datasets write rows.jsonl --rows 1000000` writes a file. `… read rows.jsonl` reads the file like
an import, which merges and validates each row, and prints the rows per second and the maximum memory of the process.
"""

import argparse
import csv
import json
import resource
import sys
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TextIO

from redraft.datasets.items import Item, Merger
from redraft.datasets.rows import RowReader

_COLUMNS = ("custom_id", "question", "expected", "eval_crit", "iter_max", "metadata.part", "note")
# Linux counts in kilobytes, macOS in bytes.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.datasets")
    parser.add_argument("verb", choices=["write", "read"])
    parser.add_argument("path", type=Path, help=".jsonl, .json or .csv")
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    if options.verb == "write":
        write(options.path, options.rows)
    else:
        read(options.path)


def rows_of(count: int) -> Iterator[dict[str, Any]]:
    """Yield rows with sums and their answers."""
    for number in range(count):
        one, other = number % 997, number // 997
        yield {
            "custom_id": f"sum-{number:08}",
            "question": f"What is {one} + {other}? Answer with the number alone.",
            "expected": str(one + other),
            "eval_crit": "The number is right and stands alone.",
            "iter_max": 1 + number % 3,
            "metadata.part": str(number % 16),
            "note": "a column that fills no field",
        }


def write(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        match path.suffix:
            case ".csv":
                table = csv.DictWriter(file, _COLUMNS)
                table.writeheader()
                table.writerows(rows_of(count))
            case ".json":
                _write_array(file, count)
            case _:
                file.writelines(json.dumps(row) + "\n" for row in rows_of(count))


def _write_array(file: TextIO, count: int) -> None:
    for before, row in zip(chain(["[\n"], repeat(",\n")), rows_of(count), strict=False):
        file.writelines([before, json.dumps(row, indent=1)])
    file.write("\n]\n")


def read(path: Path) -> None:
    began = time.perf_counter()
    with path.open("rb") as file:
        reader = RowReader(file, path.name)
        good = sum(isinstance(item, Item) for item in Merger().items(reader))
    took = time.perf_counter() - began
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
    print(f"{reader.seen:,} rows, {good:,} good, {reader.seen / took:,.0f} rows/s, {rss / 1e6:,.0f} MB at most")
    print(f"version {reader.digest}")


if __name__ == "__main__":
    main()
