"""Whatever a file holds, nothing crashes and no line is lost."""

import csv
import io
from typing import Literal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from redraft.datasets.rows import BadRow, Row, RowReader
from redraft.errors import Invalid
from tests.datasets.reading import rows_of

CELLS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n\t",;|'), max_size=10)
PIECES = (
    *(b'{"question": "a"}', b'{"id": 1}', b"[", b"]", b",", b";", b'"', b'""', b"\n", b"\r\n", b"\r", b"\t", b"\\"),
    *(b"question", b"id", b"a", b"\xe9", b"\xff\xfe", b"\x00", b"{", b"}", b"{{ a }}", b"1e999", b"sep=;"),
)
FRAGMENTS = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=30).map(b"".join)


def read(content: bytes, file_format: Literal["jsonl", "json", "csv", "tsv"]) -> list[Row | BadRow] | None:
    try:
        return list(RowReader(io.BytesIO(content), file_format=file_format, row_chars_max=60))
    except Invalid:
        return None


@pytest.mark.parametrize("file_format", ["json", "csv", "tsv"])
@given(content=FRAGMENTS)
@example(content=b'question\n"a\n"b\n')
def test_any_bytes_are_rows_errors_or_one_refusal(content: bytes, file_format: Literal["json", "csv", "tsv"]):
    rows = read(content, file_format) or []
    assert all(row.line <= row.last_line for row in rows)
    lines = [row.line for row in rows]
    assert lines == sorted(lines)


@given(content=FRAGMENTS)
def test_every_line_of_json_lines_is_accounted_for(content: bytes):
    assume(not content.startswith((b"\xff\xfe", b"\x00")))
    rows = read(content, "jsonl")
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = io.StringIO(text, newline="").readlines()
    filled = [number for number, line in enumerate(lines, 1) if line.strip()]
    if rows is not None:
        assert [row.line for row in rows] == filled


@given(content=FRAGMENTS)
def test_every_line_of_a_table_is_within_a_row(content: bytes):
    assume(not content.startswith((b"\xff\xfe", b"\x00")))
    rows = read(b"question,id\n" + content, "csv")
    if rows is None:
        return
    covered = {line for row in rows for line in range(row.line, row.last_line + 1)}
    text = content.decode("utf-8", "surrogateescape")
    lines = io.StringIO(text, newline="").readlines()
    filled = {
        number for number, line in enumerate(lines, 2) if line.strip(' \t\r\n,;|"\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0')
    }
    assert filled <= covered


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@given(cells=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_what_csv_writes_is_read(delimiter: str, cells: list[tuple[str, str]]):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(
        [("question", "note", "id"), *[(*pair, n) for n, pair in enumerate(cells)]]
    )
    rows = rows_of(text.getvalue(), "a.csv", delimiter=delimiter)
    found = [(row.fields.get("instruct", ""), row.unused.get("note", "")) for row in rows if isinstance(row, Row)]
    assert found == cells
