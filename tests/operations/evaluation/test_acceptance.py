"""What is accepted, and which answer is the best one: dimensions, yes/no evaluations, continuations."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.jobs import job_lists, lifecycle
from redraft.storage.jobs.job_filters import JobFilter
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver
from tests.operations.steps.test_the_loop import verdict


def evidence(reasonableness: float, backing: float, gap: str = "", **others: Any) -> Mapping[str, Any]:
    return {
        "reasonableness": {"reasoning": "It fits.", "gap": "", "score": reasonableness},
        "evidence": {"reasoning": "Two claims are bare.", "gap": gap, "score": backing},
        "passed": True,
        **others,
    }


def flag(*, yes: bool, reason: str = "because") -> Mapping[str, Any]:
    return {"reason": reason, "comprehensive": yes}


def go_on(driver: Driver, job_id: str, **values: Any) -> None:
    lifecycle.continue_job(driver.services, job_id, ContinueJob.model_validate(values))


def test_an_answer_is_accepted_by_the_evidence_profile_only_if_both_dimensions_reach_the_threshold(
    driver: Driver, model_server: ModelServer
):
    model_server.script(generate=["A", "B"], evaluate=[evidence(1.0, 0.6, "NAME A SOURCE"), evidence(0.8, 0.8)])
    job = driver.run_new(profile="evidence", score_threshold=0.8, eval_crit=None)
    assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [0.8, 0.8])
    assert job.result is not None
    assert job.result["final_answer"] == "B"
    first = driver.iterations(job.id)[0].evaluation
    assert first is not None
    assert (first.passed, first.requirements_met, first.meets_criteria) == (False, False, True)
    found = [(each.id, each.required, each.passed, each.gap) for each in first.criteria]
    assert found == [("reasonableness", True, True, ""), ("evidence", True, False, "NAME A SOURCE")]
    assert first.improvement_suggestions == ["NAME A SOURCE"]
    prompt = model_server.requests("generate")[1].prompt
    assert "Change: NAME A SOURCE" in prompt
    assert prompt.count("NAME A SOURCE") == 1
    assert "required and not met: evidence" in driver.events(job.id)[4].data["message"]


@pytest.mark.parametrize("inner", [True, False])
def test_suggestions_in_other_places_of_an_evidence_verdict_are_kept(
    driver: Driver, model_server: ModelServer, *, inner: bool
):
    said = evidence(0.9, 0.5)
    if inner:
        reply = {**said, "evidence": {"reasoning": "r", "score": 0.5, "suggestions": ["NAME A SOURCE"]}}
    else:
        reply = {**said, "suggestions": ["NAME A SOURCE"]}
    model_server.script(evaluate=[reply])
    job = driver.run_new(profile="evidence", eval_crit=None, iter_max=1)
    found = driver.iterations(job.id)[0].evaluation
    assert found is not None
    assert found.improvement_suggestions == ["NAME A SOURCE"]
    assert found.criteria[1].gap == ("NAME A SOURCE" if inner else "")


def test_each_dimension_is_what_all_samples_say_of_it(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[evidence(1.0, 0.6), evidence(1.0, 1.0)])
    job = driver.run_new(profile="evidence", eval_crit=None, iter_max=1, score_threshold=0.8, evaluation={"samples": 2})
    found = driver.iterations(job.id)[0].evaluation
    assert found is not None
    assert [(each.score, each.passed) for each in found.criteria] == [(1.0, True), (0.8, True)]
    assert job.stop_reason == "accepted"


def test_a_profile_of_ones_own_says_by_all_that_each_dimension_is_required(
    make_driver: Callable[..., Driver], model_server: ModelServer, tmp_path: Path
):
    for name, line in (("each", "all = true\n"), ("mean", "")):
        folder = tmp_path / name
        folder.mkdir()
        built_in = Path("redraft/prompts/evaluate/other_profiles/evidence")
        for file in ("system.j2", "user.j2", "reply.json"):
            (folder / file).write_text((built_in / file).read_text())
        about = (built_in / "profile.toml").read_text().replace("all = true\n", line)
        (folder / "profile.toml").write_text(about)
    driver = make_driver(profiles_dir=tmp_path)
    for name, accepted in (("each", False), ("mean", True)):
        model_server.script(evaluate=[evidence(1.0, 0.6)])
        job = driver.run_new(profile=name, eval_crit=None, iter_max=1, score_threshold=0.8)
        assert job.result is not None
        assert job.result["success"] is accepted


@pytest.mark.parametrize(
    ("scores", "thresholds", "outcome"),
    [
        (((1.0, 0.6), (0.5, 0.5)), (0.7, 0.5), (1, True)),
        (((0.95, 0.85), (0.9, 0.9)), (0.8, 0.9), (2, True)),
        (((0.95, 0.85), (0.9, 0.8)), (0.8, 0.9), (1, False)),
    ],
)
def test_dimensions_are_held_to_the_threshold_that_a_continuation_sets(
    driver: Driver,
    model_server: ModelServer,
    scores: tuple[tuple[float, float], tuple[float, float]],
    thresholds: tuple[float, float],
    outcome: tuple[int, bool],
):
    before, after = thresholds
    model_server.script(evaluate=[evidence(*each) for each in scores])
    job = driver.run_new(profile="evidence", eval_crit=None, iter_max=1, score_threshold=before)
    go_on(driver, job.id, score_threshold=after, iter_max=1)
    job = driver.run(job.id)
    assert job.result is not None
    assert (job.result["best_iteration"], job.result["success"]) == outcome


def test_of_equal_yes_no_verdicts_the_latest_answer_is_the_best_one(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["ONE", "TWO", "THREE"], evaluate=[flag(yes=False)])
    job = driver.run_new(profile="comprehensive", eval_crit=None, iter_max=3, stop={"plateau_patience": 0})
    assert job.stop_reason == "iteration_limit"
    assert job.result is not None
    assert (job.result["final_answer"], job.result["best_iteration"]) == ("THREE", 3)
    assert (job.progress.best_iteration, job.progress.best_score) == (3, 0.0)
    third = model_server.requests("generate")[2].prompt
    assert "TWO" in third
    assert "ONE" not in third
    flags = [each.evaluation.meets_criteria for each in driver.iterations(job.id) if each.evaluation]
    assert flags == [False, False, False]
    types = [row["type"] for row in driver.ledger(job.id) if row["step"] == "generate"]
    assert types == ["generate", "comprehensive_retry", "comprehensive_retry"]


def test_a_rubric_of_one_check_is_a_yes_no_evaluation_and_one_of_two_is_not(driver: Driver, model_server: ModelServer):
    one = {"id": "city", "kind": "check", "check": {"kind": "contains", "value": "Bern"}}
    two = {"id": "brief", "kind": "check", "check": {"kind": "max_words", "value": 1}}
    for rubric, best in (([one], 2), ([one, two], 1)):
        model_server.script(generate=["Basel is it", "Geneva is it"])
        job = driver.run_new(rubric=rubric, eval_crit=None, iter_max=2)
        assert job.result is not None
        assert job.result["best_iteration"] == best


def test_of_several_candidates_with_equal_yes_no_verdicts_the_first_of_the_latest_iteration_is_the_best_one(
    driver: Driver, model_server: ModelServer
):
    model_server.script(evaluate=[flag(yes=False)])
    job = driver.run_new(profile="comprehensive", eval_crit=None, iter_max=2, candidates=2)
    rows = driver.iterations(job.id)
    assert job.result is not None
    assert job.result["best_iteration"] == 2
    assert job.result["final_answer"] == next(r.answer for r in rows if (r.number, r.candidate) == (2, 1))


def test_a_continuation_of_an_accepted_job_that_brings_nothing_better_keeps_the_acceptance(
    driver: Driver, model_server: ModelServer
):
    model_server.script(generate=["GOOD", "WORSE"], evaluate=[0.9, 0.3])
    first = driver.run_new()
    go_on(driver, first.id, iter_max=1, guidance="SHORTER")
    job = driver.run(first.id)
    assert job.stop_reason == "iteration_limit"
    assert job.result is not None
    assert (job.result["success"], job.result["final_answer"], job.result["final_score"]) == (True, "GOOD", 0.9)
    assert "stays accepted" in driver.events(job.id)[-1].data["message"]


@pytest.mark.parametrize(
    ("threshold", "scores", "success", "reason"),
    [
        (0.95, (0.9, 0.3), False, "iteration_limit"),
        (0.6, (0.7, 0.3), True, "iteration_limit"),
        (0.6, (0.3, 0.7), True, "accepted"),
    ],
)
def test_success_is_decided_by_the_threshold_in_force(
    driver: Driver,
    model_server: ModelServer,
    threshold: float,
    scores: tuple[float, float],
    success: bool,  # noqa: FBT001 - a column of the table
    reason: str,
):
    model_server.script(evaluate=list(scores))
    first = driver.run_new(iter_max=1)
    go_on(driver, first.id, iter_max=1, score_threshold=threshold)
    job = driver.run(first.id)
    assert job.result is not None
    assert (job.result["success"], job.stop_reason) == (success, reason)


@pytest.mark.parametrize("ending", ["cancel", "auth"])
def test_an_accepted_job_whose_continuation_ends_early_stays_accepted(
    driver: Driver, model_server: ModelServer, ending: str
):
    model_server.script(generate=["GOOD", Reply(status=401, raw={"error": {"message": "no"}})], evaluate=[0.9])
    first = driver.run_new()
    go_on(driver, first.id)
    if ending == "cancel":
        lifecycle.cancel(driver.services, first.id)
    else:
        driver.run(first.id)
    job = driver.job(first.id)
    assert job.result is not None
    assert job.result["success"] is True


def canceled_before_its_verdict(driver: Driver, **values: Any) -> str:
    job_id = driver.submit(**values)
    driver.step(job_id)
    lifecycle.cancel(driver.services, job_id)
    return job_id


def test_a_continuation_first_evaluates_the_answer_that_waited_for_its_verdict(
    driver: Driver, model_server: ModelServer
):
    model_server.script(generate=["ONE", "TWO"], evaluate=[0.9])
    job_id = canceled_before_its_verdict(driver, iter_max=2)
    go_on(driver, job_id, iter_max=1)
    assert driver.events(job_id)[-1].data["message"].startswith("The answer of iteration 1 is evaluated first")
    job = driver.run(job_id)
    assert (job.stop_reason, job.usage.calls) == ("accepted", 2)
    assert job.result is not None
    assert job.result["final_answer"] == "ONE"


def test_below_the_threshold_it_goes_on_from_there(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["ONE", "TWO"], evaluate=[verdict(0.3, "FIX"), 0.9])
    job_id = canceled_before_its_verdict(driver)
    go_on(driver, job_id, iter_max=1)
    job = driver.run(job_id)
    assert (job.stop_reason, job.usage.calls, driver.scores(job_id)) == ("accepted", 4, [0.3, 0.9])
    assert "FIX" in model_server.requests("generate")[1].prompt


def test_guidance_brings_another_answer_whatever_the_verdict_on_the_waiting_one(
    driver: Driver, model_server: ModelServer
):
    model_server.script(generate=["ONE", "TWO"], evaluate=[0.9])
    job_id = canceled_before_its_verdict(driver)
    go_on(driver, job_id, iter_max=1, guidance="SHORTER")
    job = driver.run(job_id)
    assert (job.stop_reason, driver.scores(job_id)) == ("accepted", [0.9, 0.9])
    assert "SHORTER" in model_server.requests("generate")[1].prompt


def test_an_answer_that_waited_is_not_judged_by_other_sources(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["ONE [Source 1]."], evaluate=[0.9])
    job_id = canceled_before_its_verdict(driver, sources=[{"content": "One is one."}], iter_max=1)
    go_on(driver, job_id, iter_max=1, sources=[{"content": "Two is two."}])
    driver.run(job_id)
    assert [each.evaluation is None for each in driver.iterations(job_id)] == [True, False]


def test_encouragement_names_what_code_has_found_and_nothing_else(driver: Driver, model_server: ModelServer):
    rubric = [
        {"id": "brief", "kind": "check", "required": True, "check": {"kind": "max_words", "value": 3}},
        {"id": "bern", "kind": "check", "check": {"kind": "contains", "value": "Bern"}},
        {"id": "warm", "text": "It is warm", "required": True},
    ]
    said = {"criteria": {"warm": {"evidence": "cold", "gap": "WARM IT UP", "met": False}}}
    model_server.script(generate=["Five words are too many"], evaluate=[said])
    driver.run_new(rubric=rubric, eval_crit=None, iter_max=2, revision={"strategy": "encourage"})
    asked = model_server.requests("generate")[1].body["messages"][-1]["content"]
    assert "at most 3" in asked
    assert "WARM" not in asked
    assert "word for word" not in asked


def test_encouragement_asks_for_the_citations_without_which_nothing_is_accepted(
    driver: Driver, model_server: ModelServer
):
    sources = [{"content": "Bern is the seat of the Swiss government since 1848."}]
    model_server.script(
        generate=["The parliament chose Zug.", "Bern is the seat of the Swiss government [Source 1]."],
        evaluate=[flag(yes=True)],
    )
    job = driver.run_new(
        profile="comprehensive", eval_crit=None, iter_max=2, sources=sources, revision={"strategy": "encourage"}
    )
    assert job.stop_reason == "accepted"
    asked = model_server.requests("generate")[1].body["messages"][-1]["content"]
    assert "An answer is accepted only with these changes" in asked
    assert "ource" in asked
    assert driver.iterations(job.id)[1].feedback_given == asked


def test_the_last_good_feedback_is_named_only_where_there_is_one(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=["no verdict", "nor here", 0.3, "no verdict", "nor here", 0.9])
    job = driver.run_new(iter_max=4)
    told = [event.data["message"] for event in driver.events(job.id) if event.type == "thinking"]
    assert told == [
        "There is no score, and no feedback yet; iteration 2 goes on without any.",
        "The score is below 0.8; the feedback goes into iteration 3.",
        "There is no score; the last good feedback goes into iteration 4.",
    ]


def test_lists_show_an_answer_that_stayed_accepted_as_accepted(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.9, 0.3])
    kept, missed = driver.run_new(iter_max=1), driver.run_new(iter_max=1)
    model_server.script(evaluate=[0.2])
    for job in (kept, missed):
        go_on(driver, job.id, iter_max=1)
        driver.run(job.id)
    page = job_lists.list_lines(driver.services, JobFilter())
    assert {line.id: line.is_accepted for line in page.lines} == {kept.id: True, missed.id: False}
