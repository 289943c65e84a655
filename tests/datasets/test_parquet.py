"""Parquet: its rows are those of other formats, within limits; and what is told where pyarrow is not installed."""

import io
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from redraft.datasets.parquet import ParquetTable
from redraft.datasets.rows import Row, RowReader
from redraft.errors import Invalid
from redraft.sandbox.parquet import plain
from tests.datasets.reading import rows_of, version_of


@pytest.mark.parametrize("name", ["rows.parquet", ""])
def test_without_pyarrow_it_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    with pytest.raises(Invalid, match=r"pip install 'redraft\[parquet\]'") as caught:
        rows_of(b"PAR1....PAR1", name)
    assert caught.value.code == "parquet_missing"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.50"), "1.50"),
        (b"caf\xc3\xa9", "café"),
        (float("nan"), None),
        ({"a": None, "b": [{"c": None, "d": 1}]}, {"b": [{"d": 1}]}),
        ("text", "text"),
    ],
)
def test_values_become_those_of_json(value: object, found: object):
    assert plain(value) == found


@pytest.fixture
def pyarrow() -> Any:
    """Imported here: it takes a second."""
    import pyarrow.parquet

    return pyarrow


@pytest.fixture
def write(pyarrow: Any) -> Any:
    def written(**columns: list[Any]) -> bytes:
        file = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
        return file.getvalue()

    return written


def test_rows_are_those_of_other_formats(write: Any):
    content = write(
        id=[1, 2], question=["a", "b"], expected=[42, None], iter_max=[2.0, None], limits=[{"max_tokens": 5}, None]
    )
    rows = rows_of(content)
    assert all(isinstance(row, Row) for row in rows)
    assert [(row.line, row.custom_id) for row in rows] == [(1, "1"), (2, "2")]
    assert version_of(content, "a.parquet") == version_of(
        '{"id": 1, "question": "a", "reference": "42", "iter_max": 2, "limits": {"max_tokens": 5}}\n'
        '{"id": "2", "question": "b"}\n'
    )


def test_numbers_that_json_does_not_have_are_errors_of_their_row(write: Any):
    rows = rows_of(write(question=["a", "b"], note=[float("inf"), 1.0]), "a.parquet")
    assert [type(row).__name__ for row in rows] == ["BadRow", "Row"]


def test_a_damaged_file_is_refused(write: Any):
    with pytest.raises(Invalid, match="no Parquet"):
        rows_of(write(question=["a"])[:-5] + b"xxxxx", "a.parquet")


def test_a_pipe_is_refused(write: Any):
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(Invalid, match="from a file"):
        RowReader(Pipe(write(question=["a"])), "a.parquet")


def test_a_small_file_of_equal_long_texts_is_read_row_by_row(write: Any):
    content = write(question=["x" * 4_000_000] * 12)
    assert len(content) < 1_000_000
    rows = rows_of(content, "a.parquet")
    assert [type(row).__name__ for row in rows] == ["Row"] + ["BadRow"] * 11


def test_a_row_that_is_too_long_is_an_error_of_its_own(write: Any):
    rows = list(RowReader(io.BytesIO(write(question=["long" * 100, "b"])), "a.parquet", row_chars_max=100))
    assert [type(row).__name__ for row in rows] == ["BadRow", "Row"]


def test_a_file_that_unpacks_to_more_than_all_rows_may_have_is_refused(write: Any):
    table = ParquetTable(io.BytesIO(write(question=["x" * 1000] * 100)), unpacked_chars_max=50_000)
    with pytest.raises(Invalid, match="unpacks to more than 50,000 characters") as refused:
        list(table.rows())
    assert refused.value.code == "file_too_large"


def test_a_row_that_needs_too_much_memory_is_refused_and_named_so(pyarrow: Any):
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 3000), pyarrow.array(["x" * 1_000_000]))
    nested = pyarrow.ListArray.from_arrays(pyarrow.array([0, 3000], pyarrow.int32()), texts)
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"question": ["a"], "deep": nested}), file, store_schema=False)
    with pytest.raises(Invalid, match="within 1 GiB of memory") as refused:
        rows_of(file.getvalue(), "a.parquet")
    assert refused.value.code == "file_too_large"


def test_columns_that_are_nested_too_deeply_are_refused(pyarrow: Any):
    kind = pyarrow.string()
    for _ in range(400):
        kind = pyarrow.struct([("a", kind)])
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"question": ["a"], "deep": pyarrow.nulls(1, kind)}), file)
    with pytest.raises(Invalid, match="too deeply nested"):
        rows_of(file.getvalue(), "a.parquet")
