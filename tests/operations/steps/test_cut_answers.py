"""Answers that are cut off at their output limit: attempts without a verdict, in a loop that goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from redraft.domain.jobs.requests import ContinueJob, RescoreJob
from redraft.errors import Conflict, Invalid
from redraft.operations.evaluation.rescore import rescore
from redraft.operations.jobs import lifecycle
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver, Killed, kill
from tests.operations.steps.test_the_loop import DIALECTS, verdict

ENDINGS = {"openai": "length", "anthropic": "max_tokens"}


@pytest.fixture(params=DIALECTS)
def spoken(request: pytest.FixtureRequest, make_driver: Callable[..., Driver]) -> tuple[Driver, str]:
    """A driver in each dialect, and its word for a cut reply."""
    return make_driver(**DIALECTS[request.param]), ENDINGS[request.param]


def cut(text: str = "half an", finish: str = "length", **facts: Any) -> Reply:
    return Reply(text=text, finish=finish, **facts)


def limits(model_server: ModelServer) -> list[int | None]:
    bodies = [asked.body for asked in model_server.requests("generate")]
    return [body.get("max_completion_tokens") or body.get("max_tokens") for body in bodies]


@pytest.mark.parametrize("stream", [False, True])
def test_a_first_answer_that_is_cut_is_an_attempt_and_the_next_one_is_asked_to_be_shorter(
    spoken: tuple[Driver, str], model_server: ModelServer, *, stream: bool
):
    driver, finish = spoken
    model_server.script(generate=[cut("HALF AN", finish), "WHOLE"], evaluate=[0.9])
    job = driver.run_new(stream=stream, sampling={"max_output_tokens": 50})

    assert (job.status, job.stop_reason, job.error) == ("succeeded", "accepted", None)
    assert job.result is not None
    assert (job.result["final_answer"], job.result["total_iterations"], job.result["best_iteration"]) == ("WHOLE", 2, 2)
    first, second = driver.iterations(job.id)
    assert (first.answer, first.status, second.status) == ("HALF AN", "evaluation_failed", "evaluated")
    assert first.evaluation is not None
    assert first.evaluation.error is not None
    assert (first.evaluation.score, first.evaluation.passed) == (None, False)
    assert (first.evaluation.error["code"], first.evaluation.error["output_limit"]) == ("output_truncated", 50)
    assert len(model_server.requests("evaluate")) == 1
    prompt = model_server.requests("generate")[1].prompt
    assert "cut off at 50 tokens" in prompt
    assert "write a shorter answer" in prompt
    assert "HALF AN" not in prompt
    assert second.feedback_given is not None
    assert "cut off at 50 tokens" in second.feedback_given


def test_an_answer_that_is_cut_within_its_thinking_is_such_an_attempt_too(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[cut("<think>LONG PLAN"), "WHOLE"], evaluate=[0.9])
    job = driver.run_new(sampling={"max_output_tokens": 50})
    assert job.result is not None
    assert (job.stop_reason, job.result["final_answer"]) == ("accepted", "WHOLE")
    assert "LONG PLAN" not in model_server.requests("generate")[1].prompt


def test_events_tell_of_a_cut_answer_and_of_what_follows(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[cut(), "WHOLE"], evaluate=[0.9])
    job = driver.run_new(sampling={"max_output_tokens": 50})
    told = [(event.type, event.data["message"]) for event in driver.events(job.id)][3:6]
    assert told == [
        ("iteration.generated", "Iteration 1: an answer of 7 characters was cut off before its end."),
        ("iteration.evaluated", "Iteration 1 is not evaluated: its answer was cut off at the output limit."),
        ("thinking", "The answer was cut off at its output limit; iteration 2 is asked for a shorter answer."),
    ]


def test_the_loop_goes_on_from_the_best_answer_behind_a_cut_one(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["GOOD", cut("BROKEN OFF"), "BETTER"], evaluate=[verdict(0.6, "FIX"), 0.9])
    job = driver.run_new(sampling={"max_output_tokens": 50})
    assert job.stop_reason == "accepted"
    third = model_server.requests("generate")[2].prompt
    assert all(words in third for words in ("GOOD", "FIX", "cut off at 50 tokens"))
    assert "BROKEN OFF" not in third


@pytest.mark.parametrize(
    ("generate", "evaluate", "status", "reason"),
    [
        (["GOOD", cut()], [0.6], "succeeded", "iteration_limit"),
        ([cut(), "GOOD"], [0.6], "succeeded", "iteration_limit"),
        (["GOOD", cut()], ["no verdict"], "succeeded", "evaluator_error"),
        ([cut("GOOD"), cut("GOOD")], [], "failed", "error"),
    ],
)
def test_a_job_fails_only_when_no_iteration_brought_a_whole_answer(
    driver: Driver, model_server: ModelServer, generate: list[Any], evaluate: list[Any], status: str, reason: str
):
    model_server.script(generate=generate, evaluate=evaluate)
    job = driver.run_new(iter_max=2, sampling={"max_output_tokens": 50})
    assert (job.status, job.stop_reason, len(model_server.requests("generate"))) == (status, reason, 2)
    if status == "failed":
        assert job.result is None
        assert job.error is not None
        assert (job.error["code"], job.error["iteration"]) == ("output_truncated", 2)
        assert job.error["detail"].startswith("No whole answer in 2 iterations: ")
        assert "at the output limit. Raise sampling.max_output_tokens. The limit was" in job.error["detail"]
    else:
        assert job.result is not None
        assert (job.result["final_answer"], job.result["total_iterations"]) == ("GOOD", 2)


def test_a_larger_limit_is_asked_for_where_the_user_set_none(
    make_driver: Callable[..., Driver], model_server: ModelServer
):
    driver = make_driver(**DIALECTS["anthropic"], anthropic_max_output_tokens=100)
    model_server.script(generate=[cut(finish="max_tokens"), "A", "B"], evaluate=[0.1, 0.9])
    driver.run_new()
    assert limits(model_server) == [100, 200, 200]

    model_server.log.clear()
    model_server.script(generate=[cut(finish="max_tokens")] * 2 + ["A"], evaluate=[0.9])
    driver.run_new()
    assert limits(model_server) == [100, 200, 400]

    model_server.log.clear()
    model_server.script(generate=[cut(finish="max_tokens"), "A"], evaluate=[0.9])
    driver.run_new(sampling={"max_output_tokens": 60})
    assert limits(model_server) == [60, 60]


def test_without_any_limit_the_next_one_is_twice_what_was_written(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[cut(usage={"input": 5, "output": 700}), "A"], evaluate=[0.9])
    driver.run_new()
    assert limits(model_server) == [None, 1400]
    assert "cut off at 700 tokens" in model_server.requests("generate")[1].prompt


def test_another_model_of_the_ladder_has_a_limit_of_its_own(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[cut(usage={"input": 5, "output": 700}), "A"], evaluate=[0.9])
    driver.run_new(model=["openai:small", "openai:large"])
    assert limits(model_server) == [None, None]


def test_of_several_candidates_the_whole_ones_count(driver: Driver, model_server: ModelServer):
    def answer(asked: Any) -> Reply | None:
        if asked.role == "evaluate":
            return Reply(score=0.5)
        number = len(model_server.requests("generate"))
        return cut("HALF") if number == 2 else Reply(text=f"WHOLE {number}")

    model_server.respond(answer)
    job = driver.run_new(candidates=3, iter_max=1)
    rows = driver.iterations(job.id)
    assert sorted(row.status for row in rows) == ["evaluated", "evaluated", "evaluation_failed"]
    assert (job.stop_reason, job.usage.calls) == ("iteration_limit", 5)
    assert job.result is not None
    assert job.result["final_answer"].startswith("WHOLE")


def test_cut_answers_neither_end_a_loop_as_unchanged_nor_count_towards_a_plateau(
    driver: Driver, model_server: ModelServer
):
    model_server.script(generate=["ONE", cut("ONE"), cut("ONE"), "ONE MORE"], evaluate=[0.5, 0.9])
    job = driver.run_new(iter_max=4, stop={"plateau_patience": 1})
    assert (job.stop_reason, len(driver.iterations(job.id))) == ("accepted", 4)


def test_a_cut_answer_that_a_lost_worker_got_is_not_paid_twice(
    driver: Driver, interrupted: Callable[[Callable[[], None]], Driver], model_server: ModelServer
):
    model_server.script(generate=[cut("HALF"), "WHOLE"], evaluate=[0.9])
    job_id = driver.submit(candidates=2, iter_max=1)
    calls: list[int] = []

    def kill_the_second() -> None:
        calls.append(1)
        if len(calls) == 2:
            kill()

    with pytest.raises(Killed):
        interrupted(kill_the_second).step(job_id)
    driver.expire_lease(job_id)
    job = driver.run(job_id)
    assert job.status == "succeeded"
    assert len(model_server.requests("generate")) == 3


def test_a_job_without_a_whole_answer_can_be_continued(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[cut(), "WHOLE"], evaluate=[0.9])
    first = driver.run_new(iter_max=1, sampling={"max_output_tokens": 50})
    assert first.status == "failed"
    lifecycle.continue_job(driver.services, first.id, ContinueJob(guidance="BE BRIEF"))
    job = driver.run(first.id)
    assert (job.stop_reason, [each.number for each in driver.iterations(job.id)]) == ("accepted", [1, 2])
    assert all(words in model_server.requests("generate")[1].prompt for words in ("cut off at 50 tokens", "BE BRIEF"))


def test_a_budget_holds_for_a_larger_limit(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[cut(usage={"input": 5, "output": 900}), "WHOLE"], evaluate=[0.9])
    job = driver.run_new(limits={"max_tokens": 6000})
    assert job.stop_reason == "accepted"
    assert all(limit is not None and limit < 6000 for limit in limits(model_server))


def test_a_cut_answer_is_not_judged_anew(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[cut(), "WHOLE"], evaluate=[0.9])
    job = driver.run_new()
    again = rescore(driver.services, job.id, RescoreJob()).job
    assert again.request["iterations"] == [2]
    with pytest.raises(Invalid, match="iteration 1 was cut off"):
        rescore(driver.services, job.id, RescoreJob(iterations=[1]))
    model_server.script(generate=[cut()])
    none = driver.run_new(iter_max=1)
    with pytest.raises(Conflict, match="no answer"):
        rescore(driver.services, none.id, RescoreJob())


def test_reasoning_that_takes_all_is_told_as_such(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[cut(""), "WHOLE"], evaluate=[0.9])
    job = driver.run_new(sampling={"max_output_tokens": 50})
    assert job.stop_reason == "accepted"
    assert "before its text began" in model_server.requests("generate")[1].prompt


def test_an_answer_that_fills_the_models_context_is_cut_too(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[cut(finish="model_context_window_exceeded"), "WHOLE"], evaluate=[0.9])
    job = driver.run_new()
    assert job.stop_reason == "accepted"
    assert "write a shorter answer" in model_server.requests("generate")[1].prompt
