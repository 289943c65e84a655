"""Reads Parquet files in a child process with limits. This needs pyarrow (`pip install redraft[parquet]`)."""

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any, BinaryIO, cast

from redraft.datasets.json_rows import parse_json
from redraft.datasets.lines import ROW_CHARS_MAX, Line, lines_of
from redraft.errors import Invalid
from redraft.sandbox.parquet import CPU_S, MEMORY_MAX

# The maximum size of all rows as JSON, because a few kilobytes of Parquet can contain any number of equal rows
UNPACKED_CHARS_MAX = 4 << 30


class ParquetTable:
    """A Parquet file: its column names (`header`), and its rows as lines of JSON.

    Raises Invalid if pyarrow is not installed (`parquet_missing`), the file is no Parquet (`unknown_format`), or the
    unpacked file is too large (`file_too_large`).
    """

    def __init__(
        self, stream: BinaryIO, longest: int = ROW_CHARS_MAX, unpacked_chars_max: int = UNPACKED_CHARS_MAX
    ) -> None:
        if find_spec("pyarrow") is None:
            words = "Parquet needs pyarrow: pip install 'redraft[parquet]', or save the dataset as JSONL."
            raise Invalid(words, code="parquet_missing")
        if not stream.seekable():
            raise Invalid("Parquet is read from a file, not from a pipe.", code="unknown_format")
        self._stream = stream
        self._longest = longest
        self._unpacked_chars_max = unpacked_chars_max
        self.header: list[str] = [name for line in self._unpacked("header") for name in parse_json(line.text)]

    def rows(self) -> Iterator[Line]:
        """Yield each row, with its row number as line number. Raises Invalid if the file is damaged or too large."""
        left = self._unpacked_chars_max
        for line in self._unpacked("rows"):
            left -= line.length
            if left < 0:
                words = f"The file unpacks to more than {self._unpacked_chars_max:,} characters; split it."
                raise Invalid(words, code="file_too_large")
            yield line

    def _unpacked(self, what: str) -> Generator[Line]:
        with _child(self._stream, what) as child:
            for line in lines_of(cast("io.TextIOWrapper", child.stdout), self._longest):
                # The child process writes rows as objects, and an error as a text
                if line.text.startswith('"'):
                    raise Invalid(f"The file is no Parquet: {parse_json(line.text)}", code="unknown_format")
                yield line
            if child.wait():
                words = f"The file cannot be unpacked within {MEMORY_MAX >> 30} GiB of memory and {CPU_S:g} s of"
                words += " computing for some rows. Save it as JSONL, or with smaller row groups."
                raise Invalid(words, code="file_too_large")


@contextmanager
def _child(stream: BinaryIO, what: str) -> Generator["subprocess.Popen[Any]"]:
    """Start a process that unpacks the stream, and end it with the block."""
    with ExitStack() as parts:
        file = _with_number(stream, parts)
        file.seek(0)
        # This process's environment has keys, so the child does not get it. Arrow's own memory pools would reserve more
        # memory than the limit allows
        child = subprocess.Popen(  # noqa: S603 - our own command, no shell
            [sys.executable, "-I", "-m", "redraft.sandbox.parquet", what],
            env={"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"},
            stdin=file.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        parts.enter_context(child)
        parts.callback(child.kill)
        yield child


def _with_number(stream: BinaryIO, parts: ExitStack) -> BinaryIO:
    """Return the stream if another process can read it, otherwise a copy in a temporary file."""
    try:
        stream.fileno()
    except OSError:
        stream.seek(0)
        copy = cast("BinaryIO", parts.enter_context(tempfile.TemporaryFile()))  # noqa: SIM115 - `parts` closes it
        shutil.copyfileobj(stream, copy)
        copy.flush()
        return copy
    return stream
