"""Reads and writes the files that options name. `-` is stdin. Each error names the option and the file."""

import json
import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import typer

from redraft.errors import Invalid, NotFound

STDIN = "-"


def open_file(path: str, option: str) -> BinaryIO:
    """Open a file. Raises NotFound if the file does not exist, and typer.BadParameter if it cannot be opened."""
    try:
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise NotFound(f"file for {option}:", path) from error
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror or error}.", param_hint=option) from error


def read_text(path: str, option: str) -> str:
    """Read a text file without its byte order mark.

    Raises NotFound if the file does not exist, and typer.BadParameter if it cannot be read or is not UTF-8.
    """
    content = sys.stdin.buffer.read() if path == STDIN else read_bytes(path, option)
    return _decode(content, path, option)


def read_bytes(path: str, option: str) -> bytes:
    """Read a file. Raises NotFound if it does not exist, and typer.BadParameter if it cannot be read."""
    with open_file(path, option) as stream:
        try:
            return stream.read()
        except OSError as error:
            raise typer.BadParameter(f"{path} cannot be read: {error.strerror}.", param_hint=option) from error


def _decode(content: bytes, path: str, option: str) -> str:
    try:
        # Some programs write a byte order mark at the beginning, which JSON does not allow
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        words = f"{name_of(path)} is not UTF-8 text (byte {error.start:,}). Convert it to text first."
        raise typer.BadParameter(words, param_hint=option) from error


def read_json(path: str, option: str) -> Any:
    """Parse a JSON file. Raises like `read_text`, and typer.BadParameter if the text is not JSON."""
    return _parse(read_text(path, option), name_of(path), option)


def _parse(text: str, name: str, option: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{name} is not JSON: {error}", param_hint=option) from error


def read_object(value: str, option: str) -> dict[str, Any]:
    """Parse a JSON object in a file or on stdin, or the value itself if it begins with `{`.

    Raises like `read_json`, and typer.BadParameter if the JSON is not an object.
    """
    is_text = value.lstrip().startswith("{")
    body = _parse(value, "the value", option) if is_text else read_json(value, option)
    if not isinstance(body, dict):
        raise typer.BadParameter(f"{name_of(value)} is not a JSON object.", param_hint=option)
    return cast("dict[str, Any]", body)


def name_of(path: str) -> str:
    return "stdin" if path == STDIN else path


def write_file(file: Path, lines: Iterable[str], option: str) -> None:
    """Write the lines to a file, and replace an existing file. Raises Invalid if the file cannot be written."""
    try:
        with _replacing(file) as stream:
            stream.writelines(lines)
    except OSError as error:
        raise Invalid.at(option, f"{file} cannot be written: {error.strerror}.", "output") from error


@contextmanager
def _replacing(file: Path) -> Generator[IO[str]]:
    """Yield a stream. Its content replaces the file at the end of the block.

    After an interruption the file has its old content, never a part of the new content.
    """
    # The new file is written beside the old one, because a replacement is atomic only within one file system
    folder = file.absolute().parent
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=folder) as beside:
        part = Path(beside) / file.name
        # Lines of CSV end with CRLF, which must not be translated
        with part.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        part.replace(file)
