"""Results as text, one line at a time: JSON lines, and CSV that a spreadsheet may open.

A spreadsheet takes a cell for a formula that begins with `=`, `+`, `-`, `@` (or their full-width forms), a tab or a
line end, and a formula can send the other cells away. Such a cell gets one apostrophe before it, which says "text".
Numbers are written as they are; a text that looks like one is a text. Many spreadsheets separate cells at semicolons
or tabs, whatever quotes stand around them, so that a formula within a text gets an apostrophe, too, wherever such a
cell or line could begin. JSON lines hold every text as it is.
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
# A minus or plus at the beginning of a line, with a blank behind it, is a list's bullet.
# From one tab on it is not looked beyond the next, which is looked at itself: the time is that of the text's length.
_FORMULA_WITHIN = re.compile(rf"(?<=[;\t])(?=[^\S\r\n\t]*[{_SIGNS}])|(?<=[\r\n])(?=[^\S\r\n]*(?![+-]\s)[{_SIGNS}])")


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
        return defused(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
    return str(value) if isinstance(value, int | float | Decimal) else defused(str(value))


def defused(text: str) -> str:
    """A text that is no formula: with an apostrophe wherever a part of it could be taken for one."""
    return ("'" if _FORMULA.match(text) else "") + _FORMULA_WITHIN.sub("'", text)


def _record(values: Sequence[Any]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerow([cell_of(value) for value in values])
    return buffer.getvalue()
