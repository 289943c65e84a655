"""Criteria on the screen: while a job runs, on its page, as a matrix, and judged anew."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redraft.operations.services import Services
from tests.model_server.scripts import Rule, Script
from tests.model_server.server import ModelServer
from tests.support.shells import Shell, drain

AddJob = Callable[..., str]
RUBRIC = [
    {"id": "city", "text": "Names the city.", "required": True},
    {"id": "warm", "text": "Is warm.", "kind": "scale"},
    {"id": "short", "kind": "check", "check": {"kind": "max_words", "value": 3}},
]
_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def verdict(*, city: bool, warm: int) -> dict[str, Any]:
    return {
        "criteria": {
            "city": {"evidence": "It says so.", "gap": "" if city else "Name Bern.", "met": city},
            "warm": {"evidence": "Tone.", "gap": "" if warm > 3 else "Be kind.", "level": warm},
        }
    }


@pytest.fixture
def judged(home: Services, add_job: AddJob, model_server: ModelServer) -> str:
    """Three iterations: the city is named in the second and lost in the third."""
    verdicts = [verdict(city=False, warm=2), verdict(city=True, warm=4), verdict(city=False, warm=5)]
    model_server.script(generate=["one two three four", "Bern, dear.", "Hi."], evaluate=verdicts)
    return add_job(rubric=RUBRIC, score_threshold=1.0, is_done=True)


def test_the_matrix_tells_met_lost_and_not_met(shell: Shell, judged: str) -> None:
    lines = shell.run("jobs", "criteria", judged).out.splitlines()
    assert [line.split()[0] for line in lines] == ["criterion", "city", "warm", "short", "score"]
    assert re.search(r"city \(required\) +not met +met +regressed +Names the city", lines[1])
    assert re.search(r"warm +not met 2/5 +met 4/5 +met 5/5", lines[2])
    assert re.search(r"short +not met +met +met +The answer has at most 3 words", lines[3])
    assert re.search(r"score +0.13 +0.93 +0.66", lines[4])


def test_the_matrix_is_data_too(shell: Shell, judged: str) -> None:
    data = shell.run("jobs", "criteria", judged, "--json").data
    assert [each["id"] for each in data["criteria"]] == ["city", "warm", "short"]
    assert [cell["regressed"] for cell in data["iterations"][2]["cells"]] == [True, False, False]


def test_a_terminal_gets_signs_unless_it_has_no_colour(shell: Shell, judged: str) -> None:
    _, screen = shell.on_terminal("jobs", "criteria", judged)
    city = next(line for line in _STYLES.sub("", screen).splitlines() if "city" in line)
    assert re.search(r"city \(required\) +✗ +✓ +↓ ", city)
    assert "✓ met" in screen
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        _, screen = shell.on_terminal("jobs", "criteria", judged, **environment)
        assert "regressed" in screen
        assert "✗" not in screen


def test_without_a_rubric_there_is_no_matrix(shell: Shell, add_job: AddJob) -> None:
    job_id = add_job(is_done=True)
    done = shell.run("jobs", "criteria", job_id)
    assert (done.code, done.out) == (0, "")
    assert "redraft jobs rescore" in done.err
    assert shell.run("jobs", "criteria", job_id, "--json").data["criteria"] == []
    assert shell.run("jobs", "criteria", "nope").code == 5
    nothing = shell.run("jobs", "criteria", add_job())
    assert (nothing.out, nothing.err) == ("", "This job has no answer yet.\n")


def test_while_it_runs_what_is_not_met_is_told_and_why(shell: Shell, judged: str) -> None:
    lines = [line.strip() for line in shell.run("jobs", "watch", judged).err.splitlines()]
    assert "not met: city (required) - Name Bern." in lines
    assert "not met: warm 2/5 - Be kind." in lines
    assert any(line.startswith("not met: short - ") for line in lines)
    assert "met: city, warm, short" in lines
    assert "- Name Bern." not in lines, "it is told once"


def test_a_page_shows_each_criterion_with_what_was_found(shell: Shell, judged: str) -> None:
    page = shell.run("jobs", "show", judged).out
    assert "  not met: city (required) - Name Bern.\n" in page
    assert "  met: city (required) - It says so.\n" in page
    assert "  met: warm 4/5 - Tone.\n" in page


def test_a_skipped_evaluation_is_no_failure(shell: Shell, add_job: AddJob) -> None:
    job_id = add_job("Hello!", evaluation={"skip": "auto"}, is_done=True)
    for output in (shell.run("jobs", "show", job_id).out, shell.run("jobs", "watch", job_id).err):
        assert "not evaluated" in output
        assert "could not" not in output


def test_a_panel_that_disagrees_is_told(shell: Shell, add_job: AddJob, model_server: ModelServer) -> None:
    model_server.play(Script((Rule((0.9,), model="a"), Rule((0.5,), model="b"))))
    job_id = add_job(evaluation={"panel": ["openai:a", "openai:b"]}, iter_max=1, is_done=True)
    assert "the scores of the evaluators differ by 0.40" in shell.run("jobs", "watch", job_id).err
    page = shell.run("jobs", "show", job_id).out
    assert re.search(r"evaluator +openai:a \+ openai:b", page)
    assert "openai:b, call 1: 0.50" in page


def test_an_audit_has_the_last_word(office: Shell, provider: ModelServer) -> None:
    rules = (Rule((0.8, 0.3), model="auditor"), Rule((0.2, 0.9), role="evaluate"), Rule(("a", "b"), role="generate"))
    provider.play(Script(rules))
    done = office.run("ask", "Go.", "--crit", "good", "--audit", "openai:auditor")
    assert (done.code, done.out) == (0, "b\n")
    assert re.search(r"Audit by openai:auditor: iteration 1 0\.\d0, iteration 2 0\.\d0", done.err)
    job_id = office.run("jobs", "list", "--limit", "1", "--json").data["data"][0]["id"]
    page = office.run("jobs", "show", job_id).out
    assert "→ audit by openai:auditor: score" in page
    assert re.search(r"audit +openai:auditor", page)


def test_a_loop_that_pleases_its_evaluator_only_is_told(office: Shell, provider: ModelServer) -> None:
    rules = (Rule((0.5,), model="auditor"), Rule((0.2, 0.9), role="evaluate"), Rule(("a", "b"), role="generate"))
    provider.play(Script(rules))
    _, screen = office.on_terminal("ask", "Go.", "--crit", "good", "--audit", "openai:auditor", width=200)
    assert "please only its own evaluator" in screen


def test_answers_are_judged_anew_by_another_rubric(
    shell: Shell, home: Services, judged: str, model_server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "rubric.json").write_text(json.dumps([{"id": "kind", "text": "Is kind."}]))
    options = [
        "--rubric",
        "rubric.json",
        "--iteration",
        "1",
        "--iteration",
        "3",
        "--samples",
        "2",
        "--evaluator-temperature",
        "0",
    ]
    left = shell.run("jobs", "rescore", judged, *options)
    job_id = left.out.strip()
    assert (left.code, job_id[:4]) == (0, "job_")
    found = shell.run("jobs", "show", job_id, "--json").data
    assert found["kind"] == "rescore_answers"
    assert found["request"]["iterations"] == [1, 3]
    assert found["request"]["evaluation"]["samples"] == 2
    assert found["request"]["evaluator_sampling"]["temperature"] == 0
    assert shell.run("jobs", "list", "--kind", "rescore_answers", "--json").data["data"][0]["id"] == job_id
    entry = {"evidence": "Tone.", "gap": "", "met": True}
    model_server.script(evaluate=[{"criteria": {"kind": entry}}])
    drain(home)
    matrix = shell.run("jobs", "criteria", job_id, "--json").data
    assert [column["number"] for column in matrix["iterations"]] == [1, 3]


def test_rescoring_can_be_watched(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["one"], evaluate=[0.9])
    job_id = office.run("ask", "Go.", "--crit", "good", "--json").data["id"]
    provider.script(evaluate=[0.4])
    done = office.run("jobs", "rescore", job_id, "--wait", "--evaluator-model", "openai:other", "--crit", "better")
    assert done.code == 0
    assert "score 0.40" in done.err
    assert "openai:other" in done.out
    assert "→ score 0.40" in done.out
    data = office.run("jobs", "rescore", job_id, "--wait", "--json").data
    assert (data["kind"], data["status"]) == ("rescore_answers", "succeeded")


def test_what_becomes_of_the_rubric_from_before_is_said(
    home: Services, shell: Shell, judged: str, model_server: ModelServer
) -> None:
    stays = shell.run("jobs", "rescore", judged, "--crit", "better")
    assert "Note: The rubric of the job still applies" in stays.err
    other = shell.run("jobs", "rescore", judged, "--profile", "quality")
    assert "Note: The rubric of the job is dropped, because profile quality" in other.err
    dropped = shell.run("jobs", "rescore", judged, "--crit", "better", "--no-rubric", "--json")
    assert (dropped.data["request"]["rubric"], dropped.data["request"]["eval_crit"]) == (None, "better")
    assert "earlier rubric" not in dropped.err
    model_server.script(evaluate=[0.4])
    drain(home)
    watched = shell.run("jobs", "watch", dropped.data["id"])
    assert "No answer reached the threshold; this is the best one." in watched.err
    page = shell.run("jobs", "show", dropped.data["id"]).out
    assert re.search(r"iterations +1, 2, 3\n", page)
    assert re.search(r"stopped by +not accepted\n", page)


def test_notes_of_a_rescoring_are_said_with_and_without_waiting(
    office: Shell, provider: ModelServer, tmp_path: Path
) -> None:
    provider.script(generate=["one"], evaluate=[0.9])
    job_id = office.run("ask", "Go.", "--crit", "good", "--json").data["id"]
    (tmp_path / "checks.json").write_text(json.dumps(RUBRIC[2:]))
    for wait in ([], ["--wait"]):
        done = office.run("jobs", "rescore", job_id, "--rubric", "checks.json", *wait)
        assert "Note: The rubric holds only checks, so no model evaluates eval_crit" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--iteration", "9"], "--iteration (/iterations)"),
        (["--profile", "nope"], "--profile (/profile)"),
        (["--evaluator-model", "nonsense"], "--evaluator-model (/evaluator_model)"),
        (["--panel", "openai:a", "--evaluator-model", "openai:b"], "Invalid value for --panel"),
        (["--samples", "0"], "--samples (/evaluation/samples)"),
        (["--rubric", "missing.json", "--no-rubric"], "Invalid value for --no-rubric"),
    ],
)
def test_what_cannot_be_judged_anew_is_2(shell: Shell, judged: str, options: list[str], words: str) -> None:
    for wait in ([], ["--wait"]):
        done = shell.run("jobs", "rescore", judged, *options, *wait)
        assert (done.code, done.out) == (2, "")
        assert words in " ".join(done.err.split())


def test_a_live_job_cannot_be_judged_anew(shell: Shell, add_job: AddJob) -> None:
    assert shell.run("jobs", "rescore", add_job()).code == 1
    assert shell.run("jobs", "rescore", "nope").code == 5
