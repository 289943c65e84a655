"""Parquet, with pyarrow where it is installed, and what is told where it is not."""

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from redraft.datasets.parquet import plain
from redraft.datasets.rows import Row, RowReader
from redraft.errors import Invalid
from tests.datasets.reading import rows_of, version_of

HAS_PYARROW = find_spec("pyarrow") is not None


@pytest.mark.skipif(HAS_PYARROW, reason="pyarrow is installed")
@pytest.mark.parametrize("name", ["rows.parquet", ""])
def test_without_pyarrow_it_says_how_to_get_it(name: str):
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
def write(tmp_path: Path) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def written(**columns: list[Any]) -> bytes:
        path = tmp_path / "rows.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        return path.read_bytes()

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
