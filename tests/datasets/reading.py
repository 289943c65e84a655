"""Short forms for tests: files as bytes, their rows and items as lists."""

import io
from collections.abc import Mapping
from typing import Any

from redraft.datasets.items import Item, Merger
from redraft.datasets.rows import BadRow, Row, RowReader

CRITERIA = {"eval_crit": "It is right."}


def reader_of(content: bytes | str, name: str = "", **options: Any) -> RowReader:
    return RowReader(io.BytesIO(content.encode() if isinstance(content, str) else content), name, **options)


def rows_of(content: bytes | str, name: str = "", **options: Any) -> list[Row | BadRow]:
    return list(reader_of(content, name, **options))


def row_of(content: bytes | str, name: str = "", **options: Any) -> Row:
    """The only row, which is good."""
    (row,) = rows_of(content, name, **options)
    assert isinstance(row, Row), row
    return row


def bad_row_of(content: bytes | str, name: str = "", **options: Any) -> BadRow:
    """The only row, which is bad."""
    (row,) = rows_of(content, name, **options)
    assert isinstance(row, BadRow), row
    return row


def items_of(
    content: bytes | str,
    name: str = "",
    *,
    defaults: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Item | BadRow]:
    """With criteria in words by default, as every job needs some."""
    merger = Merger(CRITERIA if defaults is None else defaults, overrides)
    return list(merger.items(reader_of(content, name, **options)))


def good(items: list[Item | BadRow]) -> list[Item]:
    return [item for item in items if isinstance(item, Item)]


def bad(items: list[Any]) -> list[BadRow]:
    return [item for item in items if isinstance(item, BadRow)]


def told(items: list[Any]) -> list[tuple[int, str]]:
    """Line and words of each error."""
    return [(row.line, error.detail) for row in bad(items) for error in row.errors]


def version_of(content: bytes | str, name: str = "", **options: Any) -> str:
    reader = reader_of(content, name, **options)
    list(reader)
    return reader.digest
