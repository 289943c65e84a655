"""Writes results one line at a time: JSON lines, and CSV that a spreadsheet can open safely.

A spreadsheet computes a cell that begins with `=`, `+`, `-`, `@` (or their full-width forms), a tab or a line end as a
formula, which can send the other cells to a server. Such a text gets an apostrophe before it, which means "text";
numbers do not. Many spreadsheets also split cells at semicolons, tabs and line ends within quotes, so a formula behind
one of these gets an apostrophe too. JSON lines have every text unchanged.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from redraft.datasets.lines import BOM

_SIGNS = "=+\\-@＝＋－＠"  # noqa: RUF001 - full-width forms are formulas, too
_FORMULA = re.compile(rf"\s*[{_SIGNS}]|[\t\r\n]")
# A minus or plus at the beginning of a line, with a blank behind it, is the bullet of a list.
# The lookahead stops at the next tab, where the search starts again: the time is linear in the length of the text.
_FORMULA_WITHIN = re.compile(rf"(?<=[;\t])(?=[^\S\r\n\t]*[{_SIGNS}])|(?<=[\r\n])(?=[^\S\r\n]*(?![+-]\s)[{_SIGNS}])")


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, bom: bool = False) -> Iterator[str]:
    """A header and the rows as CSV of RFC 4180. A missing value is an empty cell; objects and lists are JSON.

    `bom`: begin with a byte order mark, by which Excel recognizes UTF-8.
    """
    yield (BOM if bom else "") + _record(columns)
    for row in rows:
        yield _record([row.get(column) for column in columns])


def jsonl_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    """A JSON object on a line for each row, with all columns in order; a missing value is null."""
    for row in rows:
        named = {column: row.get(column) for column in columns}
        yield json.dumps(named, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"


def cell_of(value: Any) -> str:
    """The text of a cell that no spreadsheet computes."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list | tuple):
        return escape_formulas(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
    return str(value) if isinstance(value, int | float | Decimal) else escape_formulas(str(value))


def escape_formulas(text: str) -> str:
    """The text with an apostrophe before each part that a spreadsheet could compute."""
    return ("'" if _FORMULA.match(text) else "") + _FORMULA_WITHIN.sub("'", text)


def _record(values: Sequence[Any]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerow([cell_of(value) for value in values])
    return buffer.getvalue()
