"""Requests as forms and back, and as commands that a shell and Python read as they are meant."""

import ast
import json
import subprocess
from typing import Any

import pytest

from api.pages.jobs.job_forms import FormError, JobForm, minimal, validate
from api.pages.parts.forms import Form
from api.pages.parts.snippets import snippets_of
from redraft.domain.jobs.requests import GenerateAnswer, dump

FULL: dict[str, Any] = {
    "instruct": "\n-x 'Explain' \"it\" $HOME `id` \\\n\u202etwo\u0007 lines",
    "resp_format": "Prose.",
    "eval_crit": "True.",
    "iter_max": 5,
    "score_threshold": 0,
    "model": ["openai:a", "anthropic:b"],
    "evaluator_model": "openai:judge",
    "rubric": [{"id": "x", "text": "Names it.", "required": True}],
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
    for part in ("title", "content", "more"):
        fields[f"source_{part}"] = [row[part] for row in form.sources] + [""]
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
    assert more["evaluation"] == {"samples": 2, "panel": ["openai:p"]}
    assert more["revision"] == {"from": "last"}
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
        ({"more": '{"evaluation": {"samples": 99}}'}, {"more"}),
        ({"rubric": "max_words=x"}, {"rubric"}),
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
    assert errors[0].field == "rubric"
    assert errors[0].words.startswith("criterion 2, id: ")
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
    assert "os.environ['REDRAFT_API_KEY']" in texts["Python"]
    compile(texts["Python"], "snippet", "exec")


def test_options_say_all_that_they_can():
    body = {**SMALL, "model": ["openai:a", "openai:b"], "score_threshold": 0.5}
    arguments, _ = passed_by_a_shell(snippets(body)["CLI"], "redraft")
    assert arguments[-6:] == ["--model", "openai:a", "--model", "openai:b", "--threshold", "0.5"]


def test_a_very_long_request_has_no_commands():
    assert snippets({**SMALL, "reference": "x" * 60_000}) == {}
