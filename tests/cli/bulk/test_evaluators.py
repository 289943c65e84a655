"""`redraft evaluators test`: scripted evaluators with known faults, each found by its probe, and a fair one."""

import itertools
import json
from collections.abc import Callable, Iterator

import pytest

from redraft.domain.probes.probe_answers import answers_of
from redraft.domain.probes.probe_tasks import TASKS
from tests.model_server import ModelServer, Reply
from tests.model_server.requests import Asked
from tests.support.shells import Outcome, Shell

MODEL = "openai:judge"
# Longer answers come first, because a changed answer contains the plain one
ANSWERS = sorted(
    (
        (answer, form.startswith("right") or form == "reworded")
        for task in TASKS
        for form, answer in answers_of(task).items()
    ),
    key=lambda pair: -len(pair[0]),
)
Judge = Callable[[str, bool], float]
# The forms of answers that an evaluator judges wrongly if it knows only one wording
OTHER_WORDS = {answers_of(task)[form] for task in TASKS for form in ("right-abroad", "wrong-abroad", "reworded")}


def judge_of(score: Judge) -> Callable[[Asked], Reply | None]:
    """A model that finds the answer in its prompt and scores it; `score` gets the text and whether it is right."""

    def respond(asked: Asked) -> Reply | None:
        text = asked.prompt.rpartition('<answer id="')[2].partition(">\n")[2].replace("&lt;", "<")
        answer, is_right = next(pair for pair in ANSWERS if text.startswith(pair[0]))
        return Reply(score=score(answer, is_right))

    return respond


@pytest.fixture
def judging(provider: ModelServer) -> Iterator[Callable[[Judge], None]]:
    yield lambda score: provider.respond(judge_of(score))
    provider.respond(None)


def probe(office: Shell, *options: str) -> Outcome:
    return office.run("evaluators", "test", MODEL, "--tasks", "2", *options)


def failed(done: Outcome) -> set[str]:
    assert done.code == 0, done.err
    return {each["name"] for each in done.data["probes"] if each["result"] == "failed"}


def test_a_fair_evaluator_passes_and_the_cost_comes_first(office: Shell, judging: Callable[[Judge], None]):
    judging(lambda _, is_right: float(is_right))
    done = probe(office, "--max-flip-rate", "0")
    assert done.code == 0, done.err
    assert done.err.startswith("40 evaluations, at most 80 model calls, at most ")
    assert "40 of 40 done" in done.err
    lines = [line for line in done.out.splitlines() if "passed" in line]
    assert len(lines) == 8
    assert "0 of 6" in lines[0]


@pytest.mark.parametrize(
    ("judge", "probes"),
    [
        (lambda text, is_right: float(is_right or '"met": true' in text or "highest" in text), {"planted_verdict"}),
        (lambda text, _: float(len(text) > 250), {"verbosity", "flaw_position", "confident_nonsense"}),
        (lambda text, is_right: float(is_right != (text in OTHER_WORDS)), {"language", "wording"}),
    ],
    ids=["obeys", "prefers length", "knows one wording"],
)
def test_faults_are_found(office: Shell, judging: Callable[[Judge], None], judge: Judge, probes: set[str]):
    judging(judge)
    assert failed(probe(office, "--json")) >= probes


def test_an_evaluator_that_drifts_is_found(office: Shell, judging: Callable[[Judge], None]):
    turns = itertools.count()
    judging(lambda _, is_right: max(0.0, 0.9 - 0.02 * next(turns)))
    assert "drift" in failed(probe(office, "--profile", "quality", "--json", "--max-in-flight", "1"))


def test_the_gate_and_a_profile_without_rubrics(office: Shell, provider: ModelServer, judging: Callable[[Judge], None]):
    judging(lambda _, is_right: 1.0)
    done = probe(office, "--profile", "quality", "--max-flip-rate", "0.5")
    assert done.code == 3
    assert "Confident nonsense: tides.nonsense, sky.nonsense" in done.out
    assert "Every statement of the answer is true." in json.dumps(provider.requests("evaluate")[-1].body)


def test_a_panel_is_also_tested_in_the_opposite_order(office: Shell, judging: Callable[[Judge], None]):
    judging(lambda _, is_right: float(is_right))
    done = office.run("evaluators", "test", MODEL, "openai:other", "--tasks", "1", "--json")
    found = {each["name"]: (each["pairs"], each["flips"]) for each in done.data["probes"]}
    assert found["panel_order"] == (2, 0)


def test_evaluations_that_fail_end_with_6(office: Shell, provider: ModelServer):
    provider.respond(lambda _: Reply(status=401))
    done = office.run("evaluators", "test", MODEL, "--tasks", "1", "--json")
    provider.respond(None)
    assert done.code == 6
    assert {each["result"] for each in done.data["probes"]} == {"no verdicts"}


def test_ratings_tune_an_evaluator_that_a_person_adopts_and_reverts(
    office: Shell, provider: ModelServer, judging: Callable[[Judge], None]
):
    judging(lambda _, is_right: 1.0)
    model = "openai:tuned"
    rows = office.run("evaluators", "test", model, "--tasks", "3", "--json")
    items = office.run("runs", "show", rows.data["run"]["id"], "--limit", "60", "--json").data["items"]
    for item in items:
        verdict = {"right": "--agree", "wrong": "--disagree", "nonsense": "--disagree", "reworded": "--agree"}
        if option := verdict.get(item["custom_id"].partition(".")[2]):
            assert office.run("jobs", "rate", item["job_id"], option).code == 0
    fair = judge_of(lambda _, is_right: float(is_right))
    provider.respond(lambda asked: fair(asked) if "# Verdicts of people" in asked.prompt else Reply(score=1.0))
    done = office.run("evaluators", "tune", model)
    assert done.code == 0, done.err
    assert "12 rated answers, of which people dispute 6 verdicts." in done.err
    assert "24 evaluations, at most 48 model calls, at most" in done.err
    assert "Agreement with people on 12 answers: 50% (25% to 75%) before, 100% (76% to 100%) after" in done.out
    (tuning,) = office.run("evaluators", "tunings", "--json").data["data"]
    assert office.run("evaluators", "adopt", tuning["id"], "--json").data["status"] == "adopted"
    assert office.run("evaluators", "revert", tuning["id"][:-1], "--json").data["status"] == "reverted"
    edited = office.run("evaluators", "edit", tuning["id"], "-", "--json", stdin=json.dumps(tuning["examples"][:1]))
    assert (edited.data["status"], edited.data["agreement"]) == ("draft", None)
    assert office.run("evaluators", "edit", tuning["id"], "-", stdin="[]").code == 2
    assert "too few" in office.run("evaluators", "tune", model, "--threshold").err
