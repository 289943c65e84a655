"""Rubrics as lines: the syntax of a line, and rubrics that are written and read back unchanged."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from redraft.domain.evaluation.rubrics import Criterion, Rubric
from redraft.domain.jobs.rubric_lines import read_rubric, write_rubric

RUBRIC: TypeAdapter[list[Criterion]] = TypeAdapter(Rubric)


@pytest.mark.parametrize(
    ("line", "criterion"),
    [
        ("Names the river.", {"id": "names-the-river", "text": "Names the river.", "kind": "binary"}),
        ("- Names it.", {"id": "names-it", "text": "Names it.", "kind": "binary"}),
        ("! Names it.", {"id": "names-it", "text": "Names it.", "kind": "binary", "required": True}),
        ("#r *-2 Wrong.", {"id": "r", "text": "Wrong.", "kind": "binary", "weight": -2.0}),
        ("scale: How vivid", {"id": "how-vivid", "text": "How vivid", "kind": "scale"}),
        ("is_json", {"id": "is-json", "kind": "check", "check": {"kind": "is_json"}}),
        ("max-words=60", {"id": "max-words", "kind": "check", "check": {"kind": "max_words", "value": 60}}),
        (
            "! #n max_words=60 -- Short.",
            {
                "id": "n",
                "text": "Short.",
                "kind": "check",
                "check": {"kind": "max_words", "value": 60},
                "required": True,
            },
        ),
        ("max_words is low", {"id": "max-words-is-low", "text": "max_words is low", "kind": "binary"}),
    ],
)
def test_a_line_is_a_criterion(line: str, criterion: dict[str, Any]):
    assert read_rubric(line) == [criterion]
    assert RUBRIC.validate_python(read_rubric("Fine.\n" + line))


@pytest.mark.parametrize("line", ["max_wrds=60", "! #short *2 max_wrds=60", "nope=3", "matches=(", "is_jsn"])
def test_a_misspelled_check_is_an_error_and_not_a_statement(line: str):
    with pytest.raises(ValueError, match=r"criterion 2, .* is no check"):
        read_rubric(f"Names it.\n{line}")


def test_an_empty_text_is_no_rubric_and_each_criterion_has_an_id_of_its_own():
    assert read_rubric(" \n ") is None
    assert [each["id"] for each in read_rubric("Good.\n\nGood.") or []] == ["good", "good-2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Good.\nmax_words=few", "criterion 2, 'max_words=few': needs a whole number"),
        ("[1,", "this is not JSON"),
        ('{"id": ', "this is not JSON"),
        ("is_json=1", "criterion 1, 'is_json=1': is_json takes no value"),
    ],
)
def test_an_unreadable_line_is_reported(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        read_rubric(text)


@pytest.mark.parametrize(
    ("rubric", "is_lines"),
    [
        ([{"id": "a", "text": "Names it."}], True),
        ([{"id": "names-it", "text": "Names it.", "required": True, "weight": 2.5}], True),
        ([{"id": "b", "kind": "check", "check": {"kind": "bullets", "min": 2, "max": 4}}], True),
        ([{"id": "b", "kind": "check", "check": {"kind": "contains_all", "value": ["a", "b -- c"]}}], False),
        ([{"id": "b", "kind": "check", "text": "T", "check": {"kind": "regex", "value": "a=b"}}], True),
        ([{"id": "v", "text": "How vivid", "kind": "scale"}], True),
        ([{"id": "v", "text": "How vivid", "kind": "scale", "anchors": {"0": "dull"}}], False),
        ([{"id": "h", "text": "Hidden.", "hidden": True}], False),
        ([{"id": "two", "text": "Two\nlines."}], False),
        ([{"id": "bang", "text": "! not a mark"}], True),
        ([{"id": "j", "text": "[1]"}], True),
    ],
)
def test_a_written_rubric_reads_back_unchanged(rubric: list[Any], is_lines: bool):  # noqa: FBT001 - a parameter of cases
    text = write_rubric(rubric)
    assert RUBRIC.validate_python(read_rubric(text)) == RUBRIC.validate_python(rubric)
    assert text.startswith("[") is not is_lines


def test_an_invalid_rubric_is_written_as_json():
    assert json.loads(write_rubric([{"id": 7}])) == [{"id": 7}]
