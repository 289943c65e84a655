"""What a file is: its format, its encoding, and lines that are too long."""

import io
import os
from pathlib import Path

import pytest

from redraft.datasets.formats import format_of
from redraft.datasets.rows import RowReader
from redraft.errors import Invalid
from tests.datasets.reading import bad_row_of, good, items_of, reader_of, row_of, rows_of, told

JSONL = '{"question": "a"}\n'


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.jsonl", b"[1]", "jsonl"),
        ("a.NDJSON", b"", "jsonl"),
        ("a.json", b" [{}]", "json"),
        ("a.json", b"{}\n{}", "jsonl"),
        ("a.csv", b"{}", "csv"),
        ("a.tsv", b"", "tsv"),
        ("a.pq", b"", "parquet"),
        ("a.csv", b"PAR1", "parquet"),
        ("", b"\xef\xbb\xbf\n[", "json"),
        ("", "[".encode("utf-16"), "json"),
        ("stdin", b'{"a"', "jsonl"),
        ("notes.txt", b"question\na\n", "csv"),
    ],
)
def test_the_format_follows_from_name_or_content(name: str, content: bytes, found: str):
    assert format_of(name, content) == found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04rest", "Excel workbook: save it as CSV"),
        (b"\x1f\x8b\x08", "gzip: unpack it"),
        ("question\na".encode("utf-16-le"), "UTF-16 without a byte order mark"),
        ("question\na".encode("utf-16-be"), "UTF-16 without a byte order mark"),
        ("question\na".encode("utf-32"), "UTF-32"),
    ],
)
def test_what_cannot_be_read_is_named(content: bytes, words: str):
    with pytest.raises(Invalid, match=words):
        reader_of(content, "rows.csv")


def test_the_format_can_be_given():
    assert row_of("question\na\n", "a.jsonl", file_format="csv").fields == {"instruct": "a"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("a.jsonl", '{"question": "é😀"}'), ("a.json", '[{"question": "é😀"}]'), ("a.csv", "question\né😀")],
)
def test_three_encodings_are_read(encoding: str, name: str, text: str):
    assert row_of(text.encode(encoding), name).fields == {"instruct": "é😀"}


def test_a_line_that_is_not_utf8_leaves_the_others():
    rows = rows_of(b'question\na\n"caf\xe9"\nb\n', "a.csv")
    assert told(rows) == [
        (3, 'The row is not UTF-8: its byte 5 is 0xE9. Save the file as UTF-8; spreadsheets call it "CSV UTF-8".')
    ]
    assert len(rows) == 3


def test_an_element_that_is_not_utf8_leaves_the_others():
    rows = rows_of(b'[{"question": "\xe9"},\n{"question": "b"}]', "a.json")
    assert [line for line, _ in told(rows)] == [1]
    assert len(rows) == 2


def test_utf_16_that_breaks_off_is_refused():
    with pytest.raises(Invalid, match="not UTF-16"):
        rows_of(JSONL.encode("utf-16") + b"x", "a.jsonl")


def test_half_a_pair_of_utf_16_is_an_error_of_its_row():
    broken = b"\xff\xfe" + '{"question": "'.encode("utf-16-le") + b"\x00\xd8" + '"}\n'.encode("utf-16-le")
    assert "half a surrogate pair at character 15" in bad_row_of(broken, "a.jsonl").errors[0].detail


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv"])
def test_a_row_that_is_too_long_leaves_the_others(name: str):
    long = "x" * 200_000
    content = {
        "a.jsonl": f'{{"question": "{long}"}}\n{JSONL}',
        "a.json": f'[{{"question": "{long}"}},\n{JSONL}]',
        "a.csv": f"question\n{long}\na\n",
    }[name]
    rows = rows_of(content, name, row_chars_max=1000)
    assert [row.line for row in rows] == ([2, 3] if name == "a.csv" else [1, 2])
    assert [words for _, words in told(rows)] == [f"The row {told(rows)[0][1][8:]}"]
    assert told(rows)[0][1].endswith("characters; a row may have 1,000.")


def test_a_row_of_the_longest_length_is_read():
    line = '{"question": "a"}'
    assert row_of(line, "a.jsonl", row_chars_max=len(line)).line == 1
    assert bad_row_of(line, "a.jsonl", row_chars_max=len(line) - 1).line == 1


@pytest.mark.parametrize("length", range(8, 13))
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_right_after_one_that_is_too_long(length: int, end: str):
    rows = rows_of(f"prompt{end}{'x' * length}{end}a{end}{end}b{end}", "a.csv", row_chars_max=9)
    assert [row.line for row in rows] == [2, 3, 5]


def test_old_line_ends_are_line_ends():
    assert [row.line for row in rows_of(b"question\ra\rb\r", "a.csv")] == [2, 3]


def test_a_pipe_is_read_as_it_comes():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as end:
        end.write(JSONL.encode())
    with os.fdopen(reading, "rb", buffering=0) as stream:
        assert len(list(RowReader(stream))) == 1  # pyright: ignore[reportArgumentType]


def test_the_stream_stays_open(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    path.write_text(JSONL)
    with path.open("rb") as stream:
        list(RowReader(stream, path.name))
        assert not stream.closed


def test_a_stream_may_hand_out_less_than_asked_for():
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 1, 3))

    stream = Slow(JSONL.encode() * 3)
    assert [row.line for row in RowReader(stream, "a.jsonl")] == [1, 2, 3]


def test_items_go_on_after_bad_rows():
    assert len(good(items_of(f"{{\n{JSONL}", "a.jsonl"))) == 1
