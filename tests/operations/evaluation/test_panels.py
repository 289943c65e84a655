"""Several evaluators side by side: the middle counts, each reply is kept as it comes, one that fails voids nothing."""

from collections import Counter
from collections.abc import Callable
from threading import Lock

import pytest

from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver, Killed
from tests.operations.rubrics import by_model, criterion, down, found

PANEL = ["openai:j1", "openai:j2", "openai:j3"]


def evaluators_of(driver: Driver, job_id: str) -> list[tuple[str, str, float | None]]:
    evaluation = driver.iterations(job_id)[0].evaluation
    assert evaluation is not None
    return [(each.model, each.status, each.score) for each in evaluation.judges]


def test_the_median_of_a_panel_counts_and_how_far_it_is_apart(driver: Driver, model_server: ModelServer):
    model_server.play(by_model(j1=[0.2], j2=[0.9], j3=[0.7]))
    job = driver.run_new(evaluation={"panel": PANEL}, iter_max=1, score_threshold=0.7)

    assert job.stop_reason == "accepted"
    evaluation = driver.iterations(job.id)[0].evaluation
    assert evaluation is not None
    assert (evaluation.score, evaluation.disagreement) == (0.7, pytest.approx(0.7))
    assert evaluators_of(driver, job.id) == list(zip(PANEL, ["ok"] * 3, [0.2, 0.9, 0.7], strict=True))
    assert evaluation.evaluator_model == " + ".join(PANEL)


def test_the_mean_of_the_samples_counts(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.2, 0.4, 0.9])
    job = driver.run_new(evaluation={"samples": 3}, iter_max=1)
    evaluation = driver.iterations(job.id)[0].evaluation
    assert evaluation is not None
    assert evaluation.score == pytest.approx(0.5)
    assert evaluation.disagreement == pytest.approx(0.7)
    assert sorted(each.sample for each in evaluation.judges) == [0, 1, 2]


def test_a_panel_on_a_rubric_takes_the_middle_line_by_line(driver: Driver, model_server: ModelServer):
    model_server.play(by_model(j1=[found(a=True, b=False)], j2=[found(a=True, b=True)], j3=[found(a=False, b=False)]))
    job = driver.run_new(
        rubric=[criterion("a", weight=3), criterion("b")], evaluation={"panel": PANEL}, iter_max=1, eval_crit=None
    )
    evaluation = driver.iterations(job.id)[0].evaluation
    assert evaluation is not None
    assert evaluation.score == 0.75
    assert [(c.id, c.passed, c.gap) for c in evaluation.criteria] == [("a", True, ""), ("b", False, "GAP-b")]


def test_one_judge_that_is_refused_voids_nothing_and_is_told_of(driver: Driver, model_server: ModelServer):
    model_server.play(by_model(j1=[0.4], j2=[down(401)], j3=[0.8]))
    job = driver.run_new(evaluation={"panel": PANEL}, iter_max=1, score_threshold=0.6)

    assert job.stop_reason == "accepted"
    assert driver.scores(job.id) == [pytest.approx(0.6)]
    assert evaluators_of(driver, job.id)[1] == ("openai:j2", "error", None)
    [told] = [event.data["message"] for event in driver.events(job.id) if event.type == "iteration.evaluated"]
    assert "without openai:j2" in told


def test_a_judge_that_stays_down_is_waited_for_and_then_left_out(
    make_driver: Callable[..., Driver], model_server: ModelServer
):
    driver = make_driver(step_attempts_max=3)
    model_server.play(by_model(j1=[0.4], j2=[down(503)], j3=[0.8]))
    job = driver.run_new(evaluation={"panel": PANEL}, iter_max=1, score_threshold=0.6)

    assert job.stop_reason == "accepted"
    asked = Counter(request.model for request in model_server.requests("evaluate"))
    assert asked == {"j1": 1, "j2": 3, "j3": 1}
    assert driver.event_types(job.id).count("step.retrying") == 2


def test_a_panel_that_is_down_as_a_whole_ends_the_job_with_its_answer(driver: Driver, model_server: ModelServer):
    model_server.play(by_model(j1=[down(401)], j2=[down(401)], j3=[down(401)]))
    job = driver.run_new(evaluation={"panel": PANEL}, iter_max=1)
    assert (job.status, job.stop_reason) == ("succeeded", "error")
    assert job.error is not None
    assert job.error["code"] == "provider_auth"


def test_what_some_judges_have_said_survives_the_worker_that_waited_for_the_others(
    driver: Driver, model_server: ModelServer
):
    model_server.play(by_model(j1=[0.4], j2=[0.5], j3=[0.8]))
    job_id = driver.submit(evaluation={"panel": PANEL}, iter_max=1, score_threshold=0.5)
    driver.step(job_id)
    lock, calls = Lock(), iter(range(99))

    def die_at_the_third() -> None:
        with lock:
            if next(calls) == 2:
                raise Killed

    with pytest.raises(Killed):
        driver.interrupted(die_at_the_third).step(job_id)
    assert Counter(driver.call_statuses(job_id)) == {"ok": 3, "started": 1}
    driver.expire_lease(job_id)
    job = driver.run(job_id)

    assert job.stop_reason == "accepted"
    assert Counter(driver.call_statuses(job_id)) == {"ok": 4, "unknown": 1}
    assert len(model_server.requests("evaluate")) == 4
    assert driver.scores(job_id) == [0.5]


def test_candidates_are_kept_one_by_one_as_well(driver: Driver, model_server: ModelServer):
    job_id = driver.submit(candidates=3, iter_max=1)
    lock, calls = Lock(), iter(range(99))

    def die_at_the_third() -> None:
        with lock:
            if next(calls) == 2:
                raise Killed

    with pytest.raises(Killed):
        driver.interrupted(die_at_the_third).step(job_id)
    driver.expire_lease(job_id)
    driver.run(job_id)
    assert len(model_server.requests("generate")) == 4


def test_a_panel_keeps_within_the_limit_of_each_of_its_models(
    make_driver: Callable[..., Driver], model_server: ModelServer
):
    driver = make_driver(model_limits={"openai:j1": {"calls_at_once": 1}, "openai:j2": {"calls_at_once": 1}})
    model_server.play(by_model(j1=[0.4], j2=[0.5], j3=[0.8]))
    job = driver.run_new(evaluation={"panel": PANEL, "samples": 2}, iter_max=1, score_threshold=0.5)
    assert job.stop_reason == "accepted"
    assert Counter(request.model for request in model_server.requests("evaluate")) == {"j1": 2, "j2": 2, "j3": 2}


def test_who_has_answered_is_not_counted_again_against_the_budget(driver: Driver, model_server: ModelServer):
    usage = {"input": 1000, "output": 1000}
    said = [Reply(score=0.5, usage=usage)]
    model_server.play(by_model(j1=said, j2=said, j3=[down(503), *said]))
    job = driver.run_new(evaluation={"panel": PANEL}, iter_max=1, score_threshold=0.5, limits={"max_tokens": 16_000})
    assert job.stop_reason == "accepted"
    assert len(driver.iterations(job.id)[0].evaluation.judges) == 3  # type: ignore[union-attr]


def test_what_was_judged_is_told_though_another_answer_could_not_be(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a", "b"], evaluate=[0.9, down(401)])
    job = driver.run_new(candidates=2, iter_max=1)
    assert (job.status, job.stop_reason) == ("succeeded", "error")
    told = [event.data["score"] for event in driver.events(job.id) if event.type == "iteration.evaluated"]
    assert sorted(told, key=str) == [0.9, None]
    assert job.result is not None
    assert (job.result["final_score"], driver.row(job.id).best_score) == (0.9, 0.9)
