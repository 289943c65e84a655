"""Rows from one JSON array: cut where they end, whatever is in them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.datasets.rows import BadRow, Row
from redraft.errors import Invalid
from tests.datasets.reading import rows_of, told

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_elements_are_cut_by_brackets_and_strings():
    text = r"""[
      {"id": 1, "question": "a, ] } \" [ {"},

      {"id": 2,
       "question": "b\\", "extra": [1, {"c": "]}"}]}
    ]
    """
    rows = rows_of(text, "a.json")
    assert [(row.line, row.last_line, row.custom_id) for row in rows] == [(2, 2, "1"), (4, 5, "2")]
    assert [row.fields["instruct"] for row in rows if isinstance(row, Row)] == ['a, ] } " [ {', "b\\"]


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ('[{"question": "a"},]', [(1, "The row is missing: there is a comma too many.")]),
        ('[,{"question": "a"}]', [(1, "The row is missing: there is a comma too many.")]),
        ('[{"question": "a"},\n3]', [(2, "The row is no JSON object with the row's columns.")]),
        ('[{"question": "a"}\n', [(1, "The row breaks off: the array is not closed.")]),
        ('[{"question": "a"}] []', [(1, "The row comes after the end of the array.")]),
        (
            '[{"a": 1 "b": 2}, {"question": "a"}]',
            [(1, "The row is not valid JSON: Expecting ',' delimiter at character 9.")],
        ),
        ('[{"a": 1} {"b": 2}]', [(1, "The row is not valid JSON: Extra data at character 10.")]),
        ('[{"a": 1, "a": 2}]', [(1, "The row has the name 'a' twice in one object.")]),
        ('[{"a": 1e999}]', [(1, "The row holds the number 1e999, which is too large.")]),
    ],
)
def test_faults_are_told_and_the_rest_is_read(text: str, errors: list[tuple[int, str]]):
    assert told(rows_of(text, "a.json")) == errors


def test_deep_nesting_is_an_error_of_its_row():
    rows = rows_of('[{"a": ' + "[" * 5000 + "]" * 5000 + '}, {"question": "a"}]', "a.json")
    assert told(rows) == [(1, "The row is nested too deeply.")]


def test_a_number_of_many_digits_is_an_error_of_its_row():
    (error,) = told(rows_of('{"a": ' + "9" * 5000 + "}", "a.jsonl"))
    assert error == (1, "The row has a number with too many digits.")


@pytest.mark.parametrize("depth", [300, 400, 600, 900])
def test_nesting_is_read_or_told(depth: int):
    (row,) = rows_of('{"rubric": ' + "[" * depth + "]" * depth + "}", "a.jsonl")
    assert isinstance(row, Row) or row.errors[0].detail == "The row is nested too deeply."


@pytest.mark.parametrize("text", ["[]", " [ \n ] \n", " \n"])
def test_an_empty_array_holds_no_rows(text: str):
    with pytest.raises(Invalid, match="holds no rows"):
        rows_of(text, file_format="json")


def test_what_is_no_array_is_refused():
    with pytest.raises(Invalid, match="does not begin with"):
        rows_of('"rows"', "a.json", file_format="json")


@given(
    values=st.lists(st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=4), min_size=1, max_size=6),
    indent=st.sampled_from([None, 2]),
)
def test_an_array_gives_the_rows_that_json_lines_give(values: list[dict[str, object]], indent: int | None):
    array = json.dumps(values, indent=indent, ensure_ascii=indent is None)
    lines = "".join(json.dumps(value) + "\n" for value in values)
    assert [said_by(row) for row in rows_of(array, "a.json")] == [said_by(row) for row in rows_of(lines, "a.jsonl")]


def said_by(row: Row | BadRow) -> object:
    return [error.code for error in row.errors] if isinstance(row, BadRow) else row.digest
