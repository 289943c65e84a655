"""Reads the files that options name, `-` = stdin: each failure names the option and the file."""

import json
import sys
from pathlib import Path
from typing import Any, BinaryIO, cast

import typer

from redraft.errors import NotFound

STDIN = "-"


def open_file(path: str, option: str) -> BinaryIO:
    """Open a file for reading its bytes.

    Raises:
        NotFound: there is no such file.
        typer.BadParameter: it cannot be opened.
    """
    try:
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise NotFound(f"file for {option}:", path) from error
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror or error}.", param_hint=option) from error


def read_text(path: str, option: str) -> str:
    """Read a file's text, without its byte order mark.

    Raises:
        NotFound: there is no such file.
        typer.BadParameter: it cannot be read, or is not UTF-8.
    """
    if path == STDIN:
        return _decode(sys.stdin.buffer.read(), path, option)
    with open_file(path, option) as stream:
        try:
            content = stream.read()
        except OSError as error:
            raise typer.BadParameter(f"{path} cannot be read: {error.strerror}.", param_hint=option) from error
    return _decode(content, path, option)


def _decode(content: bytes, path: str, option: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        words = f"{name_of(path)} is not UTF-8 text (byte {error.start:,}). Convert it to text first."
        raise typer.BadParameter(words, param_hint=option) from error


def read_json(path: str, option: str) -> Any:
    """Read a file's JSON value.

    Raises:
        NotFound: there is no such file.
        typer.BadParameter: it cannot be read, or is not JSON.
    """
    return parse_json(read_text(path, option), name_of(path), option)


def parse_json(text: str, name: str, option: str) -> Any:
    """Read a JSON value; `name` says where it stands.

    Raises:
        typer.BadParameter: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{name} is not JSON: {error}", param_hint=option) from error


def read_object(value: str, option: str) -> dict[str, Any]:
    """Read a JSON object: from a file, from stdin, or from the value itself where it begins with `{`.

    Raises:
        NotFound: there is no such file.
        typer.BadParameter: it is not a JSON object.
    """
    is_text = value.lstrip().startswith("{")
    body = parse_json(value, "the value", option) if is_text else read_json(value, option)
    if not isinstance(body, dict):
        raise typer.BadParameter(f"{name_of(value)} holds no JSON object.", param_hint=option)
    return cast("dict[str, Any]", body)


def name_of(path: str) -> str:
    """The name of a file for messages."""
    return "stdin" if path == STDIN else path
