"""Reads files of an import: bounded in size, and only within one folder if another file names them."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from redraft.datasets.json_rows import parse_json
from redraft.importing.texts import NotCarried
from redraft.importing.yaml_values import parse_yaml

FILE_BYTES_MAX = 50_000_000
YAML_BYTES_MAX = 5_000_000
FILES_MAX = 1000
ROWS_MAX = 100_000


def read_text(path: Path, most: int = FILE_BYTES_MAX) -> str:
    """Read a text file. Raises NotCarried if it is no regular file, too large or not UTF-8."""
    try:
        if not path.is_file():
            raise NotCarried(f"there is no file {path.name}")
        if path.stat().st_size > most:
            raise NotCarried(f"{path.name} is larger than {most // 1_000_000} MB")
        with path.open("rb") as stream:
            # The file can grow after its size was read
            content = stream.read(most + 1)
    except OSError as error:
        raise NotCarried(f"{path.name} cannot be read: {error.strerror}") from error
    if len(content) > most:
        raise NotCarried(f"{path.name} is larger than {most // 1_000_000} MB")
    try:
        # Some programs write a byte order mark, which is no part of the text
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotCarried(f"{path.name} is not UTF-8 text") from error


def read_yaml(path: Path) -> Any:
    """Parse a YAML file. Raises NotCarried."""
    try:
        return parse_yaml(read_text(path, YAML_BYTES_MAX))
    except ValueError as error:
        raise NotCarried(f"{path.name} {error}") from error


def read_json(path: Path) -> Any:
    """Parse a JSON file. Raises NotCarried."""
    return json_of(read_text(path), path.name)


def json_of(text: str, name: str) -> Any:
    """Parse a JSON text. Raises NotCarried."""
    try:
        return parse_json(text)
    except ValueError as error:
        raise NotCarried(f"{name} {error}") from error


def json_lines(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """Yield each value of JSON lines, with its line number. Raises NotCarried."""
    # `splitlines` would also split at characters such as U+2028, which may occur in JSON
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, json_of(line, f"{name}, line {number},")


def csv_rows(text: str, name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV text by the names of its columns. Raises NotCarried."""
    try:
        # In the default mode, a wrong quote would silently shift all cells after it
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise NotCarried(f"{name} is no CSV: {error}") from error
    if not rows or len(set(rows[0])) != len(rows[0]):
        raise NotCarried(f"{name} needs a first line with a different name for each column")
    if len(rows) > ROWS_MAX:
        raise NotCarried(f"{name} has more than {ROWS_MAX:,} rows")
    head, *rest = rows
    for number, row in enumerate(rest, 2):
        if row and len(row) != len(head):
            raise NotCarried(f"{name}, row {number}, has {len(row)} cells instead of {len(head)}")
    return [dict(zip(head, row, strict=True)) for row in rest if row]


class Folder:
    """The folder of a configuration. Files outside of it are not read, not even through links."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._files = 0

    def find(self, name: str) -> list[Path]:
        """Return the files that a name or a pattern with `*` names, in order. Raises NotCarried if there is none."""
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise NotCarried(f"{name} is outside of the folder of the configuration")
        if any(sign in name for sign in "*?["):
            try:
                paths = sorted(self.root.glob(name))[: FILES_MAX + 1]
            except (ValueError, NotImplementedError) as error:
                raise NotCarried(f"{name} is no usable pattern: {error}") from error
            paths = [path for path in paths if path.is_file()]
        else:
            paths = [self.root / name]
        if not paths:
            raise NotCarried(f"no file matches {name}")
        return [self._within(path, name) for path in paths]

    def _within(self, path: Path, name: str) -> Path:
        self._files += 1
        if self._files > FILES_MAX:
            raise NotCarried(f"the configuration names more than {FILES_MAX:,} files")
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise NotCarried(f"{name} cannot be read: {error}") from error
        if not resolved.is_relative_to(self.root):
            raise NotCarried(f"{name} is outside of the folder of the configuration")
        return resolved
