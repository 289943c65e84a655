"""From what was typed, piped and read from a file to a request's plain values."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import typer

from redraft.cli.files import STDIN, read_object, read_text


def request_body(instruct: str | None, file: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The request: the file's fields, over them what the options say, and the task.

    Args:
        instruct: the argument; None = from the file or from stdin, `-` = from stdin.
        file: a path, `-` = stdin.
        options: by dotted field name; None = not given.
    """
    body = read_object(file, "--file") if file else {}
    for path, value in options.items():
        if value is not None:
            put(body, path.split("."), value)
    if instruct not in {None, "-"}:
        body["instruct"] = instruct
    elif instruct == "-" or "instruct" not in body:
        body["instruct"] = _piped_task(file)
    return body


def ensure_one_reads_stdin(given: Mapping[str, str | list[str] | None]) -> None:
    """Refuse what would read stdin twice, by options; a task that nobody names is read from it too.

    A request's file may hold the task.
    """
    readers = [name for name, value in given.items() if value == "-" or (isinstance(value, list) and "-" in value)]
    if readers and given["INSTRUCT"] is None and not given["--file"]:
        readers.insert(0, "INSTRUCT")
    if len(readers) > 1:
        words = f"stdin can be read once, and is the value of {' and '.join(readers)}"
        raise typer.BadParameter(f"{words}. Give the task as an argument, or a file.", param_hint=readers[-1])


def task_of(argument: str | None) -> str:
    """The task as it was typed; None or `-`: from stdin."""
    return _piped_task(None) if argument in {None, "-"} else argument or ""


def put(body: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a field within a request; what its path needs is made, labels are added to those there."""
    *parents, last = path
    for name in parents:
        body[name] = _as_object(body.get(name))
        body = body[name]
    body[last] = {**_as_object(body.get(last)), **value} if last == "metadata" else value


def _as_object(value: Any) -> dict[str, Any]:
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}


def _piped_task(file: str | None) -> str:
    if file == "-" or sys.stdin.isatty():
        raise typer.BadParameter(
            "Say what you want: redraft ask 'Explain recursion to a child.'", param_hint="INSTRUCT"
        )
    return read_text(STDIN, "INSTRUCT").rstrip("\n")
