"""Opens datasets as people name them: a file, stdin, or the id of one that is stored."""

import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer

from redraft.cli import output
from redraft.cli.files import STDIN, open_file
from redraft.datasets.columns import shown, suggestion
from redraft.operations.bulk import datasets
from redraft.operations.bulk.datasets import Dataset
from redraft.operations.jobs import references

if TYPE_CHECKING:
    from redraft.datasets.formats import Format
    from redraft.operations.services import Services

_COLUMNS_SHOWN = 5
_FILE_CHARS = frozenset("./\\")


@contextmanager
def opened_file(text: str) -> Generator[tuple[BinaryIO, str]]:
    """A file's bytes and its name; `-` is stdin, which is kept aside first, so that it can be read as any file can."""
    if text == STDIN:
        with tempfile.TemporaryFile() as kept:
            _keep_stdin(kept)
            yield kept, "stdin"
        return
    with open_file(text, "DATASET") as stream:
        yield stream, Path(text).name


def _keep_stdin(kept: BinaryIO) -> None:
    if sys.stdin.isatty():
        raise typer.BadParameter("'-' reads stdin, and nothing is piped into it.", param_hint="DATASET")
    shutil.copyfileobj(sys.stdin.buffer, kept)
    kept.seek(0)


def import_named(
    services: "Services", text: str, *, file_format: "Format | None" = None, mapping: Mapping[str, str] | None = None
) -> tuple[Dataset, bool]:
    """The dataset of a file, or the one with that id; and whether it is new.

    Raises:
        NotFound: there is neither.
        Invalid: the file as a whole cannot be read.
    """
    if not _is_file(text):
        return datasets.get_dataset(services, references.find_dataset_id(services, text)), False
    return import_file(services, text, file_format=file_format, mapping=mapping)


def import_file(
    services: "Services", text: str, *, file_format: "Format | None" = None, mapping: Mapping[str, str] | None = None
) -> tuple[Dataset, bool]:
    """Store the rows of a file, `-` = stdin; whether they are new.

    Raises:
        Invalid: the file as a whole cannot be read.
    """
    with opened_file(text) as (stream, name), _reading(text):
        found, is_new = datasets.import_dataset(services, stream, name, file_format=file_format, mapping=mapping)
    _print_columns(found)
    return found, is_new


def _is_file(text: str) -> bool:
    """A text that looks like a file name is reported as a missing file, not as an unknown id."""
    return text == STDIN or Path(text).exists() or bool(_FILE_CHARS & set(text))


def _reading(text: str) -> AbstractContextManager[object]:
    console = output.stderr()
    if not console.is_terminal or console.is_dumb_terminal:
        return nullcontext()
    return console.status(output.styled(f"reading {output.one_line(text, 60)}", "dim"))


def _print_columns(dataset: Dataset) -> None:
    """Print mapped columns that no row has, and columns whose names resemble a field."""
    for column in dataset.columns["never_seen"]:
        output.say(f"Note: no row has the column {shown(column)} that --map names.", "yellow")
    meant = [(name, field) for name in dataset.columns["unused"] if (field := suggestion(name))]
    for name, field in meant[:_COLUMNS_SHOWN]:
        output.say(f"Note: column {shown(name)} fills no field; if it is {field}: --map {field}={name}", "yellow")
