"""Results as text, one line at a time: JSON lines, and CSV that a spreadsheet may open.

A spreadsheet takes a cell for a formula that begins with `=`, `+`, `-`, `@` (or their full-width forms), a tab or a
line end, and a formula can send the other cells away. Such a cell gets one apostrophe before it, which says "text".
Plain numbers such as -0.5 or +1e-3 are left alone: they compute nothing. JSON lines hold every text as it is.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

BOM = "\ufeff"

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")  # noqa: RUF001 - full-width forms are formulas, too
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, bom: bool = False) -> Iterator[str]:
    """A header, and a record for each row, in CSV of RFC 4180: commas, quotes where needed, CRLF.

    Args:
        rows: values by column; one that is missing or None is an empty cell, objects and lists are JSON.
        columns: which ones, in order; what a row has beyond them is left out.
        bom: whether to begin with a byte order mark, by which Excel knows UTF-8.
    """
    yield (BOM if bom else "") + _record(columns)
    for row in rows:
        yield _record([row.get(column) for column in columns])


def jsonl_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    """A JSON object on a line for each row, with all columns in order; what is missing is null."""
    for row in rows:
        named = {column: row.get(column) for column in columns}
        yield json.dumps(named, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"


def cell_of(value: Any) -> str:
    """A value as the text of a cell that no spreadsheet computes."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return defused(str(value))


def defused(text: str) -> str:
    """A text that is no formula: with an apostrophe before it if it could be taken for one."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _record(values: Sequence[Any]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerow([cell_of(value) for value in values])
    return buffer.getvalue()
