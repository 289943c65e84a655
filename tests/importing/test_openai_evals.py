"""Graders one by one, formulas, and files of strangers."""

from pathlib import Path
from typing import Any

import pytest

from redraft.importing.openai_graders import linear_weights
from redraft.importing.texts import NotCarried
from tests.importing.importing import SAMPLE, items, left_out, openai, verdict

ROW = {"item": {"question": "How much?", "label": "a+b", "n": 3}}


def check(operation: str, reference: str = "{{item.label}}", given: str = SAMPLE) -> dict[str, Any]:
    return {"type": "string_check", "name": "c", "operation": operation, "input": given, "reference": reference}


@pytest.mark.parametrize(
    ("grader", "good", "bad"),
    [
        (check("eq"), "a+b", "a+B"),
        (check("like"), "x a+b", "aab"),
        (check("ilike"), "x A+B", "aab"),
        (check("eq", "{{item.n}}", "{{sample.output_json.n}}"), '{"n": 3}', '{"n": 4}'),
        (check("eq", "{{item.n}}", "{{sample.output_json.n}}"), '{"n": "3"}', '{"m": 3}'),
        (check("eq", "true", "{{sample.output_json.a.b}}"), '{"a": {"b": true}}', '{"a": {"b": false}}'),
    ],
)
def test_string_checks_have_the_same_outcome(tmp_path: Path, grader: Any, good: str, bad: str):
    (item,) = items(done := openai(tmp_path, grader, [ROW]))
    assert left_out(done) == []
    assert (verdict(item, good), verdict(item, bad)) == (True, False)


def test_ne_passes_for_every_other_answer(tmp_path: Path):
    (item,) = items(openai(tmp_path, check("ne"), [ROW]))
    assert (verdict(item, "aab"), verdict(item, " a+b ")) == (True, False)


@pytest.mark.parametrize(
    ("grader", "why"),
    [
        (check("regex"), "the operation 'regex' is not known"),
        (check("eq", given="Answer: {{sample.output_text}}"), "its input is not the answer alone"),
        (check("eq", given="{{item.label}}"), "--answer item.FIELD names the field that is evaluated"),
        (check("eq", "{{item.none}}"), "the item has no item.none"),
        (check("eq", "{{trace.id}}"), "there is no trace.id"),
        (check("eq", SAMPLE), "not with the answer itself"),
        (check("eq", "{{ item.label | lower }}"), "no plain variable"),
        ({**check("eq"), "reference": None}, "a template of it is no text"),
        ({"type": "python", "name": "p", "source": "import os"}, "a grader in Python is code"),
        ({"type": "score_model", "name": "s", "input": []}, "its prompt does not contain the answer"),
        (
            {"type": "score_model", "name": "s", "input": [{"role": "user", "content": SAMPLE}], "range": [1, 1]},
            "its range is not a pair of a low and a high number",
        ),
        (
            {"type": "label_model", "name": "l", "input": [], "labels": ["a"], "passing_labels": ["b"]},
            "its passing_labels are not among its labels",
        ),
        ({"type": "multi", "name": "m", "graders": {}, "calculate_output": "a"}, "names a, which is no grader of it"),
        ({"type": "multi", "name": "m", "graders": {"a": check("eq")}, "calculate_output": "-a"}, "no weighted sum"),
        ({"type": "multi", "name": "m", "graders": {"a": check("eq")}, "calculate_output": "0 * a"}, "all weights"),
        (
            {"type": "multi", "name": "m", "graders": {"a": check("eq"), "b": {"type": "python"}},
             "calculate_output": "a + b"},
            "a grader in Python is code",
        ),
    ],
)  # fmt: skip
def test_a_grader_that_cannot_be_carried_is_listed_and_no_criterion(tmp_path: Path, grader: Any, why: str):
    done = openai(tmp_path, grader, [ROW])
    assert any(why in each for each in left_out(done)), left_out(done)
    assert "rubric" not in done.datasets["eval"][0]


def test_a_kind_that_is_not_known_is_listed(tmp_path: Path):
    whole = {"name": "e", "testing_criteria": [{"type": "endpoint", "name": "x"}, 7, check("eq")]}
    done = openai(tmp_path, whole, [ROW])
    assert left_out(done) == [
        "endpoint grader x: this kind is not known",
        "None grader grader: this kind is not known",
    ]
    assert len(done.datasets["e"][0]["rubric"]) == 1


def test_a_multi_grader_beside_others_is_listed(tmp_path: Path):
    multi = {"type": "multi", "name": "m", "graders": {"a": check("eq")}, "calculate_output": "a"}
    done = openai(tmp_path, {"name": "e", "testing_criteria": [multi, check("eq")]}, [ROW])
    assert "multi grader m: a multi grader beside other graders has a score of its own; import it alone" in left_out(
        done
    )


def test_a_multi_grader_of_scores_of_another_range_is_listed(tmp_path: Path):
    judge = {"type": "score_model", "name": "s", "input": [{"role": "user", "content": SAMPLE}], "range": [0, 100]}
    multi = {"type": "multi", "name": "m", "graders": {"a": judge}, "calculate_output": "a / 100"}
    assert "m: a score of its formula is not from 0 to 1" in left_out(openai(tmp_path, multi, [ROW]))


def test_two_evaluator_models_are_one_and_the_other_is_listed(tmp_path: Path):
    graders = [
        {
            "type": "label_model",
            "name": name,
            "model": name,
            "input": [{"role": "user", "content": SAMPLE}],
            "labels": ["a", "b"],
            "passing_labels": ["a"],
            "sampling_params": {"temperature": 0, "max_completions_tokens": 9, "mystery": 1},
        }
        for name in ("gpt-a", "gpt-b")
    ]
    done = openai(tmp_path, {"name": "e", "testing_criteria": graders}, [ROW])
    assert done.settings["e"] == {
        "iter_max": 1,
        "evaluator_model": "openai:gpt-a",
        "evaluator_sampling": {"temperature": 0, "max_output_tokens": 9},
    }
    assert left_out(done) == [
        "parameter mystery: Redraft has no such parameter",
        "gpt-b: model openai:gpt-b: a run has one evaluator model",
    ]


@pytest.mark.parametrize(
    ("formula", "weights"),
    [
        ("a", {"a": 1}),
        ("0.5 * a + b * 0.25", {"a": 0.5, "b": 0.25}),
        ("(a + b + 2 * (a + c)) / 4", {"a": 0.75, "b": 0.25, "c": 0.5}),
    ],
)
def test_weighted_sums_are_read(formula: str, weights: dict[str, float]):
    assert linear_weights(formula) == weights


@pytest.mark.parametrize(
    "formula",
    [
        "a + 1",
        "a * b",
        "a - b",
        "max(a, b)",
        "a if b else c",
        "a / 0",
        "a / b",
        "True * a",
        "__import__('os').system('x')",
        "a +",
        "(" * 500 + "a" + ")" * 500,
        "a" * 2000,
        "9**9**9 * a",
        "1e400 * a",
        None,
    ],
)
def test_other_formulas_are_refused_and_never_executed(formula: Any):
    with pytest.raises(NotCarried):
        linear_weights(formula)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (
            {"something": 1},
            "an object with something: it is no eval, run, grader, item or output item of the Evals API",
        ),
        ([3], "a value that is no object: it is no eval, run, grader, item or output item of the Evals API"),
        ([{"item": {"label": "x"}}], "the item: it has no task; --task item.FIELD names the field that has it"),
        ([{"item": {"question": "  "}}], "the item: it has no task; --task item.FIELD names the field that has it"),
        ([{"item": {"question": "q"}, "sample": {"output": []}}], "the item: its sample has no text"),
        ([{"item": {"input": [{"role": "assistant", "content": "x"}]}}], "the item: the messages are not turns"),
    ],
)
def test_what_is_no_item_is_listed(tmp_path: Path, value: Any, left: str):
    done = openai(tmp_path, check("eq", "x"), value)
    assert any(each.startswith(left) for each in left_out(done)), left_out(done)
    assert done.datasets == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is not valid JSON"),
        ('{"item": {}}\n{"item": \n', "line 2, is not valid JSON"),
        ('{"item": {"a": 1, "a": 2}}', "twice in one object"),
        ('{"item": {"a": NaN}}', "NaN"),
    ],
)
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, content: str, why: str):
    with pytest.raises(NotCarried, match=why):
        openai(tmp_path, content)


def test_two_evals_are_refused(tmp_path: Path):
    whole = {"name": "e", "testing_criteria": [check("eq")]}
    with pytest.raises(NotCarried, match="have 2 evals"):
        openai(tmp_path, whole, whole)


def test_braces_in_items_are_not_templates(tmp_path: Path):
    row = {"item": {"question": "What is {{ item.label }}?", "label": "{% x %}"}}
    done = openai(tmp_path, check("eq"), [row])
    (item,) = items(done)
    assert item.request.instruct == "What is {{ item.label }}?"
    assert verdict(item, "{% x %}")


@pytest.mark.parametrize("text", ["half a pair \ud800", "a NUL \x00"])
def test_a_row_whose_text_no_database_can_store_is_listed(tmp_path: Path, text: str):
    done = openai(tmp_path, check("eq"), [ROW, {"item": {"question": text, "label": "x"}}])
    assert left_out(done) == ["row item-2: its text has NUL or half of a surrogate pair"]
    assert len(items(done)) == 1


def test_a_name_of_a_model_that_cannot_be_one_is_listed(tmp_path: Path):
    source = {"type": "completions", "model": "x" * 300, "source": {"type": "file_content", "content": [ROW]}}
    done = openai(tmp_path, check("eq"), {"name": "r", "data_source": source})
    assert left_out(done) == ["a model: its name cannot be used"]
    assert done.settings["eval-r"] == {"iter_max": 1}
