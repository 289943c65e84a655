"""`redraft jobs rate`, `redraft jobs ratings` and `redraft calibration`."""

from collections.abc import Callable

import pytest

from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.domain.jobs.requests import RescoreJob
from redraft.operations.evaluation import ratings, rescore
from redraft.operations.jobs import queries
from redraft.operations.services import Services
from tests.support.rows.verdicts import add_evaluation, add_judged, add_ratings, criterion, set_best
from tests.support.shells import Shell


@pytest.fixture
def job_id(home: Services, add_job: Callable[..., str]) -> str:
    """Two iterations, of which the first is the better one; the second has two candidates."""
    found = add_job()
    add_judged(home, found, 1, criteria=[criterion("short")])
    add_judged(home, found, 2, score=0.3, passed=False)
    add_judged(home, found, 2, candidate=2, score=0.4, passed=False)
    set_best(home, found, 1)
    return found


def rate_often(home: Services, job_id: str, count: int) -> None:
    for number in range(3, 3 + count):
        add_judged(home, job_id, number, score=number % 10 / 10, passed=number % 10 >= 5)
        ratings.rate(home, job_id, number, RateEvaluation(verdict="agree", score=0.5), "cli")


def test_the_best_iteration_is_rated_unless_another_is_named(shell: Shell, job_id: str):
    done = shell.run("jobs", "rate", "latest", "--agree")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"Rated iteration 1 of {job_id}: agree.\n"
    done = shell.run("jobs", "rate", job_id, "--iteration", "2", "--disagree", "--score", "0.9", "--json")
    assert (done.data["candidate"], done.data["score"], done.data["rater"]) == (2, 0.9, "cli")
    assert "iteration 2, candidate 2" in done.err
    done = shell.run("jobs", "rate", job_id, "--iteration", "2", "--candidate", "1", "--unsure", "--json")
    assert (done.data["candidate"], done.data["verdict"]) == (1, "unsure")
    done = shell.run("jobs", "rate", job_id, "--criterion", "short", "--agree", "--note", "Ten words.")
    assert "criterion short" in done.err
    listed = shell.run("jobs", "ratings", job_id, "--json").data["data"]
    assert [each["verdict"] for each in listed] == ["agree", "disagree", "unsure", "agree"]
    lines = shell.run("jobs", "ratings").out.splitlines()
    assert len(lines) == 5
    assert all(part in lines[2] for part in (listed[1]["id"], "2.2", "disagree", "0.90", "cli"))
    assert all(part in lines[4] for part in ("short", "agree", "Ten words."))


def test_what_others_said_of_an_answer_is_rated_by_its_id(home: Services, shell: Shell, add_job: Callable[..., str]):
    job_id = add_job(is_done=True)
    [iteration] = queries.list_iterations(home, job_id)
    audit = add_evaluation(home, job_id, iteration.id, role="audit", score=0.3, passed=False)
    again, other = (rescore.rescore(home, job_id, RescoreJob()).job.id for _ in range(2))
    own = [add_evaluation(home, each, iteration.id, role="rescore") for each in (again, other)]
    set_best(home, again, 1)

    page = shell.run("jobs", "show", job_id).out
    for words in (
        f"evaluation {audit}\n",
        f"evaluation {own[0]} of job {again}\n",
        f"evaluation {own[1]} of job {other}\n",
    ):
        assert words in page
    done = shell.run("jobs", "rate", job_id, "--evaluation", own[1][:-1], "--agree")
    assert done.err == f"Rated the rescoring of iteration 1 of {job_id}: agree.\n"
    done = shell.run("jobs", "rate", job_id, "--evaluation", audit.removeprefix("eval_"), "--disagree", "--json")
    assert (done.data["evaluation_id"], done.data["role"]) == (audit, "audit")
    done = shell.run("jobs", "rate", again, "--agree", "--json")
    assert (done.data["evaluation_id"], done.data["job_id"]) == (own[0], again)
    lines = shell.run("jobs", "ratings", job_id).out.splitlines()
    assert [f"rescore {own[1]}" in lines[1], f"audit {audit}" in lines[2], len(lines)] == [True, True, 3]
    assert f"rescore {own[0]}" in shell.run("jobs", "ratings", again).out

    assert shell.run("jobs", "rate", job_id, "--evaluation", "nope", "--agree").code == 5
    wrong = shell.run("jobs", "rate", again, "--evaluation", audit, "--agree")
    assert wrong.code == 5
    assert "no evaluation" in wrong.err


def test_one_verdict_is_asked_for(shell: Shell, job_id: str):
    for flags in ([], ["--agree", "--unsure"]):
        done = shell.run("jobs", "rate", job_id, *flags)
        assert (done.code, done.out) == (2, "")
        assert "Give exactly one of --agree" in done.err
    assert shell.run("jobs", "ratings", job_id, "--json").data == {"data": []}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["0199zzz", "--agree"], 5, "no job"),
        (["latest", "--agree", "--iteration", "9"], 5, "has the iterations 1 to 2, not 9"),
        (["latest", "--agree", "--iteration", "0"], 2, "--iteration"),
        (["latest", "--agree", "--candidate", "4"], 2, "--candidate (/candidate): This iteration has no candidate 4"),
        (["latest", "--agree", "--criterion", "long"], 2, "it has short"),
        (["latest", "--agree", "--score", "2"], 2, "--score (/score)"),
        (["latest", "--agree", "--note", "x" * 10_001], 2, "--note (/note)"),
    ],
)
def test_what_cannot_be_rated_is_refused(shell: Shell, job_id: str, arguments: list[str], code: int, words: str):
    done = shell.run("jobs", "rate", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_a_job_without_a_score_has_nothing_to_rate(shell: Shell, add_job: Callable[..., str]):
    add_job()
    done = shell.run("jobs", "rate", "latest", "--agree")
    assert done.code == 2
    assert "so there is no evaluation to rate" in done.err
    done = shell.run("jobs", "ratings")
    assert (done.code, done.out) == (0, "")
    assert "This job has no ratings" in done.err
    assert shell.run("jobs", "ratings", "0199zzz").code == 5


def test_calibration_says_what_is_missing(home: Services, shell: Shell, job_id: str):
    done = shell.run("calibration")
    assert (done.code, done.out) == (0, "")
    assert "Nobody has rated an evaluation yet" in done.err
    assert shell.run("calibration", "--json").data == {"data": [], "left_out": 0}
    rate_often(home, job_id, 12)
    [header, line] = shell.run("calibration").out.splitlines()
    assert header.split()[:4] == ["evaluator", "profile", "criterion", "ratings"]
    assert "not calibrated yet: 12 of 30 ratings" in line
    assert "No rating matches these filters" in shell.run("calibration", "--profile", "quality").err


def test_calibration_shows_the_figures_and_a_threshold(home: Services, shell: Shell, job_id: str):
    rate_often(home, job_id, 40)
    line = shell.run("calibration", "--precision", "0.9").out.splitlines()[1]
    assert all(part in line for part in ("openai:judge", "criteria@1", "40", "1.00 (0.91 to 1.00)", "+0.05"))
    assert "at 0.5 or above, people pass 100% (84% to 100%) of 20" in line
    [group] = shell.run("calibration", "--evaluator-model", "openai:judge", "--json").data["data"]
    assert (group["status"], group["threshold"]["value"], group["wanted_precision"]) == ("calibrated", 0.5, 0.9)
    assert shell.run("calibration", "--evaluator-model", "gpt-9", "--json").data["data"] == []
    assert shell.run("calibration", "--precision", "1.5").code == 2


def test_a_narrow_terminal_keeps_the_words(home: Services, shell: Shell, job_id: str):
    rate_often(home, job_id, 12)
    code, screen = shell.on_terminal("calibration", width=80)
    assert code == 0
    assert "12 of 30 ratings" in screen
    assert "openai:judge" in screen
    assert "specificity" not in screen


def test_what_no_score_reaches_is_said_in_words(home: Services, shell: Shell, job_id: str):
    rate_often(home, job_id, 30)
    for number in range(3, 33):
        ratings.rate(home, job_id, number, RateEvaluation(verdict="disagree"), "anna")
    assert "people pass less than 0.9" in shell.run("calibration").out


def test_groups_that_are_left_out_are_counted(home: Services, shell: Shell, job_id: str):
    names = [f"c{n}" for n in range(ratings.GROUPS_MAX + 1)]
    add_ratings(home, job_id, add_judged(home, job_id, 3, criteria=[criterion(name) for name in names]), names)
    assert "1 groups with fewer ratings" in shell.run("calibration").err
