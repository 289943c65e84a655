"""What makes an answer good, as options: rubrics, checks, profiles, panels."""

import json
from pathlib import Path

import pytest

from redraft.cli.jobs.request_bodies import DEFAULT_CRITERION
from tests.model_server.server import ModelServer
from tests.support.shells import Shell

ONCE = ("--iter-max", "1", "--json")


def test_a_rubric_comes_from_a_file(office: Shell, provider: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "rubric.json").write_text(json.dumps([{"id": "river", "text": "Names the river.", "weight": 2}]))
    done = office.run("ask", "Describe Bern.", "--rubric", "rubric.json", *ONCE)
    request = done.data["request"]
    assert [(each["id"], each["weight"]) for each in request["rubric"]] == [("river", 2)]
    assert request["eval_crit"] is None
    assert DEFAULT_CRITERION not in done.err


def test_a_whole_request_can_stand_for_its_rubric(office: Shell, provider: ModelServer, tmp_path: Path) -> None:
    criteria = [{"id": "river", "text": "Names the river."}]
    (tmp_path / "request.json").write_text(json.dumps({"instruct": "Other.", "rubric": criteria}))
    request = office.run("ask", "Describe Bern.", "--rubric", "request.json", *ONCE).data["request"]
    assert request["instruct"] == "Describe Bern."
    assert [each["id"] for each in request["rubric"]] == ["river"]


def test_checks_are_required_criteria_with_ids_of_their_kind(office: Shell, provider: ModelServer) -> None:
    checks = ["max_words=60", "contains=Bern", "contains=a=b", "is_json", "bullets=2..4", "is-url-free"]
    options = [part for check in checks for part in ("--check", check)]
    rubric = office.run("ask", "Describe Bern.", *options, *ONCE).data["request"]["rubric"]
    assert [each["id"] for each in rubric] == [
        "max-words", "contains", "contains-2", "is-json", "bullets", "is-url-free",
    ]  # fmt: skip
    assert all(each["required"] and each["kind"] == "check" for each in rubric)
    assert rubric[2]["check"]["value"] == "a=b"
    assert (rubric[4]["check"]["min"], rubric[4]["check"]["max"]) == (2, 4)


def test_criteria_in_words_become_one_beside_checks(office: Shell, provider: ModelServer) -> None:
    request = office.run("ask", "Go.", "--crit", "Names it.", "--check", "max_words=60", *ONCE).data["request"]
    assert [(each["id"], each["kind"]) for each in request["rubric"]] == [
        ("criteria", "binary"),
        ("max-words", "check"),
    ]
    assert request["rubric"][0]["text"] == "Names it."
    assert request["eval_crit"] is None


def test_checks_go_behind_the_criteria_of_files(office: Shell, provider: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(
        json.dumps({"instruct": "Go.", "eval_crit": "Good.", "rubric": [{"id": "max-words", "text": "It is short."}]})
    )
    request = office.run("ask", "--file", "request.json", "--check", "max_words=60", *ONCE).data["request"]
    assert [each["id"] for each in request["rubric"]] == ["max-words", "max-words-2"]
    assert request["eval_crit"] == "Good."


def test_each_way_to_judge_is_an_option(office: Shell, provider: ModelServer) -> None:
    options = ["--profile", "quality", "--panel", "openai:a", "--panel", "openai:b", "--samples", "2"]
    options += ["--audit", "openai:c", "--skip", "auto", "--evaluate-sample", "0.5", "--evaluate-when", "overlap"]
    done = office.run("ask", "Go.", *options, *ONCE)
    request = done.data["request"]
    assert request["profile"] == "quality"
    chosen = {"samples": 2, "panel": ["openai:a", "openai:b"], "audit": "openai:c", "skip": "auto", "sample": 0.5}
    chosen["when"] = "overlap"
    assert {name: request["evaluation"][name] for name in chosen} == chosen
    assert request["eval_crit"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rubric", "broken.json"], "Invalid value for --rubric"),
        (["--rubric", "object.json"], "contains neither a JSON list of criteria"),
        (["--rubric", "odd.json"], "--rubric (/rubric/0/kind)"),
        (["--rubric", "twice.json"], "--rubric (/rubric/1/id)"),
        (["--check", "max_words=many"], "needs a whole number"),
        (["--check", "nonsense=1"], "Invalid value for --check"),
        (["--check", "max_words"], "needs a value"),
        (["--check", "max_word=3"], "did you mean max_words?"),
        (["--check", "is_json=yes"], "takes no value"),
        (
            ["--crit", "x", "--check", "is_json", "--check", "http=tone"],
            "--check http=tone: REDRAFT_HTTP_CHECKS names no",
        ),
        (["--template", "brief", "--crit", "x"], "--generator-template selects"),
        (["--profile", "nope"], "--profile (/profile)"),
        (["--profile", "quality", "--check", "is_json"], "--rubric (/rubric)"),
        (["--panel", "nonsense", "--crit", "x"], "--panel (/evaluation/panel/0)"),
        (["--samples", "11", "--crit", "x"], "--samples (/evaluation/samples)"),
        (["--audit", "nonsense", "--crit", "x"], "--audit (/evaluation/audit)"),
        (["--skip", "never-ever", "--crit", "x"], "--skip (/evaluation/skip)"),
    ],
)
def test_what_is_wrong_is_2_and_names_the_option(
    shell: Shell, tmp_path: Path, arguments: list[str], words: str
) -> None:
    files = {
        "broken.json": "{",
        "object.json": "{}",
        "odd.json": '[{"id": "a", "text": "A.", "kind": "odd"}]',
        "twice.json": '[{"id": "a", "text": "A."}, {"id": "a", "text": "A."}]',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = shell.run("ask", "Hi", *arguments)
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.replace("│", " ").split())
