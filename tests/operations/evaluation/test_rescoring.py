"""Rescoring: the stored answers of a job are judged anew, by a job of its own; no answer is written."""

import pytest

from redraft.domain.jobs.requests import RescoreJob
from redraft.errors import Conflict, Invalid, NotFound
from redraft.operations.evaluation.rescore import rescore
from redraft.operations.jobs.lifecycle import delete
from redraft.operations.jobs.submit import Idempotency
from tests.model_server import ModelServer
from tests.operations.driving import Driver
from tests.operations.rubrics import criterion, found


@pytest.fixture
def written(driver: Driver, model_server: ModelServer) -> str:
    """A job that has written three answers."""
    model_server.script(generate=["one", "two", "three"], evaluate=[0.2, 0.3, 0.4])
    return driver.run_new(stop={"plateau_patience": 0}).id


def test_stored_answers_get_new_scores_and_keep_their_old_ones(driver: Driver, model_server: ModelServer, written: str):
    model_server.script(evaluate=[0.9, 0.5, 0.6])
    before = len(model_server.requests("generate"))
    new = rescore(driver.services, written, RescoreJob(evaluator_model="openai:other")).job
    job = driver.run(new.id)

    assert (job.kind, job.status, job.stop_reason) == ("rescore_answers", "succeeded", "accepted")
    assert job.result is not None
    assert (job.result["final_answer"], job.result["best_iteration"], job.result["final_score"]) == ("one", 1, 0.9)
    assert driver.scores(new.id) == [0.9, 0.5, 0.6]
    assert [call.type for call in driver.calls(new.id)] == ["evaluate"] * 3
    assert len(model_server.requests("generate")) == before

    assert driver.scores(written) == [0.2, 0.3, 0.4]
    assert driver.job(written).stop_reason == "iteration_limit"
    further = [each for iteration in driver.iterations(written) for each in iteration.further_evaluations]
    assert [(each.role, each.score, each.evaluator_model) for each in further] == [
        ("rescore", score, "openai:other") for score in (0.9, 0.5, 0.6)
    ]


def test_a_rubric_may_take_the_place_of_words_and_some_iterations_do(
    driver: Driver, model_server: ModelServer, written: str
):
    model_server.script(evaluate=[found(a=False), found(a=False)])
    change = RescoreJob.model_validate({"rubric": [criterion("a")], "iterations": [3, 1]})
    job = driver.run(rescore(driver.services, written, change).job.id)
    assert job.stop_reason == "iteration_limit"
    assert [(each.number, each.evaluation and each.evaluation.score) for each in driver.iterations(job.id)] == [
        (1, 0.0),
        (3, 0.0),
    ]


def test_the_sampling_of_the_evaluator_is_changed_field_by_field(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one"], evaluate=[0.2])
    first = driver.run_new(iter_max=1, evaluator_sampling={"temperature": 0.5, "seed": 7})
    change = RescoreJob.model_validate({"evaluator_sampling": {"temperature": 0, "seed": None, "top_p": 0.9}})
    driver.run(rescore(driver.services, first.id, change).job.id)
    body = model_server.requests("evaluate")[-1].body
    assert (body["temperature"], body["top_p"], "seed" in body) == (0, 0.9, False)
    again = driver.run(rescore(driver.services, first.id, RescoreJob()).job.id)
    assert again.request["evaluator_sampling"] == first.request["evaluator_sampling"]


def test_another_profile_drops_the_rubric(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one"], evaluate=[found(a=True), {"comprehensive": True, "reason": "R"}])
    first = driver.run_new(rubric=[criterion("a")], eval_crit=None)
    job = driver.run(rescore(driver.services, first.id, RescoreJob(profile="comprehensive")).job.id)
    assert driver.scores(job.id) == [1.0]


def test_an_evaluator_that_gives_nothing_ends_it_without_a_score(
    driver: Driver, model_server: ModelServer, written: str
):
    model_server.script(evaluate=["nonsense"])
    job = driver.run(rescore(driver.services, written, RescoreJob(iterations=[1])).job.id)
    assert (job.status, job.stop_reason) == ("succeeded", "evaluator_error")
    assert driver.job(written).stop_reason == "iteration_limit"


def test_what_cannot_be_judged_anew_is_refused(driver: Driver, model_server: ModelServer, written: str):
    with pytest.raises(NotFound):
        rescore(driver.services, "job_" + "0" * 32, RescoreJob())
    with pytest.raises(Invalid, match="1 to 3, not 7"):
        rescore(driver.services, written, RescoreJob(iterations=[7]))
    with pytest.raises(Invalid, match="brings its own criteria"):
        rescore(driver.services, written, RescoreJob.model_validate({"profile": "quality", "rubric": [criterion("a")]}))
    with pytest.raises(Conflict, match="has ended"):
        rescore(driver.services, driver.submit(), RescoreJob())
    again = rescore(driver.services, written, RescoreJob()).job
    with pytest.raises(Conflict, match=written):
        rescore(driver.services, again.id, RescoreJob())


def test_a_job_whose_answers_were_deleted_meanwhile_ends(driver: Driver, written: str):
    new = rescore(driver.services, written, RescoreJob()).job
    delete(driver.services, written)
    job = driver.run(new.id)
    assert job.status == "failed"
    assert job.error is not None
    assert "their job was deleted" in job.error["detail"]


def test_the_same_key_judges_anew_once(driver: Driver, model_server: ModelServer, written: str):
    model_server.script(evaluate=[0.9])
    key = Idempotency("me:rescore", "key")
    first, second = (rescore(driver.services, written, RescoreJob(), key) for _ in range(2))
    assert (first.job.id == second.job.id, first.is_replay, second.is_replay) == (True, False, True)
    with pytest.raises(Invalid, match="another body"):
        rescore(driver.services, written, RescoreJob(iterations=[1]), key)


def test_answers_deleted_while_they_are_judged_cost_no_reply(driver: Driver, model_server: ModelServer, written: str):
    model_server.script(evaluate=[0.9])
    new = rescore(driver.services, written, RescoreJob(iterations=[1])).job
    driver.interrupted(lambda: delete(driver.services, written)).step(new.id)
    assert driver.call_statuses(new.id) == ["ok"]
    job = driver.job(new.id)
    assert (job.status, job.stop_reason, job.usage.calls) == ("succeeded", "accepted", 1)


def test_small_talk_that_was_not_judged_is_judged_when_asked_to(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["Hello!"], evaluate=[0.7])
    first = driver.run_new(instruct="Hello", evaluation={"skip": "auto"})
    job = driver.run(rescore(driver.services, first.id, RescoreJob()).job.id)
    assert driver.scores(job.id) == [0.7]


def test_nothing_that_was_asked_for_is_dropped_without_a_word(driver: Driver, model_server: ModelServer, written: str):
    both = RescoreJob.model_validate({"evaluator_model": "openai:z", "evaluation": {"panel": ["openai:a", "openai:b"]}})
    assert rescore(driver.services, written, both).job.request["evaluation"]["panel"] == ["openai:a", "openai:b"]
    with pytest.raises(Invalid, match="has no audit"):
        rescore(driver.services, written, RescoreJob.model_validate({"evaluation": {"audit": "openai:a"}}))
    model_server.script(generate=["one"], evaluate=[0.2, 0.7])
    cached = driver.run_new(cache="use", iter_max=1)
    assert driver.scores(driver.run(rescore(driver.services, cached.id, RescoreJob()).job.id).id) == [0.7]


def test_rescoring_makes_no_more_calls_at_once_than_a_job_does(driver: Driver):
    many = driver.run_new(candidates=8, iter_max=1)
    rubric = [criterion(f"c{n}") for n in range(5)]
    change = {"rubric": rubric, "evaluation": {"samples": 10}}
    with pytest.raises(Invalid, match="up to 400 evaluator calls"):
        rescore(driver.services, many.id, RescoreJob.model_validate(change))
