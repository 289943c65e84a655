"""`python -I -m redraft.sandbox.parquet header|rows`: reads a Parquet file from standard input.

The process writes one JSON value per line: an array with the names of the columns, or an object for each row, or a
string with the error of the file. A small file can unpack to any size, so the kernel limits the memory of this process,
and the CPU time of each batch of rows.
"""

import json
import math
import signal
import sys
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, cast

from redraft.sandbox.limits import limit

MEMORY_MAX = 1 << 30
CPU_S = 20.0
_BATCH_ROWS_MAX = 500
_BATCH_BYTES = 32 << 20
_REASON_CHARS = 200


def main(what: str) -> None:
    """Write the header or the rows, or the error of the file."""
    limit(MEMORY_MAX)
    _start_clock()
    import pyarrow.parquet

    try:
        file: Any = cast("Any", pyarrow.parquet).ParquetFile(sys.stdin.buffer, pre_buffer=False)
        if what == "header":
            _write(list(file.schema_arrow.names))
            return
        _start_clock()
        for batch in file.iter_batches(batch_size=_batch_rows(file), use_threads=False):
            for row in batch.to_pylist():
                _write(plain(row))
            _start_clock()
    except MemoryError:
        sys.exit(1)
    except (OSError, ValueError, NotImplementedError) as error:
        _write(str(error)[:_REASON_CHARS])


def _start_clock() -> None:
    signal.setitimer(signal.ITIMER_PROF, CPU_S)


def _batch_rows(file: Any) -> int:
    """Return the number of rows for a batch of bounded size, by the sizes in the metadata of the file."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    largest = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=0)
    return max(1, min(_BATCH_ROWS_MAX, int(_BATCH_BYTES / max(1, largest))))


def _write(value: Any) -> None:
    sys.stdout.write(json.dumps(value, default=str) + "\n")


def plain(value: Any) -> Any:
    """Convert a value for JSON: times and amounts to text, bytes to text, NaN to null. Null fields are left out."""
    if isinstance(value, dict):
        named = cast("dict[Any, Any]", value)
        return {str(name): plain(each) for name, each in named.items() if each is not None}
    if isinstance(value, list | tuple):
        return [plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, float) and math.isnan(value):
        return None
    return str(value) if isinstance(value, Decimal) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
