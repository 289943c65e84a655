"""`redraft import`: files in, a dataset and settings out, which `redraft eval` runs as they are."""

import json
from pathlib import Path
from typing import Any

from tests.cli.bulk.dataset_rows import write
from tests.model_server import ModelServer
from tests.model_server.scripts import Rule, Script
from tests.support.shells import Shell

CONFIG = """
prompts: ['Translate to {{language}}: {{text}} [[case:{{case}}]]']
providers: [{id: 'openai:chat:writer', config: {temperature: 0.5}}]
defaultTest:
  assert: [{type: not-icontains, value: sorry}]
tests:
  - {vars: {case: good, language: French, text: Hello}, assert: [{type: icontains, value: bonjour}]}
  - {vars: {case: wrong, language: Greek, text: Hello}, assert: [{type: contains, value: Γειά}]}
  - {vars: {case: judged, language: Latin, text: Hello}, assert: [{type: llm-rubric, value: 'Is {{language}}.'}]}
  - {vars: {case: rude, language: Dutch, text: Hello}, assert: [{type: regex, value: '^[A-Z]'}]}
"""
ANSWERS = {"good": "Bonjour !", "wrong": "Salut", "judged": "Salve", "rude": "Sorry, no."}


def outcomes(shell: Shell, *arguments: str) -> dict[str, Any]:
    """Run a dataset; whether each row was accepted, by its custom id."""
    done = shell.run(*arguments, "--output", "results.jsonl")
    assert done.code == 0, done.err
    found = [json.loads(line) for line in Path("results.jsonl").read_text("utf-8").splitlines()]
    return {row["custom_id"]: row["success"] for row in found}


def test_a_configuration_of_promptfoo_runs_with_the_expected_outcomes(office: Shell, provider: ModelServer) -> None:
    rules = [Rule((text,), role="generate", case=case) for case, text in ANSWERS.items()]
    provider.play(Script((*rules, Rule((1.0,), role="evaluate"))))
    write("promptfooconfig.yaml", CONFIG)
    done = office.run("import", "promptfoo", "promptfooconfig.yaml", "-o", "out")
    assert done.code == 0, done.err
    (command,) = done.out.splitlines()
    assert command == "redraft eval out/prompt-1.jsonl --defaults out/openai-writer.settings.json"
    accepted = {"test-1": True, "test-2": False, "test-3": True, "test-4": False}
    assert outcomes(office, *command.split()[1:]) == accepted
    asked = provider.requests("generate")[-4:]
    assert all("bonjour" not in str(each.body).lower() for each in asked)
    assert {each.body["temperature"] for each in asked} == {0.5}


def test_an_eval_of_openai_runs_with_the_expected_outcomes(office: Shell, provider: ModelServer) -> None:
    graders = [
        {"type": "string_check", "name": "Same", "input": "{{sample.output_text}}", "reference": "{{item.label}}",
         "operation": "eq"},
        {"type": "label_model", "name": "Calm", "model": "judge", "labels": ["calm", "loud"],
         "passing_labels": ["calm"], "input": [{"role": "user", "content": "Label {{sample.output_text}}"}]},
    ]  # fmt: skip
    provider.script(evaluate=[1.0])
    write("eval.json", json.dumps({"name": "Sums", "testing_criteria": graders}))
    rows = [{"item": {"question": f"2 + {n}", "label": str(2 + n)}, "sample": {"output_text": "4"}} for n in (2, 3)]
    write("data.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    done = office.run("import", "openai-evals", "eval.json", "data.jsonl", "-o", "out", "--json")
    assert (done.code, done.data["left_out"]) == (0, []), done.err
    (command,) = done.data["commands"]
    asked = len(provider.requests("generate"))
    assert outcomes(office, *command.split()[1:]) == {"item-1": True, "item-2": False}
    assert len(provider.requests("generate")) == asked


def test_what_is_left_out_is_listed_and_the_exit_code_says_so(office: Shell) -> None:
    write("c.yaml", "{prompts: [a], providers: ['openai:x'], tests: [{assert: [{type: javascript, value: '1'}]}]}")
    done = office.run("import", "promptfoo", "c.yaml", "-o", "out")
    assert done.code == 6
    assert "tests, entry 1: assertion javascript: it is code, which is not carried" in done.err
    report = json.loads(Path("out/import.json").read_text("utf-8"))
    assert [each["what"] for each in report["left_out"]] == ["assertion javascript", "the evaluation of the test"]
    assert report["datasets"] == [{"file": "prompt-1.jsonl", "rows": 1}]
    # Without criteria, no run can seem a success
    assert office.run("eval", "out/prompt-1.jsonl", "--defaults", "out/openai-x.settings.json").code == 2


def test_files_and_options_that_are_wrong_change_nothing(office: Shell) -> None:
    write("bad.yaml", "a: [")
    write("good.json", json.dumps({"item": {"question": "q"}}))
    Path("full").mkdir()
    write("full/mine.txt", "mine")
    assert office.run("import", "promptfoo", "none.yaml").code == 5
    assert office.run("import", "promptfoo", "bad.yaml").code == 2
    assert office.run("import", "openai-evals", "good.json", "-o", "full").code == 2
    assert office.run("import", "openai-evals", "good.json", "--answer", "response").code == 2
    assert office.run("import", "openai-evals", "good.json", "bad.yaml").code == 2
    assert [path.name for path in Path("full").iterdir()] == ["mine.txt"]
    assert not Path("imported").exists()
