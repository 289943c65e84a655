"""Builds request bodies from arguments, options, stdin and files."""

import base64
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import typer

from redraft.cli import output
from redraft.cli.files import STDIN, read_bytes, read_object, read_text

DEFAULT_CRITERION = "Answers the task completely and correctly, in the wanted form."


def request_body(instruct: str | None, file: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Build a request from a file. The options, by dotted field name, override fields of the file.

    An option with the value None is not given. The task is `instruct`. If `instruct` is None, the task is in the file,
    or else on stdin. If `instruct` is `-`, the task is on stdin.
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


def read_attachments(paths: Sequence[str] | None) -> list[dict[str, Any]] | None:
    """Return the images and PDFs in files as attachments, with their names as titles. Without files, return None.

    Raises NotFound if a file does not exist, and typer.BadParameter if it cannot be read or has another type.
    """
    return [_attachment(path) for path in paths] if paths else None


def _attachment(path: str) -> dict[str, Any]:
    from redraft.domain.jobs.attachments import MEDIA_TYPES, media_type_of

    content = read_bytes(path, "--attach")
    media_type = media_type_of(content)
    if media_type is None:
        words = f"{path} is none of the types {', '.join(MEDIA_TYPES)}."
        raise typer.BadParameter(words, param_hint="--attach")
    return {"media_type": media_type, "data": base64.b64encode(content).decode(), "title": Path(path).name[:200]}


def ensure_one_reads_stdin(given: Mapping[str, str | list[str] | None]) -> None:
    """Raise typer.BadParameter if more than one argument or option reads stdin."""
    readers = [name for name, value in given.items() if value == "-" or (isinstance(value, list) and "-" in value)]
    # If the argument is missing, the task is read from stdin, unless a request file can contain it
    if readers and given["INSTRUCT"] is None and not given["--file"]:
        readers.insert(0, "INSTRUCT")
    if len(readers) > 1:
        words = f"stdin can be read only once, but it is the value of {' and '.join(readers)}"
        raise typer.BadParameter(f"{words}. Give the task as an argument, or use a file.", param_hint=readers[-1])


def put(body: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a field by its path, and create missing parent objects. `metadata` and `vars` are merged."""
    *parents, last = path
    for name in parents:
        body[name] = _as_object(body.get(name))
        body = body[name]
    body[last] = {**_as_object(body.get(last)), **value} if last in {"metadata", "vars"} else value


def _as_object(value: Any) -> dict[str, Any]:
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}


def _piped_task(file: str | None) -> str:
    if file == "-" or sys.stdin.isatty():
        raise typer.BadParameter(
            "The task is missing. Example: redraft ask 'Explain recursion to a child.'", param_hint="INSTRUCT"
        )
    # `echo` and editors add a line end, which is not part of the task
    return read_text(STDIN, "INSTRUCT").rstrip("\n")


def add_checks(body: dict[str, Any], checks: Sequence[str] | None) -> None:
    """Append checks (KIND=VALUE) to the rubric. Raises typer.BadParameter if a check is not valid."""
    if not checks:
        return
    rubric: Any = body.get("rubric") or []
    if not isinstance(rubric, list):
        return
    lines = [*cast("list[Any]", rubric)]
    # If a rubric has only checks, no model reads `eval_crit`. So `eval_crit` becomes a criterion of the rubric
    if not lines and body.get("eval_crit"):
        lines.append({"id": "criteria", "text": body.pop("eval_crit")})
    output.given_checks.set({f"/rubric/{index}": text for index, text in enumerate(checks, len(lines))})
    for text in checks:
        lines.append(_check(text, lines))
    body["rubric"] = lines


def _check(text: str, before: Sequence[Any]) -> dict[str, Any]:
    from redraft.domain.checks.shorthand import read_check
    from redraft.domain.jobs.drafts import kebab, unused_id

    kind, equals, value = text.partition("=")
    kind = kind.strip().replace("-", "_")
    try:
        check = read_check(kind, value if equals else None)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}", param_hint="--check") from error
    taken = [str(cast("Mapping[str, Any]", each).get("id")) for each in before if isinstance(each, dict)]
    return {
        "id": unused_id(kebab(kind), taken),
        "kind": "check",
        "required": True,
        "check": check.model_dump(mode="json", exclude_none=True),
    }


def ensure_criteria(body: dict[str, Any]) -> bool:
    """Add the default criterion to a request without criteria. Return whether it was added."""
    has_own = body.get("eval_crit") is not None or body.get("rubric") is not None
    # Profiles other than `criteria` have their own criteria
    if has_own or body.get("profile", "criteria") != "criteria":
        return False
    body["eval_crit"] = DEFAULT_CRITERION
    return True
