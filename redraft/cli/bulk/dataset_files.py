"""Opens and imports datasets from files and stdin, and finds stored datasets by id or name."""

import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict, Unpack

import typer

from redraft.cli import output
from redraft.cli.bulk.dataset_pages import ways_to_use
from redraft.cli.files import STDIN, open_file
from redraft.datasets.columns import listed, shown, suggestion
from redraft.operations.bulk.datasets import Dataset

if TYPE_CHECKING:
    from redraft.cli.backends.opening import Backend
    from redraft.datasets.formats import Format

_COLUMNS_SHOWN = 5
_FILE_CHARS = frozenset("./\\")


@contextmanager
def opened_file(text: str) -> Generator[tuple[BinaryIO, str]]:
    """Yield a file and its name. Stdin (`-`) is copied to a file, because Parquet is not read from start to end."""
    if text == STDIN:
        with tempfile.TemporaryFile() as kept:
            if sys.stdin.isatty():
                raise typer.BadParameter(
                    "'-' reads stdin, but nothing is piped into the command.", param_hint="DATASET"
                )
            shutil.copyfileobj(sys.stdin.buffer, kept)
            kept.seek(0)
            yield kept, "stdin"
        return
    with open_file(text, "DATASET") as stream:
        yield stream, Path(text).name


def folder_of(text: str) -> Path | None:
    """Return the folder of a file, whose images and PDFs the rows can attach. Return None for stdin."""
    return None if text == STDIN else Path(text).parent


class Reading(TypedDict):
    """How to read a file of rows: its format, and a mapping of fields to columns."""

    file_format: "Format | None"
    mapping: Mapping[str, str]


def import_named(backend: "Backend", text: str, **reading: Unpack[Reading]) -> tuple[Dataset, bool]:
    """Import a file or find a stored dataset. Return the dataset, and whether it is new.

    Raises NotFound if there is no such file or dataset.
    """
    # The error for a text with a dot or a slash must name a missing file, not an unknown id
    if text != STDIN and not Path(text).exists() and not _FILE_CHARS & set(text):
        return backend.get_dataset(backend.find("dataset", text)), False
    return import_file(backend, text, **reading)


def import_file(backend: "Backend", text: str, **reading: Unpack[Reading]) -> tuple[Dataset, bool]:
    """Store the rows of a file. Return the dataset, and whether it is new. Raises Invalid for an unreadable file."""
    console = output.stderr()
    words = output.styled(f"reading {output.one_line(text, 60)}", "dim")
    spinner = console.status(words) if console.is_interactive else nullcontext()
    with opened_file(text) as (stream, name), spinner:
        found, is_new = backend.import_dataset(stream, name, folder_of(text), **reading)
    _print_columns(found)
    return found, is_new


def _print_columns(dataset: Dataset) -> None:
    """Print notes on mapped columns that no row has, and on unused columns."""
    for column in dataset.columns["never_seen"]:
        output.say(f"Note: no row has the column {shown(column)} that --map names.", "yellow")
    unused = list(dataset.columns["unused"])
    meant = {name: field for name in unused if (field := suggestion(name))}
    for name, field in list(meant.items())[:_COLUMNS_SHOWN]:
        output.say(
            f"Note: column {shown(name)} fills no field. If it contains {field}, use --map {field}={name}", "yellow"
        )
    if others := [name for name in unused if name not in meant]:
        output.say(f"Unused columns: {listed(others)}. {ways_to_use(others[0])}", "dim")
