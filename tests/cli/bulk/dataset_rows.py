"""Rows of datasets, and files of them, for the tests of bulk commands."""

import json
from pathlib import Path
from typing import Any

MESSY = (
    "\ufeffid;question;expected;instrct\r\n"
    'a;"two\r\nlines";x;\r\n'
    "\r\n"
    "b;What?;;zz\r\n"
    "a;again;;\r\n"
    "c;short\r\n"
    "d;How?;y;\r\n"
)
"""A byte order mark, semicolons, CRLF, a line end in quotes, a blank line, an id twice, a row cut short."""


def rows(count: int, **more: Any) -> str:
    """JSON lines r0, r1, …; each names its case, so that a script can answer it by itself."""
    return "".join(
        json.dumps({"custom_id": f"r{n}", "instruct": f"Say {n}. [[case:r{n}]]", **more}) + "\n" for n in range(count)
    )


def rows_file(count: int, name: str = "rows.jsonl", **more: Any) -> str:
    """A file in the current folder, which is the test's own."""
    return write(name, rows(count, **more))


def write(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name
