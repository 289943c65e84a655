"""Writes results one line at a time, as JSON lines or as CSV that is safe to open in a spreadsheet.

A spreadsheet treats a cell as a formula if it begins with `=`, `+`, `-`, `@` (or their full-width forms), a tab or a
line end. A formula can send other cells to a server. So an apostrophe, which marks a cell as text, is put before such a
text. Numbers are not changed. Many spreadsheets split cells at semicolons, tabs and line ends, even in quotes. So
an apostrophe is also put before a formula that follows one of these. In JSON lines, texts are not changed.
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
# A minus or plus before a blank at the beginning of a line is a list bullet, and not a formula. The lookahead stops at
# a tab, because the search starts again after it. So the time is linear in the length of the text
_FORMULA_WITHIN = re.compile(rf"(?<=[;\t])(?=[^\S\r\n\t]*[{_SIGNS}])|(?<=[\r\n])(?=[^\S\r\n]*(?![+-]\s)[{_SIGNS}])")


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, bom: bool = False) -> Iterator[str]:
    """Yield a header and the rows as CSV (RFC 4180). A missing value is an empty cell. Objects and lists are JSON.

    `bom`: begin with a byte order mark, because Excel recognizes UTF-8 by it.
    """
    yield (BOM if bom else "") + _record(columns)
    for row in rows:
        yield _record([row.get(column) for column in columns])


def jsonl_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    """Yield a line with a JSON object for each row, with all columns in order. A missing value is null."""
    for row in rows:
        named = {column: row.get(column) for column in columns}
        yield json.dumps(named, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"


def cell_of(value: Any) -> str:
    """Return the text of a cell, safe for spreadsheets."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list | tuple):
        return escape_formulas(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
    return str(value) if isinstance(value, int | float | Decimal) else escape_formulas(str(value))


def escape_formulas(text: str) -> str:
    """Put an apostrophe before each part of a text that a spreadsheet could treat as a formula."""
    return ("'" if _FORMULA.match(text) else "") + _FORMULA_WITHIN.sub("'", text)


def _record(values: Sequence[Any]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerow([cell_of(value) for value in values])
    return buffer.getvalue()
