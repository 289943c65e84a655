"""Columns and what they fill: names, aliases, mapping, types of cells."""

import csv
import io
from typing import Any

import pytest

from redraft.datasets.columns import pointer_of, suggestion, target_named
from redraft.datasets.fields import kind_of, kinds, read_cell
from redraft.domain.jobs.requests import EvaluateAnswer, GenerateAnswer
from redraft.errors import Invalid
from tests.datasets.reading import bad_row_of, items_of, reader_of, row_of, rows_of, told


def test_every_field_of_a_job_can_be_a_column():
    names = {
        field.alias or name for model in (GenerateAnswer, EvaluateAnswer) for name, field in model.model_fields.items()
    }
    assert names <= kinds().keys()


@pytest.mark.parametrize(
    ("column", "target"),
    [
        ("question", "instruct"),
        ("prompt", "instruct"),
        ("input", "instruct"),
        ("expected", "reference"),
        ("target", "reference"),
        ("ideal", "reference"),
        ("id", "custom_id"),
        ("Human Score", "human_score"),
        ("score-threshold", "score_threshold"),
        ("limits.max_cost_usd", "limits.max_cost_usd"),
        ("revision.from", "revision.from"),
        ("Metadata.Team", "metadata.Team"),
        ("vars.a.b", "vars.a.b"),
        ("metadata.", None),
        ("limits.nothing", None),
        ("notes", None),
    ],
)
def test_names_and_aliases(column: str, target: str | None):
    assert target_named(column) == target


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("instruct", "text"),
        ("iter_max", "integer"),
        ("score_threshold", "number"),
        ("stream", "boolean"),
        ("model", "text_or_json"),
        ("rubric", "json"),
        ("sources", "json"),
        ("limits", "json"),
        ("limits.max_tokens", "integer"),
        ("evaluation.panel", "json"),
        ("metadata.team", "text"),
        ("vars", "json"),
        ("nothing", None),
    ],
)
def test_kinds_follow_from_the_requests(target: str, kind: str | None):
    assert kind_of(target) == kind


@pytest.mark.parametrize(
    ("cell", "kind", "value"),
    [
        (" 3 ", "integer", 3),
        ("3.0", "integer", 3),
        ("1", "number", 1),
        ("0.5", "number", 0.5),
        ("-1e-3", "number", -0.001),
        ("0,825", "number", 0.825),
        ("1,5", "number", 1.5),
        ("TRUE", "boolean", True),
        ("no", "boolean", False),
        ("0", "boolean", False),
        ("pass", "boolean", True),
        ("gpt-6", "text_or_json", "gpt-6"),
        ('["a", "b"]', "text_or_json", ["a", "b"]),
        ('{"a": 1}', "json", {"a": 1}),
        (" padded ", "text", " padded "),
        (3.0, "integer", 3),
        (2.5, "integer", 2.5),
        (42, "text", "42"),
        (True, "boolean", True),
    ],
)
def test_a_cell_is_read_as_its_field_needs(cell: Any, kind: Any, value: Any):
    read = read_cell(cell, kind)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("cell", "kind", "words"),
    [
        ("three", "integer", "needs a whole number"),
        ("3.5", "integer", "needs a whole number"),
        ("1,000", "integer", "needs a whole number"),
        ("1,000", "number", "needs a number"),
        ("nan", "number", "needs a number"),
        ("1e999", "number", "needs a number"),
        ("maybe", "boolean", "needs true or false"),
        ("{a}", "json", "is not valid JSON"),
        ("[" * 5000, "json", "nested too deeply"),
        ("[NaN]", "json", "NaN"),
    ],
)
def test_a_cell_that_does_not_fit_says_why(cell: str, kind: Any, words: str):
    with pytest.raises(ValueError, match=words):
        read_cell(cell, kind)


def test_cells_fill_fields_of_all_kinds():
    cells = {
        "question": "Hi",
        "iter_max": "2",
        "model": '["openai:a", "openai:b"]',
        "limits.max_cost_usd": "0.5",
        "rubric": '[{"id": "x", "text": "y"}]',
        "vars.who": "",
        "metadata.team": "blue",
        "stream": "no",
    }
    text = io.StringIO()
    csv.writer(text).writerows([cells.keys(), cells.values()])
    row = row_of(text.getvalue(), "a.csv")
    assert row.fields == {
        "instruct": "Hi",
        "iter_max": 2,
        "model": ["openai:a", "openai:b"],
        "limits": {"max_cost_usd": 0.5},
        "rubric": [{"id": "x", "text": "y"}],
        "metadata": {"team": "blue"},
        "stream": False,
    }
    assert row.vars == {"who": ""}


def test_an_empty_cell_leaves_a_field_to_the_defaults():
    assert row_of("question,iter_max,metadata.a\na,,\n", "a.csv").fields == {"instruct": "a"}
    assert row_of('{"question": "a", "iter_max": null}').fields == {"instruct": "a"}


def test_an_empty_answer_is_an_answer():
    assert [row.fields["answer"] for row in rows_of("question,answer\na,b\nc,\n", "a.csv")] == ["b", ""]  # type: ignore[union-attr]
    assert row_of('{"question": "a", "answer": null}').fields == {"instruct": "a", "answer": ""}


def test_json_rows_are_typed_already():
    assert told(items_of('{"question": "a", "iter_max": "3"}')) == [(1, "iter_max: must be a whole number.")]


def test_a_cell_that_does_not_fit_names_field_and_column():
    error = bad_row_of("question,Iter Max\na,many\n", "a.csv").errors[0]
    assert (error.pointer, error.detail) == ("/iter_max", "iter_max (column 'Iter Max') needs a whole number.")


def test_a_mapping_renames():
    row = row_of('{"q": "a", "k": "b"}', mapping={"instruct": "q", "vars.key": "k", "metadata.key": "k"})
    assert (row.fields, row.vars) == ({"instruct": "a", "metadata": {"key": "b"}}, {"key": "b"})


def test_what_a_mapping_takes_no_other_column_fills():
    row = row_of('{"prompt": "a", "input": "b"}', mapping={"instruct": "input"})
    assert (row.fields, row.unused) == ({"instruct": "b"}, {"prompt": "a"})


def test_a_mapped_column_loses_its_own_meaning():
    assert row_of('{"question": "a"}', mapping={"vars.question": "question"}).fields == {}


def test_a_mapping_may_use_an_alias():
    assert row_of('{"q": "a"}', mapping={"question": "q"}).fields == {"instruct": "a"}


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"instruc": "q"}, r"cannot fill 'instruc' \(did you mean 'instruct'\?\)"),
        ({"vars.": "q"}, "there is no such field"),
        ({"instruct": "questoin"}, r"no column 'questoin' \(did you mean 'question'\?\). There are: 'question'"),
    ],
)
def test_a_mapping_that_leads_nowhere_is_refused(mapping: dict[str, str], words: str):
    with pytest.raises(Invalid, match=words) as caught:
        reader_of("question\na\n", "a.csv", mapping=mapping)
    assert caught.value.code == "invalid_mapping"


def test_two_columns_for_one_field_are_refused_in_a_table():
    with pytest.raises(Invalid, match="'question' and 'prompt' both mean instruct: map one") as caught:
        reader_of("question,prompt\na,b\n", "a.csv")
    assert caught.value.code == "ambiguous_columns"


def test_two_columns_for_one_field_are_an_error_of_a_json_row():
    error = bad_row_of('{"question": "a", "Question": "b"}').errors[0]
    assert (error.pointer, error.code) == ("/instruct", "ambiguous_columns")


@pytest.mark.parametrize(
    "text",
    [
        '{"limits": {"max_tokens": 1}, "limits.max_tokens": 2}',
        '{"limits.max_tokens": 2, "limits": {"max_tokens": 1}}',
        '{"limits": 3, "limits.max_tokens": 2}',
        '{"vars": {"a": 1}, "vars.a": 2}',
    ],
)
def test_a_field_given_whole_and_by_part_is_an_error(text: str):
    assert bad_row_of(text).errors[0].detail.endswith("given twice: as a whole and by part.")


def test_a_field_may_be_given_whole_and_added_to():
    row = row_of('{"limits": {"max_tokens": 1}, "limits.deadline_s": 2, "vars": {"a": 1}, "vars.b": 2}')
    assert (row.fields["limits"], row.vars) == ({"max_tokens": 1, "deadline_s": 2}, {"a": 1, "b": 2})


def test_vars_are_named():
    assert bad_row_of('{"vars": [1]}').errors[0].detail == "vars needs an object of names and values."


def test_near_misses_are_suggested():
    assert suggestion("Instuct") == "instruct"
    assert suggestion("score_treshold") == "score_threshold"
    assert suggestion("favourite colour") is None
    assert suggestion("team") is None


@pytest.mark.parametrize(
    ("target", "pointer"),
    [("iter_max", "/iter_max"), ("limits.max_tokens", "/limits/max_tokens"), ("metadata.a.b/c", "/metadata/a.b~1c")],
)
def test_pointers(target: str, pointer: str):
    assert pointer_of(target) == pointer
