"""Parquet, by pyarrow, which is there with `pip install redraft[parquet]`."""

import math
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from importlib import import_module
from typing import Any, BinaryIO, cast

from redraft.errors import Invalid

_BATCH_ROWS = 500


class ParquetTable:
    """The columns of a Parquet file, and then its rows.

    Attributes:
        header: the names of the columns.

    Raises:
        Invalid: pyarrow is not there (`parquet_missing`), or the file is none (`unknown_format`).
    """

    def __init__(self, stream: BinaryIO) -> None:
        try:
            module: Any = import_module("pyarrow.parquet")
        except ImportError:
            words = "Parquet needs pyarrow: pip install 'redraft[parquet]', or save the dataset as JSONL."
            raise Invalid(words, code="parquet_missing") from None
        if not stream.seekable():
            raise Invalid("Parquet is read from a file, not from a pipe.", code="unknown_format")
        try:
            self._file: Any = module.ParquetFile(stream)
        except (OSError, ValueError) as error:
            raise Invalid(f"The file is no Parquet: {str(error)[:200]}", code="unknown_format") from None
        self.header: list[str] = list(self._file.schema_arrow.names)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row by column, as JSON values.

        Raises:
            Invalid: the file is damaged.
        """
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS):
                yield from (plain(row) for row in batch.to_pylist())
        except (OSError, ValueError) as error:
            raise Invalid(f"The file is damaged: {str(error)[:200]}", code="unknown_format") from None


def plain(value: Any) -> Any:
    """A value as JSON has it: times and amounts as text, bytes read as UTF-8; NaN is null, null fields are left out."""
    if isinstance(value, dict):
        named = cast("dict[Any, Any]", value)
        return {str(name): plain(each) for name, each in named.items() if each is not None}
    if isinstance(value, list | tuple):
        return [plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, float) and math.isnan(value):
        return None
    return str(value) if isinstance(value, Decimal) else value
