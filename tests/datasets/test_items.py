"""Rows with a run's defaults and overrides, as requests."""

from typing import Any

import pytest

from redraft.datasets.items import Item, Merger
from redraft.domain.jobs.requests import EvaluateAnswer, GenerateAnswer
from redraft.domain.jobs.states import JobKind
from redraft.errors import Invalid
from tests.datasets.reading import bad, good, items_of, row_of, told


def item_of(content: str, **options: Any) -> Item:
    (item,) = items_of(content, **options)
    assert isinstance(item, Item), item
    return item


def test_a_row_becomes_a_request():
    item = item_of('{"id": "a", "question": "b", "human_score": 0.5}')
    assert item.request == GenerateAnswer(instruct="b", eval_crit="It is right.")
    assert (item.custom_id, item.line, item.kind) == ("a", 1, JobKind.GENERATE_ANSWER)
    assert (item.human_score, item.human_pass) == (0.5, None)


def test_a_row_with_an_answer_is_judged():
    item = item_of('{"question": "a", "answer": "b", "human_pass": true}')
    assert item.request == EvaluateAnswer(instruct="a", answer="b", eval_crit="It is right.")
    assert (item.kind, item.human_pass) == (JobKind.EVALUATE_ANSWER, True)


def test_the_row_goes_before_the_defaults_and_the_overrides_before_the_row():
    request = item_of(
        '{"question": "a", "iter_max": 2, "limits": {"max_tokens": 5}, "metadata": {"a": "row", "b": "row"}}',
        defaults={"eval_crit": "c", "iter_max": 1, "limits": {"deadline_s": 7.0, "max_tokens": 6}, "candidates": 2},
        overrides={"candidates": 3, "metadata": {"b": "run"}},
    ).request
    assert isinstance(request, GenerateAnswer)
    assert (request.iter_max, request.candidates) == (2, 3)
    assert (request.limits.deadline_s, request.limits.max_tokens) == (7.0, 5)
    assert request.metadata == {"a": "row", "b": "run"}


def test_what_has_no_named_parts_is_replaced_as_a_whole():
    request = item_of(
        '{"question": "a", "answer_schema": {"type": "object"}, "model": ["openai:a"]}',
        defaults={"eval_crit": "c", "answer_schema": {"title": "t"}, "model": ["openai:b", "openai:c"]},
    ).request
    assert isinstance(request, GenerateAnswer)
    assert (request.answer_schema, request.model) == ({"type": "object"}, ["openai:a"])


def test_one_row_does_not_change_the_next():
    defaults = {"eval_crit": "c", "metadata": {"run": "r"}}
    items = good(items_of('{"question": "a", "metadata.x": "1"}\n{"question": "b"}', defaults=defaults))
    assert [item.request.metadata for item in items] == [{"run": "r", "x": "1"}, {"run": "r"}]


def test_what_a_run_gives_for_generating_passes_by_rows_with_answers():
    assert item_of('{"question": "a", "answer": "b"}', defaults={"eval_crit": "c", "iter_max": 2}).line == 1


def test_what_a_row_gives_for_generating_does_not_go_with_its_answer():
    assert told(items_of('{"question": "a", "answer": "b", "iter_max": 2}')) == [
        (1, "iter_max is for answers to be written; this row brings one in its column answer.")
    ]


@pytest.mark.parametrize(
    ("text", "pointer", "words"),
    [
        ('{"question": " "}', "/instruct", "instruct: must hold more than white space."),
        ('{"question": 5}', "/instruct", "instruct: must be a text."),
        ('{"question": "a", "score_threshold": 2}', "/score_threshold", "must be at most 1"),
        ('{"question": "a", "limits": {"max_tokens": 0}}', "/limits/max_tokens", "limits.max_tokens: "),
        ('{"question": "a", "limits": {"max": 0}}', "/limits/max", "limits.max: Unknown field."),
        ('{"question": "a", "metadata": {"n": 1}}', "/metadata/n", "metadata.n: "),
        ('{"question": "a", "rubric": [{"id": "x", "text": "y"}, {"id": "z"}]}', "/rubric/1/text", "rubric.1.text: "),
    ],
)
def test_what_is_not_valid_is_told_by_place(text: str, pointer: str, words: str):
    (row,) = bad(items_of(text))
    assert row.errors[0].pointer == pointer
    assert words in row.errors[0].detail
    assert row.custom_id


def test_something_to_evaluate_by_is_needed():
    assert "needs eval_crit or a rubric" in told(items_of('{"question": "a"}', defaults={}))[0][1]


def test_all_field_errors_of_a_row_are_told():
    text = '{"question": "a", "iter_max": 0, "candidates": 0, "resp_format": 3}'
    assert {error.pointer for error in bad(items_of(text))[0].errors} == {"/iter_max", "/candidates", "/resp_format"}


@pytest.mark.parametrize(
    ("defaults", "pointer", "words"),
    [
        ({"iter_max": 99}, "/defaults/iter_max", "must be at most 10"),
        ({"kind": "evaluate_answer"}, "/defaults/kind", "a row that has an answer becomes evaluate_answer"),
        ({"iter_mx": 1}, "/defaults/iter_mx", r"There is no field 'iter_mx' \(did you mean 'iter_max'\?\)"),
        ({"limits": {"max_cost": 1}}, "/defaults/limits/max_cost", "'limits.max_cost_usd'"),
        ({"custom_id": "a"}, "/defaults/custom_id", "belongs to a row"),
        ({"answer": "a"}, "/defaults/answer", "belongs to a row"),
        ({"vars": 3}, "/defaults/vars", "needs an object"),
        ({"profile": "quality", "rubric": [{"id": "a", "text": "b"}]}, "/defaults/rubric", "brings its own criteria"),
    ],
)
def test_what_a_run_gives_is_checked_before_any_row(defaults: dict[str, Any], pointer: str, words: str):
    with pytest.raises(Invalid, match=words) as caught:
        Merger(defaults)
    assert caught.value.errors[0].pointer == pointer


def test_overrides_are_checked_too():
    with pytest.raises(Invalid, match="stream: must be true or false"):
        Merger({}, {"stream": "yes"})


def test_templates_take_the_vars_of_the_row():
    text = '{"question": "Greet {{ name }} in {{ vars.language }}.", "vars": {"name": "Ada", "language": "Latin"}}'
    assert item_of(text).request.instruct == "Greet Ada in Latin."


def test_templates_of_the_run_are_for_every_row():
    defaults = {
        "instruct": "What is the capital of {{ country }}?",
        "reference": "{{ capital }}",
        "resp_format": "{{ format }}",
        "rubric": [
            {"id": "x", "kind": "check", "check": {"kind": "contains", "value": "{{ capital }}"}},
            {"id": "y", "text": "Names {{ country }}"},
        ],
        "vars": {"format": "one word"},
    }
    request = item_of("vars.country,vars.capital\nPeru,Lima\n", defaults=defaults).request
    assert (request.instruct, request.reference) == ("What is the capital of Peru?", "Lima")
    assert request.resp_format == "one word"
    assert request.rubric is not None
    assert request.rubric[0].check is not None
    assert request.rubric[0].check.model_dump()["value"] == "Lima"
    assert request.rubric[1].text == "Names Peru"


def test_vars_of_row_and_run_are_merged():
    text = '{"question": "{{ a }}{{ b }}{{ c }}", "vars": {"b": "row", "c": "row"}}'
    merged = {"defaults": {"eval_crit": "x", "vars": {"a": "def ", "b": "def"}}, "overrides": {"vars": {"c": " over"}}}
    assert item_of(text, **merged).request.instruct == "def row over"


def test_a_variable_that_is_not_there_is_named():
    (row,) = bad(items_of('{"question": "Hi {{ nmae }}", "vars": {"name": "Ada"}}'))
    assert row.errors[0].pointer == "/instruct"
    assert row.errors[0].detail == "instruct: 'nmae' is undefined (did you mean name?); the vars are: name."


def test_a_template_that_is_not_used_does_not_matter():
    defaults = {"eval_crit": "{{ missing }}"}
    assert item_of('{"question": "a", "eval_crit": "b", "vars.c": "d"}', defaults=defaults).request.eval_crit == "b"


def test_templates_of_a_run_need_their_variables_in_each_row():
    items = items_of('{"question": "a"}\n{"question": "b", "vars.c": "d"}', defaults={"eval_crit": "{{ c }}"})
    assert told(items) == [(1, "eval_crit: 'c' is undefined; the vars are: none.")]


def test_a_row_without_vars_may_ask_about_braces():
    text = '{"question": "What does {{ x }} mean in Jinja?"}'
    assert item_of(text).request.instruct == "What does {{ x }} mean in Jinja?"
    merger = Merger()
    assert merger.takes_literally(row_of(text))
    assert not merger.takes_literally(row_of('{"question": "{{ a }}", "vars.a": 1}'))
    assert not merger.takes_literally(row_of('{"question": "a"}'))
    assert not Merger({"vars": {"x": 1}}).takes_literally(row_of(text))


def test_what_others_wrote_is_never_a_template():
    text = '{"question": "a", "answer": "{{ b }}", "vars.c": "{{ d }}", "sources": [{"content": "{{ e }}"}]}'
    request = item_of(text, defaults={"eval_crit": "{{ c }}"}).request
    assert isinstance(request, EvaluateAnswer)
    assert (request.answer, request.sources[0].content, request.eval_crit) == ("{{ b }}", "{{ e }}", "{{ d }}")
