"""Requests as forms and back, and as commands that a shell and Python read as they are meant."""

import ast
import json
import subprocess
from typing import Any

import pytest

from api.pages.new.form_errors import FormError, find_all, in_order, validate
from api.pages.new.job_form_fields import GROUPS
from api.pages.new.job_forms import JobForm, minimal
from api.pages.parts.forms import Form
from api.pages.parts.snippets import snippets_of
from redraft.domain.jobs.requests import GenerateAnswer, dump
from redraft.errors import Invalid

FULL: dict[str, Any] = {
    "instruct": "\n-x 'Explain' \"it\" $HOME `id` \\\n\u202etwo\u0007 lines",
    "resp_format": "Prose.",
    "eval_crit": "True.",
    "iter_max": 5,
    "score_threshold": 0,
    "model": ["openai:a", "anthropic:b"],
    "evaluator_model": "openai:judge",
    "rubric": [
        {"id": "x", "text": "Names it.", "required": True},
        {"id": "wrong", "text": "Is false.", "weight": -2.5, "hidden": True},
        {"id": "deep", "kind": "scale", "text": "Two\nlines", "anchors": {"0": "shallow", "5": "deep: all"}},
        {"id": "short", "kind": "check", "text": "Short.", "check": {"kind": "max_words", "value": 60}},
        {"id": "points", "kind": "check", "check": {"kind": "bullets", "min": 2}},
        {"id": "json", "kind": "check", "check": {"kind": "is_json"}},
        {
            "id": "all",
            "kind": "check",
            "check": {"kind": "contains_all", "value": ["a", "b -- c"], "ignore_case": True},
        },
        {"id": "odd", "kind": "check", "check": {"kind": "contains_any", "value": ["one ", "two\nlines"]}},
        {"id": "none", "kind": "check", "check": {"kind": "not_contains", "value": "a\nb"}},
        {"id": "schema", "kind": "check", "check": {"kind": "json_schema", "value": {"type": "object"}}},
        {"id": "between", "kind": "check", "check": {"kind": "numeric_between", "min": 0.5, "max": 1e30}},
    ],
    "sources": [
        {"content": "One.", "title": "T", "relevance_score": 0.0, "metadata": {"k": 1}},
        {"content": "Two.", "chunk_id": "c2"},
    ],
    "grounding": {"mode": "analytical", "require_grounding": False},
    "conversation": [["Hello", "Hi"]],
    "candidates": 2,
    "revision": {"strategy": "fresh", "from": "last"},
    "stop": {"plateau_patience": 0},
    "limits": {"deadline_s": 12.5, "max_cost_usd": 0.25, "max_tokens": 10**12},
    "sampling": {"temperature": 0, "max_output_tokens": 100, "top_p": 0.5, "seed": -7, "reasoning_effort": "none"},
    "evaluator_sampling": {
        "temperature": 1.5,
        "max_output_tokens": 9,
        "seed": 0,
        "top_p": 1,
        "reasoning_effort": "max",
    },
    "evaluation": {"samples": 2, "panel": ["openai:p"]},
    "answer_schema": {"type": "object", "properties": {}},
    "reference": "Known.",
    "system_instructions": "Be brief.",
    "stream": True,
    "cache": "use",
    "webhook": {"url": "https://example.com/hook"},
    "metadata": {"team": "a=b", "ü": "<b>"},
}
SMALL = {"instruct": "Why?", "eval_crit": "True."}


def as_sent(form: JobForm) -> Form:
    """As a browser sends it, with line ends of its own."""
    fields = {name: [text.replace("\n", "\r\n")] for name, text in form.texts.items() if text or name != "stream"}
    for group, (_, parts) in GROUPS.items():
        for part in parts:
            fields[f"{group}_{part}"] = [row[part].replace("\n", "\r\n") for row in form.rows[group]] + [""]
    return Form(fields)


@pytest.mark.parametrize("request_", [FULL, SMALL, {**SMALL, "profile": "quality", "answer_schema": "comparison"}])
def test_a_request_comes_back_from_the_form_as_it_was(request_: dict[str, Any]):
    wanted = dump(GenerateAnswer.model_validate(request_))
    form = JobForm.sent(as_sent(JobForm.of_request(wanted)))
    body, errors = form.body()
    assert errors == []
    found, errors = validate(body)
    assert errors == []
    assert found
    assert dump(found) == wanted


def test_the_rest_is_shown_without_what_is_so_anyway():
    assert JobForm.of_request(dump(GenerateAnswer.model_validate(SMALL))).texts["more"] == ""
    more = json.loads(JobForm.of_request(dump(GenerateAnswer.model_validate(FULL))).texts["more"])
    assert set(more) == {"webhook"}
    assert minimal({**SMALL, "iter_max": 3, "cache": "off", "limits": {"deadline_s": 600}}) == SMALL


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({"instruct": " "}, {"instruct"}),
        ({"instruct": "", "eval_crit": ""}, {"instruct", "eval_crit"}),
        ({"iter_max": "0", "eval_crit": ""}, {"iter_max", "eval_crit"}),
        ({"instruct": "", "eval_crit": "", "profile": "quality"}, {"instruct"}),
        ({"instruct": "", "eval_crit": "", "rubric": "True."}, {"instruct"}),
        ({"eval_crit": ""}, {"eval_crit"}),
        ({"iter_max": "many", "score_threshold": "1.5"}, {"iter_max", "score_threshold"}),
        ({"metadata": "no pair"}, {"metadata"}),
        ({"answer_schema": "{"}, {"answer_schema"}),
        ({"more": "[]"}, {"more"}),
        ({"more": '{"evaluation": {"samples": 99}}'}, {"samples"}),
        ({"rubric": "max_words=x"}, {"rubric"}),
        ({"rubric": "max_wrds=60"}, {"rubric"}),
        ({"criterion_text": "max_wrds=60"}, {"criterion_text_1"}),
        ({"criterion_kind": "max_words", "criterion_value": "x"}, {"criterion_value_1"}),
        ({"criterion_kind": "is_json", "criterion_weight": "-1", "criterion_id": "?"}, {"criterion_id_1"}),
        ({"criterion_kind": "scale", "criterion_text": "T", "criterion_anchors": "7: x"}, {"criterion_anchors_1"}),
        ({"grounding_include_citations": "maybe"}, {"grounding_include_citations"}),
        ({"turn_user": "x" * 400_000, "turn_assistant": "b"}, {"turn_user_1"}),
        ({"profile": "no good"}, {"profile"}),
        ({"source_content": "", "source_title": "T", "source_more": ""}, {"source_content_1"}),
        ({"source_content": "C", "source_title": "", "source_more": "{"}, {"source_more_1"}),
        ({"max_tokens": "0", "temperature": "3"}, {"max_tokens", "temperature"}),
    ],
)
def test_field_errors_are_at_their_fields(fields: dict[str, str], errors: set[str]):
    form = JobForm.sent(Form({name: [text] for name, text in {**SMALL, **fields}.items()}))
    body, unread = form.body()
    assert {error.field for error in [*unread, *validate(body)[1]]} == errors


def test_a_field_error_within_a_field_says_where():
    _, errors = validate({**SMALL, "rubric": [{"id": "a", "text": "T"}, {"id": "a", "text": "T"}]})
    assert errors[0].field == "criterion_id_2"
    [in_text] = JobForm({}, is_text=True).placed(errors)
    assert (in_text.field, in_text.words.startswith("criterion 2, id: ")) == ("rubric", True)
    assert FormError("source_content_2", "x").label == "Source 2, content"


def snippets(body: dict[str, Any], *, with_key: bool = False) -> dict[str, str]:
    return {each.name: each.text for each in snippets_of(body, "http://127.0.0.1:1/a'b", with_key=with_key)}


def passed_by_a_shell(text: str, program: str) -> tuple[list[str], str]:
    """The arguments and the input that a program gets by a command."""
    python = "import json, sys; print(json.dumps([sys.argv[1:], '' if sys.stdin.isatty() else sys.stdin.read()]))"
    script = f'{program}() {{ python3 -c "$PROGRAM" "$@"; }}\n{text}'
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PROGRAM": python, "PATH": "/usr/bin:/bin", "REDRAFT_API_KEY": "rd_key"},
        input="",
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("body", [minimal(FULL), SMALL, {**SMALL, "instruct": 'a\'b\n$(id) "c"'}])
def test_a_shell_and_python_read_the_request_as_it_is(body: dict[str, Any]):
    texts = snippets(body)
    arguments, _ = passed_by_a_shell(texts["curl"], "curl")
    assert arguments[0] == "http://127.0.0.1:1/a'b/v1/generate-answer"
    assert json.loads(arguments[-1]) == body
    arguments, stdin = passed_by_a_shell(texts["CLI"], "redraft")
    if arguments == ["ask", "--file", "-"]:
        assert json.loads(stdin) == body
    else:
        assert arguments == ["ask", body["instruct"], "--crit", body["eval_crit"]]
    [assigned] = [node for node in ast.parse(texts["Python"]).body if isinstance(node, ast.Assign)][:1]
    assert ast.literal_eval(assigned.value) == body
    assert "\u202e" not in "".join(texts.values())


def test_a_key_is_named_and_never_shown():
    assert "REDRAFT_API_KEY" not in "".join(snippets(SMALL).values())
    texts = snippets(SMALL, with_key=True)
    assert "Authorization: Bearer rd_key" in passed_by_a_shell(texts["curl"], "curl")[0]
    assert "REDRAFT_API_KEY" in texts["Python"]
    compile(texts["Python"], "snippet", "exec")


def test_options_say_all_that_they_can():
    body = {**SMALL, "model": ["openai:a", "openai:b"], "score_threshold": 0.5}
    arguments, _ = passed_by_a_shell(snippets(body)["CLI"], "redraft")
    assert arguments[-6:] == ["--model", "openai:a", "--model", "openai:b", "--threshold", "0.5"]


def test_a_very_long_request_has_no_commands():
    assert snippets({**SMALL, "reference": "x" * 60_000}) == {}


def test_a_field_that_is_given_twice_is_refused():
    more = '{"iter_max": 2, "limits": {"max_tokens": 5, "deadline_s": 9}, "rubric": [], "reference": "R"}'
    fields = {**SMALL, "iter_max": "3", "max_tokens": "7", "criterion_text": "Names it.", "more": more}
    _, errors = JobForm.sent(Form({name: [text] for name, text in fields.items()})).body()
    words = [error.words for error in errors if error.field == "more"]
    twice = ["iter_max", "limits.max_tokens", "rubric"]
    assert [each.partition(" is given twice")[0] for each in words] == twice


def test_all_errors_are_found_in_one_round_and_in_the_order_of_the_page():
    def check(request: GenerateAnswer) -> None:
        if request.evaluator_model == "no:model":
            raise Invalid.at("/evaluator_model", "there is no such model", "unknown_model")
        if request.model == "no:model":
            raise Invalid.at("/model", "there is no such model", "unknown_model")

    fields = {
        "metadata": "no pair",
        "model": "no:model",
        "evaluator_model": "no:model",
        "samples": "0",
        "iter_max": "0",
    }
    form = JobForm.sent(Form({name: [text] for name, text in fields.items()}))
    body, errors = form.body()
    found = in_order([*errors, *find_all(body, check)])
    names = ["instruct", "eval_crit", "iter_max", "model", "evaluator_model", "samples", "metadata"]
    assert [error.field for error in found] == names


def test_rows_are_moved_and_removed():
    def after(action: str) -> list[str]:
        fields = {"criterion_text": ["a", "", "c"], "criterion_kind": ["binary"] * 3, "do": [action]}
        return [row["text"] for row in JobForm.sent(Form(fields)).rows["criterion"]]

    assert after("show") == ["a", "c"]
    assert after("up_criterion_3") == ["a", "c"]
    assert after("up_criterion_1") == ["a", "c"]
    assert after("down_criterion_1") == ["a", "c"]
    assert after("remove_criterion_1") == ["c"]
    for number in ("0", "9", "-1", "²", "9" * 5000, ""):
        assert after(f"remove_criterion_{number}") == ["a", "c"]


def test_a_part_of_some_rows_only_is_refused():
    fields = {"criterion_text": ["a", "b"], "criterion_kind": ["binary"] * 2, "criterion_id": ["first"]}
    with pytest.raises(Invalid, match="criterion_id was sent 1 times for 2 rows"):
        JobForm.sent(Form(fields))


def test_a_label_or_variable_whose_name_is_a_number_is_no_item_of_a_list():
    for name in ("1", "9" * 5000):
        more = {"metadata": {name: 5}, "evaluation": {"panel": [5]}}
        found = {error.field: error.words for error in find_all({**SMALL, **more}, lambda _: None)}
        assert found["metadata"].startswith(f"{name}: ")
        assert found["panel"].startswith("item 1: ")
