"""Results as lines that spreadsheets and programs may read."""

import csv
import io
import json
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.datasets.csv_export import cell_of, csv_lines, escape_formulas, jsonl_lines
from tests.support.waiting import cpu_bound

TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("=+-@\t\r\n \"',;'1.e"), max_size=12)


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+SUM(A1)",
        "-2+3",
        "@cmd",
        "\rx",
        "\nx",
        " =1",
        "＝1",  # noqa: RUF001
        "- a list",
        "-",
        "-1-1",
        "+1 2",
        '=HYPERLINK("http://x")',
    ],
)
def test_formulas_are_defused(text: str):
    assert escape_formulas(text) == f"'{text}"


@pytest.mark.parametrize("text", ["0.5", "1e-3", "5.", "a=b", "", "x", "'=1", "１", "a\n- b\n+ c", "a; b", "a,=1"])  # noqa: RUF001
def test_numbers_and_plain_texts_are_left_alone(text: str):
    assert escape_formulas(text) == text


# Case HB-E3
@pytest.mark.parametrize("text", ["-5", "-0.5", "+1e-3", "-.5"])
def test_a_text_that_looks_like_a_number_begins_with_no_sign(text: str):
    assert cell_of(text) == f"'{text}"
    assert cell_of(float(text)) == str(float(text))


@given(TEXT, st.sampled_from(";\t"))
def test_no_cell_begins_a_formula_whatever_separates_cells(text: str, delimiter: str):
    table = "".join(csv_lines([{"a": "x", "b": text, "c": [text]}], ["a", "b", "c"]))
    cells = [cell for line in re.split(r"[\r\n]", table) for cell in line.split(delimiter)]
    assert not [cell for cell in cells if re.match(r"\s*(?![+-]\s)[=+\-@]", cell)]


# Case HB-E2
@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("Total;=1+1;z", "Total;'=1+1;z"),
        ("Total\t@x", "Total\t'@x"),
        ("a; -2+3", "a;' -2+3"),
        ("a\n=1+1\n-2+3\n- b", "a\n'=1+1\n'-2+3\n- b"),
        ("\t=1", "'\t'=1"),
        ("\tTotal", "'\tTotal"),
    ],
)
def test_formulas_within_a_text_are_defused(text: str, cell: str):
    assert escape_formulas(text) == cell


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, ""),
        (True, "true"),
        (-0.5, "-0.5"),
        (Decimal("-0.10"), "-0.10"),
        (3, "3"),
        (["=1", "é"], '["=1","é"]'),
        ({"a": Decimal(1)}, '{"a":"1"}'),
    ],
)
def test_values_become_cells(value: object, cell: str):
    assert cell_of(value) == cell


def test_csv_has_a_header_and_crlf():
    lines = list(csv_lines([{"a": 1, "b": 'x, "y"\nz', "c": "left out"}, {"b": None}], ["b", "a"], bom=True))
    assert lines == ["\ufeffb,a\r\n", '"x, ""y""\nz",1\r\n', ",\r\n"]


def test_json_lines_keep_texts_as_they_are():
    lines = list(jsonl_lines([{"a": "=1\n", "b": Decimal("0.10")}], ["b", "a", "c"]))
    assert lines == ['{"b":"0.10","a":"=1\\n","c":null}\n']


def test_lines_come_one_at_a_time():
    def rows():
        yield {"a": 1}
        raise AssertionError("nobody asked for it")

    lines = csv_lines(rows(), ["a"])
    assert [next(lines), next(lines)] == ["a\r\n", "1\r\n"]


@given(st.lists(st.lists(TEXT, min_size=2, max_size=2), max_size=5))
def test_csv_comes_back_as_it_was_but_for_apostrophes(rows: list[list[str]]):
    text = "".join(csv_lines([dict(zip("ab", row, strict=True)) for row in rows], ["a", "b"]))
    back = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert back == [["a", "b"], *[[escape_formulas(cell) for cell in row] for row in rows]]


@given(TEXT)
def test_no_cell_begins_as_a_formula(text: str):
    safe = escape_formulas(text)
    is_number = text.strip() == text and _is_number(text)
    assert is_number or not safe.lstrip().startswith(("=", "+", "-", "@"))
    assert not safe.startswith(("\t", "\r", "\n"))


@given(st.lists(st.dictionaries(st.sampled_from("abc"), TEXT | st.integers() | st.booleans()), max_size=5))
def test_json_lines_come_back_as_they_were(rows: list[dict[str, object]]):
    back = [json.loads(line) for line in jsonl_lines(rows, ["a", "b", "c"])]
    assert back == [{name: row.get(name) for name in "abc"} for row in rows]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("piece", ["\t", ";", "; ", "\n\t", "\r\n", " ", ";\t "])
def test_a_long_text_is_defused_in_the_time_of_its_length(piece: str):
    with cpu_bound(0.5):
        escape_formulas(piece * 100_000)
