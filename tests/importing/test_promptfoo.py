"""What a configuration of promptfoo can hold, and what is done with files, code and strange values."""

import json
from pathlib import Path
from typing import Any

import pytest

from redraft.importing.promptfoo_assertions import assertion_in
from redraft.importing.texts import NotCarried
from tests.importing.importing import changed, checks, criteria, items, left_out, promptfoo, verdict


def one_test(tmp_path: Path, *assertions: Any, **test: Any) -> Any:
    """Import one test of one prompt with these assertions."""
    config = {"prompts": ["Go {{a}}"], "providers": ["openai:gpt-x"], "tests": [{"assert": list(assertions), **test}]}
    return promptfoo(tmp_path, json.dumps(config))


@pytest.mark.parametrize(
    ("assertion", "good", "bad"),
    [
        ({"type": "equals", "value": "4"}, "4", "5"),
        ({"type": "equals", "value": {"a": [1]}}, '{"a": [1]}', '{"a": [2]}'),
        ({"type": "equals", "value": 4}, "4", "4.5"),
        ({"type": "icontains", "value": "ABC"}, "xabcx", "ab"),
        ({"type": "contains-all", "value": ["a", "b"]}, "ba", "a"),
        ({"type": "icontains-all", "value": "A, b"}, "ab", "a"),
        ({"type": "icontains-any", "value": ["A", "z"]}, "a", "x"),
        ({"type": "starts-with", "value": "Dear"}, "Dear X", "My Dear"),
        ({"type": "regex", "value": r"\d{3}"}, "a123", "12"),
        ({"type": "word-count", "value": {"min": 2, "max": 3}}, "an e-mail now", "one two three four"),
        ({"type": "word-count", "value": 2}, " two words ", "one"),
        ({"type": "word-count", "value": {"max": 1}}, "one", "one two"),
    ],
)
def test_assertions_become_checks_with_the_same_outcome(tmp_path: Path, assertion: Any, good: str, bad: str):
    (item,) = items(done := one_test(tmp_path, assertion))
    assert left_out(done) == []
    assert (verdict(item, good), verdict(item, bad)) == (True, False)


@pytest.mark.parametrize(
    ("assertion", "good", "bad"),
    [
        ({"type": "not-contains", "value": "a"}, "b", "a"),
        ({"type": "not-icontains-any", "value": ["A", "b"]}, "c", "xa"),
        ({"type": "not-equals", "value": "a+b (c)"}, "a+b (c).", "a+b (c)"),
        ({"type": "not-starts-with", "value": "$5"}, "x$5", "$5 x"),
        ({"type": "not-regex", "value": "x{2}"}, "x", "xx"),
        ({"type": "not-is-json"}, "text", "[1]"),
        ({"type": "not-contains-all", "value": ["a", "b"]}, "a", "ab"),
    ],
)
def test_negated_assertions_pass_where_the_assertion_fails(tmp_path: Path, assertion: Any, good: str, bad: str):
    (item,) = items(done := one_test(tmp_path, {"type": "regex", "value": "."}, assertion))
    assert left_out(done) == []
    assert (verdict(item, good), verdict(item, bad)) == (True, False)


def test_a_negation_without_a_check_needs_another_criterion_and_no_threshold(tmp_path: Path):
    assert left_out(one_test(tmp_path, {"type": "not-is-json"})) == [
        "the evaluation of the test: a rubric needs a criterion that can be met"
    ]
    both = [{"type": "not-is-json"}, {"type": "contains", "value": "a"}]
    assert left_out(one_test(tmp_path, *both, threshold=0.5)) == [
        "the evaluation of the test: a criterion that must not be met has another score with a threshold"
    ]


@pytest.mark.parametrize(
    ("assertion", "why"),
    [
        ({"type": "javascript", "value": "true"}, "it is code, which is not carried"),
        ({"type": "not-python", "value": "True"}, "it is code, which is not carried"),
        ({"type": "equals", "value": "file://check.py:grade"}, "check.py:grade is code, which is not carried"),
        ({"type": "webhook", "value": "http://10.0.0.1/"}, "it calls a server of its own"),
        ({"type": "cost", "threshold": 1}, "Redraft has no counterpart"),
        ({"type": "trajectory:tool-used"}, "Redraft has no counterpart"),
        ({"type": "is-jsno"}, "this kind is not known"),
        ({"type": ["contains"]}, "it has no type"),
        ("contains", "it has no type"),
        ({"type": "contains", "value": ""}, "its value is no text"),
        ({"type": "contains", "value": ["a"]}, "its value is no text"),
        ({"type": "contains", "value": "{{ a | upper }}"}, "the template has an expression that is no plain variable"),
        ({"type": "contains", "value": "{% if a %}b{% endif %}"}, "the template has more than plain variables"),
        ({"type": "contains", "value": "{{ env.SECRET }}"}, "exists only while promptfoo runs"),
        ({"type": "contains", "value": "a", "weight": -1}, "its weight is no number from 0 to 1000"),
        ({"type": "contains", "value": "a", "weight": True}, "its weight is no number from 0 to 1000"),
        ({"type": "contains", "value": "a", "rubricPrompt": "x"}, "its `rubricPrompt` has no counterpart"),
        ({"type": "regex", "value": "(?<=a)b"}, "Redraft cannot use it"),
        ({"type": "is-json", "value": {"$ref": "http://10.0.0.1/s"}}, "Redraft cannot use it"),
        ({"type": "contains-any", "value": '"a, b", c'}, "write it as a list"),
        ({"type": "word-count", "value": {"least": 1}}, "its value has no number of words"),
        ({"type": "llm-rubric", "value": "Good", "threshold": 2}, "its threshold is not from 0 to 1"),
        ({"$ref": "#/assertionTemplates/none"}, "this kind is not known"),
    ],
)
def test_an_assertion_that_cannot_be_carried_is_listed_and_no_criterion(tmp_path: Path, assertion: Any, why: str):
    done = one_test(tmp_path, assertion)
    assert "rubric" not in done.datasets["prompt-1"][0]
    first, second = left_out(done)
    assert why in first
    assert second == "the evaluation of the test: there is no criterion; give criteria with --crit"


def test_all_weights_0_are_no_criterion(tmp_path: Path):
    done = one_test(tmp_path, {"type": "contains", "value": "a", "weight": 0})
    assert left_out(done) == ["the evaluation of the test: a rubric needs a criterion that can be met"]


def test_a_weight_of_0_is_reported_and_fails_nothing(tmp_path: Path):
    done = one_test(tmp_path, {"type": "contains", "value": "a"}, {"type": "contains", "value": "b", "weight": 0})
    assert [(each["weight"], each["required"]) for each in criteria(done).values()] == [(1, True), (0, False)]
    assert verdict(items(done)[0], "a")


def test_a_threshold_is_that_of_the_weighted_score(tmp_path: Path):
    a, code = {"type": "contains", "value": "a"}, {"type": "javascript", "value": "1"}
    done = one_test(tmp_path, a, code, threshold=0.25)
    assert done.datasets["prompt-1"][0]["score_threshold"] == 0.25
    assert changed(done) == ["the threshold: assertions are left out, so scores differ"]
    for wrong in (2, "0.5", True):
        assert "is not from 0 to 1" in left_out(one_test(tmp_path, a, threshold=wrong))[0]


def test_a_scale_with_a_threshold_of_the_test_has_no_mark_for_a_pass(tmp_path: Path):
    scale, rubric = {"type": "g-eval", "value": "Clear", "threshold": 0.5}, {"type": "llm-rubric", "value": "Right"}
    done = one_test(tmp_path, scale, rubric, threshold=0.6)
    assert criteria(done)["g-eval"]["anchors"] == {"0": "a score of 0", "5": "a score of 1"}
    assert "the threshold: a verdict of a model counts as 0 or 1" in changed(done)


def test_a_negation_without_weight_is_listed(tmp_path: Path):
    done = one_test(tmp_path, {"type": "contains", "value": "a"}, {"type": "not-is-json", "weight": 0})
    assert left_out(done) == ["assertion not-is-json: a negation without weight has no counterpart"]
    assert verdict(items(done)[0], '"a"')


def test_two_prompts_of_one_label_are_both_run(tmp_path: Path):
    prompts = [{"raw": "One", "label": "same"}, {"raw": "Two", "label": "same"}]
    config = {"prompts": prompts, "providers": ["openai:gpt-x"], "tests": [{}]}
    done = promptfoo(tmp_path, json.dumps(config))
    assert done.runs == [("same", "openai-gpt-x"), ("same-2", "openai-gpt-x")]
    assert [rows[0]["instruct"] for rows in done.datasets.values()] == ["One", "Two"]


def test_a_system_message_of_a_given_answer_is_told(tmp_path: Path):
    config = {"prompts": ["file://p.json"], "providers": [], "tests": [{"providerOutput": "x"}]}
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    done = promptfoo(tmp_path, json.dumps(config), p__json=messages)
    assert changed(done) == [
        "the system message: it is dropped, because the row has an answer, so no generator is called"
    ]


def test_a_provider_with_a_server_of_its_own_is_listed(tmp_path: Path):
    provider = {"id": "openai:gpt-x", "config": {"apiBaseUrl": "http://10.0.0.1/v1"}}
    config = {"prompts": ["a"], "providers": [provider], "tests": [{}]}
    done = promptfoo(tmp_path, json.dumps(config))
    assert left_out(done)[-1].startswith("provider openai:gpt-x: Redraft has no such provider")
    assert done.settings == {"default": {"iter_max": 1}}


def test_lists_of_variables_are_tests_of_their_own(tmp_path: Path):
    config = {
        "prompts": ["{{a}} {{b.c}} {{ d[1]['e f'] }} {{none}}"],
        "providers": [],
        "tests": [{"vars": {"a": ["x", "y"], "b": {"c": "{{nested}}"}, "nested": 7, "d": [{}, {"e f": True}]}}],
    }
    done = promptfoo(tmp_path, json.dumps(config))
    rows = done.datasets["prompt-1"]
    assert [row["instruct"] for row in rows] == ["x 7 true ", "y 7 true "]
    assert [row["custom_id"] for row in rows] == ["test-1", "test-2"]
    assert done.settings == {"default": {"iter_max": 1}}


def test_variables_that_name_each_other_end(tmp_path: Path):
    config = {"prompts": ["{{a}}"], "providers": [], "tests": [{"vars": {"a": "{{b}}", "b": "{{a}}"}}]}
    assert "the variables are nested more than 5 times" in left_out(promptfoo(tmp_path, json.dumps(config)))[-1]


def test_scenarios_are_each_configuration_with_each_test(tmp_path: Path):
    config = {
        "prompts": ["{{language}}: {{text}}"],
        "providers": ["openai:gpt-x"],
        "scenarios": [
            {
                "config": [{"vars": {"language": "de"}}, {"vars": {"language": "fr"}}],
                "tests": [{"vars": {"text": "hi"}, "assert": [{"type": "contains", "value": "{{language}}"}]}],
            }
        ],
        "evaluateOptions": {"repeat": 3, "maxConcurrency": 2},
        "env": {"KEY": "v"},
    }
    done = promptfoo(tmp_path, json.dumps(config))
    assert [checks(item)[0]["value"] for item in items(done)] == ["de", "fr"]
    assert (done.repeat, left_out(done)) == (3, ["env: Redraft has no counterpart"])


def test_files_outside_of_the_folder_are_not_read(tmp_path: Path):
    (tmp_path / "secret.txt").write_text("the secret")
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    names = [
        "../secret.txt",
        str(tmp_path / "secret.txt"),
        "link.txt",
        "up/secret.txt",
        "up/*.txt",
        "a/../../secret.txt",
    ]
    config = {"prompts": ["{{a}}", *(f"file://{name}" for name in names)], "providers": [], "tests": []}
    config["tests"] = [{"vars": {"a": f"file://{name}"}} for name in names]
    done = promptfoo(folder, json.dumps(config))
    assert done.datasets == {}
    assert len([each for each in left_out(done) if "outside of the folder" in each]) == 2 * len(names)
    assert "the secret" not in str(done)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"tests": "https://docs.google.com/spreadsheets/d/x"}, "made by a program or fetched from a server"),
        ({"tests": "huggingface://datasets/x"}, "made by a program or fetched from a server"),
        ({"tests": "file://make.py:tests"}, "make.py:tests is code"),
        ({"tests": "file://none.csv"}, "there is no file none.csv"),
        ({"tests": "file://t.xlsx"}, "has no format that is read"),
        ({"tests": "file://short.csv"}, "row 2, has 1 cells instead of 2"),
        ({"tests": "file://latin.csv"}, "is not UTF-8 text"),
        ({"tests": "file://*.nothing"}, "no file matches"),
        ({"tests": "file://double.json"}, "twice in one object"),
        ({"tests": [3]}, "made by a program"),
        ({"tests": [{"vars": [1]}]}, "its vars are no object"),
        ({"tests": [{"assert": "contains"}]}, "its assert is no list"),
        ({"prompts": "exec:./prompt.sh"}, "made by a program"),
        ({"prompts": "file://prompt.js"}, "prompt.js is code"),
        ({"prompts": [{"label": "x"}]}, "it is no text"),
        ({"prompts": "file://chat.json"}, "not turns of user and assistant"),
        ({"defaultTest": "file://none.yaml"}, "there is no file none.yaml"),
        ({"scenarios": ["x"]}, "it has no list of configurations"),
        ({"providers": "file://provider.py"}, "provider.py is code"),
        ({"providers": ["exec:./run.sh"]}, "Redraft has no such provider"),
        ({"providers": ["openai:embedding:x"]}, "openai:embedding is no chat model"),
        ({"providers": [7]}, "it is no provider"),
    ],
)
def test_what_cannot_be_read_is_listed(tmp_path: Path, files: dict[str, Any], why: str):
    config = {"prompts": ["{{a}}"], "providers": ["openai:gpt-x"], "tests": [{"vars": {"a": "b"}}], **files}
    done = promptfoo(
        tmp_path,
        json.dumps(config),
        t__xlsx="x",
        short__csv="a,b\n1\n",
        latin__csv="a\nä\n".encode("latin-1"),
        double__json='{"vars": {}, "vars": {}}',
        chat__json=[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    )
    assert any(why in each for each in left_out(done)), left_out(done)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("prompts: [a]\nprompts: [b]\ntests: []", "repeats the key 'prompts' at line 1"),
        ("a: &a [*a]", "has an alias within its own anchor"),
        ("a: !!python/object/apply:os.system [echo]", "could not determine a constructor"),
        ("a: [", "is no usable YAML at line"),
        ("[" * 3000, "is no usable YAML"),
        ("a: 1\n---\nb: 2", "is no usable YAML"),
        ("just a text", "it is no configuration of promptfoo"),
        ("prompts: [a]", "it is no configuration of promptfoo"),
        ("a: " + "x" * 5_000_001, "is larger than 5 MB"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str, why: str):
    with pytest.raises(NotCarried, match=why):
        promptfoo(tmp_path, text)


@pytest.mark.parametrize("inner", ["{{<<: [*a{n}, *a{n}]}}", "[*a{n}, *a{n}]"])
def test_aliases_and_merges_cannot_multiply_values(tmp_path: Path, inner: str):
    lines = ["a0: &a0 {p: 1, q: 2}"]
    lines += [f"a{n + 1}: &a{n + 1} {inner.format(n=n)}" for n in range(25)]
    with pytest.raises(NotCarried, match="has more than 200,000 values"):
        promptfoo(tmp_path, "\n".join(lines))


def test_values_of_yaml_are_those_of_javascript(tmp_path: Path):
    config = """
prompts: ['{{a}} {{b}} {{c}} {{d}} {{e}} {{f}}']
providers: []
tests: [{vars: {a: no, b: 1:30, c: 2024-05-01, d: 2.0, e: true, f: ~}}]
"""
    assert promptfoo(tmp_path, config).datasets["prompt-1"][0]["instruct"] == "no 1:30 2024-05-01 2 true "


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("Bern", {"type": "equals", "value": "Bern"}),
        ("not-icontains: sorry ", {"type": "not-icontains", "value": "sorry"}),
        ("similar(0.7):Hi there", {"type": "similar", "value": "Hi there", "threshold": 0.7}),
        ("contains-all: a, b", {"type": "contains-all", "value": ["a", "b"]}),
        ("is-json", {"type": "is-json"}),
        ("fn:output > 1", {"type": "javascript", "value": "output > 1"}),
        ("grade: polite", {"type": "llm-rubric", "value": "polite"}),
        ("Note: icontains:x", {"type": "equals", "value": "Note: icontains:x"}),
    ],
)
def test_cells_are_assertions(cell: str, found: Any):
    assert assertion_in(cell) == found


def test_cells_set_more_than_assertions(tmp_path: Path):
    head = "q,__expected1,__expected2,__prefix,__description,__threshold,__metadata:team,__config:x"
    cells = f"{head}\nWhy?,contains:a,contains:b,Now: ,About why,0.5,red,1\n"
    config = {"prompts": ["{{q}}"], "providers": [], "tests": "file://t.csv"}
    done = promptfoo(tmp_path, json.dumps(config), t__csv=cells)
    (row,) = done.datasets["prompt-1"]
    assert (row["instruct"], row["score_threshold"], len(row["rubric"])) == ("Now: Why?", 0.5, 2)
    assert row["metadata"] == {"description": "About why", "team": "red"}
    assert left_out(done) == ["test: __config:x: Redraft has no counterpart"]


def test_criteria_can_be_shown_to_the_generator(tmp_path: Path):
    config = {"prompts": ["a"], "providers": [], "tests": [{"assert": [{"type": "contains", "value": "x"}]}]}
    shown = promptfoo(tmp_path, json.dumps(config), is_hidden=False)
    assert [each["hidden"] for each in criteria(shown).values()] == [False]
