"""`redraft refine`, and `redraft ask --refine`: from a rough question to criteria, and to the answer."""

import json
import re

import pytest
from sqlalchemy import update

from redraft.operations.services import Services
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import calls
from tests.model_server.scripts import DRAFT, Reply
from tests.model_server.server import ModelServer
from tests.support.shells import Shell

QUESTION = "capital of switzerland?"


def test_a_draft_is_a_request_on_stdout_and_its_reasons_on_stderr(shell: Shell) -> None:
    done = shell.run("refine", QUESTION)
    assert done.code == 0
    assert list(done.data) == ["instruct", "resp_format", "eval_crit", "rubric"]
    assert [each["id"] for each in done.data["rubric"]] == ["names-a-city", "is-short"]
    assert str(DRAFT["reasoning"]) in done.err
    assert re.search(r"Drafted by 1 call · [\d,]+ tokens", done.err)
    assert shell.run("jobs", "list", "--json").data["data"] == []


def test_json_is_what_the_api_answers(shell: Shell) -> None:
    data = shell.run("refine", QUESTION, "--json").data
    assert list(data) == ["instruct", "resp_format", "eval_crit", "rubric", "reasoning", "usage"]
    assert data["usage"]["calls"] == 1


def test_what_is_drafted_can_be_piped_into_ask(office: Shell, provider: ModelServer) -> None:
    draft = office.run("refine", "-", stdin=QUESTION + "\n").out
    assert QUESTION in provider.requests("draft")[-1].prompt
    done = office.run("ask", "--file", "-", "--json", stdin=draft)
    assert done.code == 0
    request = done.data["request"]
    assert (request["instruct"], len(request["rubric"])) == (DRAFT["instruct"], 2)


def test_ask_drafts_shows_and_runs(office: Shell, provider: ModelServer) -> None:
    provider.script(generate=["Bern."])
    done = office.run("ask", QUESTION, "--refine")
    assert (done.code, done.out) == (0, "Bern.\n")
    words = [
        "Task: Name the capital of Switzerland.",
        "Format: One sentence.",
        "Criteria: Names the city and nothing else.",
        "- names-a-city (required): Names a city as the capital.",
        "- is-short: Has at most 20 words.",
        "Iteration 1",
    ]
    places = [done.err.index(each) for each in words]
    assert places == sorted(places)


def test_what_the_user_says_wins_over_the_draft(office: Shell, provider: ModelServer) -> None:
    options = ["--format", "One word.", "--check", "contains=Bern", "--model", "openai:other", "--iter-max", "1"]
    done = office.run("ask", QUESTION, "--refine", "--json", *options)
    request = done.data["request"]
    assert (request["instruct"], request["resp_format"]) == (DRAFT["instruct"], "One word.")
    assert [each["id"] for each in request["rubric"]] == ["names-a-city", "is-short", "contains"]
    assert provider.requests("draft")[-1].model == "other"
    assert "Format: One word." in done.err


def test_a_rubric_of_ones_own_is_kept(office: Shell, provider: ModelServer, tmp_path) -> None:
    (tmp_path / "rubric.json").write_text(json.dumps([{"id": "mine", "text": "Mine."}]))
    done = office.run("ask", QUESTION, "--refine", "--json", "--rubric", "rubric.json", "--iter-max", "1")
    assert [each["id"] for each in done.data["request"]["rubric"]] == ["mine"]
    assert "names-a-city" not in done.err


def test_a_profile_with_criteria_of_its_own_needs_no_draft(shell: Shell) -> None:
    done = shell.run("ask", QUESTION, "--refine", "--profile", "quality")
    assert done.code == 2
    assert "--refine" in done.err


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (Reply(text="no json"), 1, "Give more details in the question"),
        (Reply(status=401, raw={"error": {"message": "Incorrect API key provided"}}), 4, "redraft doctor"),
        (Reply(status=500, raw={"error": {"message": "Oops"}}), 75, "Try again in a moment"),
    ],
)
def test_without_a_draft_nothing_is_run(
    shell: Shell, model_server: ModelServer, reply: Reply, code: int, words: str
) -> None:
    model_server.script(draft=[reply])
    for arguments in (["refine", QUESTION], ["ask", QUESTION, "--refine"]):
        done = shell.run(*arguments)
        assert (done.code, done.out) == (code, "")
        assert words in done.err
        assert "Traceback" not in done.err
    assert shell.run("jobs", "list", "--json").data["data"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["refine", "  "], "QUESTION (/question)"),
        (["refine", "why?", "--model", "nonsense"], "--model (/model)"),
        (["refine"], "QUESTION (/question)"),
    ],
)
def test_wrong_input_is_2(shell: Shell, arguments: list[str], words: str) -> None:
    done = shell.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_limited_model_is_asked_through_the_broker(shell: Shell, home: Services) -> None:
    limits = json.dumps({"openai:writer": {"calls_at_once": 1}})
    assert shell.run("refine", QUESTION, REDRAFT_MODEL_LIMITS=limits).code == 0


def test_a_hostile_draft_is_harmless_on_a_terminal(shell: Shell, model_server: ModelServer) -> None:
    evil = "\x1b[2J [bold]loud[/bold] \u202e"
    model_server.script(draft=[{**DRAFT, "reasoning": evil, "instruct": evil}])
    code, screen = shell.on_terminal("refine", QUESTION, width=200)
    assert code == 0
    assert "[bold]loud[/bold]" in screen
    assert "\x1b[2J" not in screen
    assert "\u202e" not in screen


def test_without_a_broker_it_drafts_all_the_same(shell: Shell) -> None:
    assert shell.run("refine", QUESTION, REDRAFT_BROKER_URL="").code == 0


def test_on_a_machine_of_its_own_limits_are_kept_too(home: Services) -> None:
    limits = json.dumps({"openai:writer": {"calls_at_once": 1}})
    refine = Shell.of(home).start("refine", QUESTION, REDRAFT_BROKER_URL="", REDRAFT_MODEL_LIMITS=limits)
    assert refine.wait() == 0, refine.stderr
    assert refine.data["instruct"] == DRAFT["instruct"]


def test_old_calls_of_drafts_are_pruned_with_the_jobs(shell: Shell, home: Services) -> None:
    shell.run("refine", QUESTION)
    with home.database.write() as connection:
        connection.execute(update(calls).values(started_at=DbNow(-40 * 86_400)))
    counted = shell.run("db", "prune", "--older", "30d", "--dry-run", "--json")
    assert (counted.data["jobs"], counted.data["draft_calls"]) == ({}, 1)
    assert "Removed: 1 call of a draft;" in shell.run("db", "prune", "--older", "30d").err
    assert shell.run("db", "prune", "--older", "30d", "--json").data["draft_calls"] == 0
