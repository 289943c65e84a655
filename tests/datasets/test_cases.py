"""Files that real users of such systems uploaded, each with what it must become."""

from base64 import b64decode

import pytest

from redraft.datasets.items import Merger
from redraft.datasets.reports import Cost, check, no_good_rows
from redraft.errors import Invalid
from tests.datasets.reading import bad, good, items_of, reader_of, row_of, told

SEMICOLONS = b64decode("77u/aWQ7cXVlc3Rpb24NCjE7IkxpbmUgb25lCmxpbmU7IHR3byAiInEiIiINCjI7Q2Fmw6k/DQo=")
RAGGED = b64decode("aWQscXVlc3Rpb24KMSxhCjIKMyxiLGMKCjQsIm9wZW4=")
BLANK_LINES = b64decode("77u/eyJxdWVzdGlvbiI6ICJhIn0NCg0KeyJxdWVzdGlvbiI6ICJiIn0NCiAgIAp7InF1ZXN0aW9uIjogImMifQ==")
UTF_16 = b64decode("//57ACIAcQB1AGUAcwB0AGkAbwBuACIAOgAgACIA/AAiAH0ACgA=")
SHIFT_JIS = b64decode("eyJxdWVzdGlvbiI6ICKTjIueIn0K")
NAN = b64decode("eyJxdWVzdGlvbiI6ICJhIiwgIndlaWdodCI6IE5hTn0KWzFdCiJ4Igp7InEiOiAxfQo=")
FIVE = b64decode(
    "eyJpZCI6IDEsICJxdWVzdGlvbiI6ICJhIn0KeyJpZCI6IDJ9CnsiaWQiOiAzLCAicXVlc3Rpb24iOiAiYiJ9CnsiaWQiOiA0LCAicXVlc3Rp"
    "b24iOiAiQk9PTSJ9CnsiaWQiOiA1LCAicXVlc3Rpb24iOiAiYyJ9Cg=="
)
DUPLICATES = b64decode(
    "eyJpZCI6ICJ4IiwgInF1ZXN0aW9uIjogImEifQp7ImlkIjogIngiLCAicXVlc3Rpb24iOiAiYiJ9CnsiaWQiOiAxLCAicXVlc3Rpb24iOiAi"
    "YyJ9CnsiaWQiOiAiMSIsICJxdWVzdGlvbiI6ICJkIn0KeyJxdWVzdGlvbiI6ICJlIn0K"
)
# All of it in one file, as issue 7 has it.
EVERYTHING = (
    b"\xef\xbb\xbfid;question;score_threshold;human_pass\r\n"
    b'a;"First line\r\nsecond; ""quoted"" line";0,9;yes\r\n'
    b"\r\n"
    b"b;Caf\xc3\xa9?;;\r\n"
    b"a;again;;\r\n"
    b"c;too;many;cells;here\r\n"
    b"   \r\n"
    b";;;\r\n"
    b"d;last;1;no"
)


def test_e06_semicolons_a_byte_order_mark_and_quoted_newlines():
    reader = reader_of(SEMICOLONS, "rows.csv")
    items = good(list(Merger({"eval_crit": "right"}).items(reader)))
    assert [(item.custom_id, item.request.instruct) for item in items] == [
        ("1", 'Line one\nline; two "q"'),
        ("2", "Café?"),
    ]
    assert reader.columns.used == {"custom_id": "id", "instruct": "question"}


def test_e06_a_field_of_200_000_characters():
    (item,) = good(items_of(b'id,question\n1,"' + b"x" * 200_000 + b'"\n', "big.csv"))
    assert item.request.instruct == "x" * 200_000


def test_e06_ragged_rows_are_told_by_line():
    items = items_of(RAGGED, "ragged.csv")
    assert [item.request.instruct for item in good(items)] == ["a"]
    assert told(items) == [
        (3, "The row has 1 cell, the header has 2 cells."),
        (4, "The row has 3 cells, the header has 2 cells; cells that hold ',' stand in quotes."),
        (6, "The row opens a quote that is never closed."),
    ]


def test_e07_blank_lines_crlf_and_no_last_newline():
    items = good(items_of(BLANK_LINES, "a.jsonl"))
    assert [(item.line, item.request.instruct) for item in items] == [(1, "a"), (3, "b"), (5, "c")]


def test_e07_utf_16_of_spreadsheets():
    assert [item.request.instruct for item in good(items_of(UTF_16, "utf16.jsonl"))] == ["ü"]


def test_e07_another_encoding_is_named_with_its_line_and_byte():
    report = check(reader_of(SHIFT_JIS, "sjis.jsonl"), Merger(), calls_of=lambda _: 1, cost_of=lambda _: Cost(None))
    with pytest.raises(Invalid, match=r"Line 1: The row is not UTF-8: its byte 15 is 0x93") as caught:
        raise no_good_rows(report.errors)
    assert caught.value.code == "no_good_rows"


def test_e07_what_is_no_row_is_told_by_line():
    assert told(items_of(NAN, "nan.jsonl")) == [
        (1, "The row holds NaN, which is no JSON value."),
        (2, "The row is no JSON object with the row's columns."),
        (3, "The row is no JSON object with the row's columns."),
        (4, "No column fills a field; there are: 'q'. Rename or map one, as in instruct=question."),
    ]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n \r\n", b"\xff\xfe"])
def test_e07_a_file_without_rows_is_refused(content: bytes):
    with pytest.raises(Invalid, match="holds no rows") as caught:
        items_of(content, "empty.jsonl")
    assert caught.value.code == "no_rows"


def test_e09_one_bad_row_leaves_the_others():
    items = items_of(FIVE, "five.jsonl")
    assert [item.custom_id for item in items] == ["1", "2", "3", "4", "5"]
    assert told(items) == [(2, "instruct (also called question, prompt or input) is missing.")]


def test_e11_duplicate_and_odd_ids():
    """Ids are texts: 1 and "1" are one. By the contract the second row is an error of its own; no row is lost."""
    items = items_of(DUPLICATES, "dups.jsonl")
    assert len(items) == 5
    assert told(items) == [(2, "custom_id 'x' is on line 1 already."), (4, "custom_id '1' is on line 3 already.")]
    assert [row.custom_id for row in bad(items)] == ["x", "1"]
    assert [(item.custom_id, item.line) for item in good(items)][:2] == [("x", 1), ("1", 3)]
    odd = b'{"id": "01", "question": "a"}\n{"id": 1, "question": "b"}\n'
    assert [item.custom_id for item in good(items_of(odd, "odd.jsonl"))] == ["01", "1"]
    assert [item.custom_id for item in good(items_of(b"id,question\n1,a\n01,b\n", "odd.csv"))] == ["1", "01"]


def test_everything_at_once():
    items = items_of(EVERYTHING, "everything.csv")
    assert [
        (item.custom_id, item.line, item.request.instruct, item.request.score_threshold, item.human_pass)
        for item in good(items)
    ] == [
        ("a", 2, 'First line\nsecond; "quoted" line', 0.9, True),
        ("b", 5, "Café?", 0.8, None),
        ("d", 10, "last", 1.0, False),
    ]
    assert told(items) == [
        (6, "custom_id 'a' is on line 2 already."),
        (7, "The row has 5 cells, the header has 4 cells; cells that hold ';' stand in quotes."),
    ]


# Case HB-E6
@pytest.mark.parametrize("name", ["wrapped.json", "wrapped.jsonl", ""])
def test_rows_in_an_object_are_no_row(name: str):
    content = b'{"data":[{"question":"a"},{"question":"b"}]}'
    report = check(reader_of(content, name), Merger(), calls_of=lambda _: 1, cost_of=lambda _: Cost(None))
    with pytest.raises(Invalid, match="send the array that stands under 'data' alone"):
        raise no_good_rows(report.errors)


@pytest.mark.parametrize(
    ("content", "name"),
    [(b'{"topic": "a"}\n{"topic": "b"}\n', "a.jsonl"), (b"topic,weight\na,1\nb,2\n", "a.csv")],
)
def test_rows_of_unknown_columns_alone_are_bad(content: bytes, name: str):
    rows = bad(items_of(content, name, defaults={"instruct": "a", "eval_crit": "b"}))
    assert [row.errors[0].code for row in rows] == ["no_known_field", "no_known_field"]


# Case HB-E5
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_blanks_before_quotes_belong_to_no_cell(delimiter: str):
    text = f'id{delimiter} question\n1{delimiter} "first{delimiter} with\ndelimiter"\n2{delimiter}  "second"\n'
    items = good(items_of(text, "x.csv"))
    assert [item.request.instruct for item in items] == [f"first{delimiter} with\ndelimiter", "second"]


def test_blanks_of_cells_without_quotes_are_kept():
    assert row_of(b'id,question\n1,  a "b" c', "x.csv").fields["instruct"] == '  a "b" c'
    assert row_of(b'id,question\n1," ""b"" c"', "x.csv").fields["instruct"] == ' "b" c'


def test_a_blank_before_a_late_quote_is_told():
    rows = "".join(f"{number},a\n" for number in range(60))
    items = items_of(f'id,question\n{rows}61, "b"\n62,"x, ""y"""\n', "x.csv")
    assert told(items) == [(62, "The row has a blank before a quote: the quote stands right behind ','.")]
    assert good(items)[-1].request.instruct == 'x, "y"'


@pytest.mark.parametrize("marks", [1, 2, 3])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('"question","id"\na,1\n', "a.csv"),
        ('{"question": "a", "id": "1"}\n', "a.jsonl"),
        ('[{"question": "a", "id": "1"}]', "a.json"),
        ('[{"question": "a", "id": "1"}]', ""),
    ],
)
def test_byte_order_marks_are_no_text(text: str, name: str, encoding: str, marks: int):
    row = row_of(("\ufeff" * marks + text).encode(encoding), name)
    assert (row.custom_id, row.fields) == ("1", {"instruct": "a"})


def test_byte_order_marks_of_joined_files_are_no_text():
    lines = b'\xef\xbb\xbf{"question": "a"}\n\xef\xbb\xbf{"question": "b"}\n'
    assert [item.request.instruct for item in good(items_of(lines, "a.jsonl"))] == ["a", "b"]
    assert row_of("sep=;\n\ufeffquestion;id\na;1\n", "a.csv").custom_id == "1"
