"""Tables in text: delimiters, quotes, headers, and rows that are no CSV."""

from itertools import pairwise

import pytest

from redraft.datasets.tables import sniff
from redraft.errors import Invalid
from tests.datasets.reading import bad, reader_of, row_of, rows_of, told


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_out(delimiter: str):
    reader = reader_of(delimiter.join(["id", "question"]) + "\n" + delimiter.join(["1", '"a, b; c | d"']) + "\n")
    assert [row.custom_id for row in reader] == ["1"]
    assert reader.delimiter == delimiter


@pytest.mark.parametrize(
    ("lines", "delimiter"),
    [
        (["question\n", "What is this, or that?\n"], ","),
        (["id;question\n", "1;one, two, three\n", "2;four, five\n"], ";"),
        (["id,question\n", '1,"a;b;c"\n'], ","),
        ([], ","),
    ],
)
def test_commas_in_texts_do_not_mislead(lines: list[str], delimiter: str):
    assert sniff(lines) == delimiter


def test_a_spreadsheet_may_name_its_delimiter():
    reader = reader_of("sep=;\r\nid;question\r\n1;a\r\n", "a.csv")
    assert [(row.line, row.custom_id) for row in reader] == [(3, "1")]
    assert reader.delimiter == ";"


def test_tsv_has_tabs_and_a_delimiter_can_be_given():
    assert row_of("id\tquestion\n1\ta,b\n", "a.tsv").fields == {"instruct": "a,b"}
    assert row_of("id:question\n1:a\n", "a.csv", delimiter=":").custom_id == "1"


def test_a_quote_that_is_never_closed_spoils_its_own_line():
    rows = rows_of('id,question\n1,"open\n2,b\n3,"c"\n4,"d\ne"\n', "a.csv")
    assert [row.line for row in rows] == [2, 3, 4, 5]
    assert [row.line for row in bad(rows)] == [2]


def test_text_after_a_closing_quote_spoils_its_own_line():
    rows = rows_of('id,question\n1,"a" b\n2,c\n', "a.csv")
    assert told(rows) == [
        (
            2,
            "The row has text after a closing quote; within quotes, a quote is written twice, and ',' follows.",
        )
    ]


def test_a_quote_within_a_cell_is_a_quote():
    assert row_of('id,question\n1,a 5" pipe\n', "a.csv").fields == {"instruct": 'a 5" pipe'}


def test_an_open_quote_is_looked_for_within_the_limit_only():
    rows = rows_of('id,question\n1,"open\n' + "2,b\n" * 500, "a.csv", row_chars_max=1000)
    assert told(rows)[0] == (2, "The row opens a quote that is not closed within 1,000 characters and 100,000 lines.")
    assert rows[1].line == 3


def test_an_open_quote_is_looked_for_within_so_many_lines_only():
    rows = rows_of('question\n"open\n' + "\n" * 120_000 + 'a"\n"b"\n', "a.csv")
    assert [(row.line, row.last_line) for row in rows] == [(2, 2), (120_003, 120_003), (120_004, 120_004)]


def test_many_open_quotes_take_no_time_for_ever():
    lines = 20_000
    rows = rows_of("id,question\n" + '5","x\n' * lines, "a.csv", row_chars_max=5_000)
    assert rows[0].line == 2
    assert all(row.line == before.last_line + 1 for before, row in pairwise(rows))
    assert rows[-1].last_line == lines + 1


@pytest.mark.parametrize(
    ("content", "words", "code"),
    [
        ("id,question,id\n", "Two columns are called 'id'", "duplicate_column"),
        (b"na\x83me\na", r'is 0x83\. Save the file as UTF-8; spreadsheets call it "CSV UTF-8"\.$', "invalid_header"),
        ('"open\nid', r"The header, line 1, opens a quote", "invalid_header"),
        ("\n;;\n", "holds no rows", "no_rows"),
        ("id,question\n", "holds no rows", "no_rows"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused(content: str | bytes, words: str, code: str):
    with pytest.raises(Invalid, match=words) as caught:
        rows_of(content, "a.csv")
    assert caught.value.code == code


def test_a_column_without_a_name_is_kept_aside():
    assert row_of("id,question,\n1,a,note\n", "a.csv").unused == {"column 3": "note"}


def test_names_of_columns_lose_the_blanks_around_them():
    assert row_of(" ID , Question \n1,a\n", "a.csv").custom_id == "1"
