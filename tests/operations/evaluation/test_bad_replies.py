"""Evaluators that talk nonsense and providers that fail: what is asked again, put off, or ends the job."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from redraft.domain.jobs.states import Step
from redraft.operations.steps.sweeper import sweep
from redraft.settings import ModelPrice
from redraft.storage.jobs import transitions
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver
from tests.operations.steps.test_the_loop import verdict
from tests.support.waiting import let_pass

RATE_LIMIT = Reply(
    status=429, raw={"error": {"message": "Slow down", "type": "requests", "code": "rate_limit_exceeded"}}
)
OUTAGE = Reply(status=500, raw={"error": {"message": "Oops", "type": "server_error", "code": None}})
NO_KEY = Reply(
    status=401, raw={"error": {"message": "Bad key", "type": "invalid_request_error", "code": "invalid_api_key"}}
)


def refusal(status: int, code: str) -> Reply:
    return Reply(status=status, raw={"error": {"message": "No", "type": "invalid_request_error", "code": code}})


# Case C04
def test_garbage_twice_is_an_evaluation_error_and_the_loop_goes_on_with_the_last_good_feedback(
    driver: Driver, model_server: ModelServer
):
    model_server.script(
        generate=["one", "two", "three"],
        evaluate=[verdict(0.6, "Add dates", reasoning="thin"), "garbage", "garbage", verdict(0.7)],
    )
    job = driver.run_new(iter_max=3, score_threshold=0.9)

    assert driver.scores(job.id) == [0.6, None, 0.7]
    second = driver.iterations(job.id)[1]
    assert second.status == "evaluation_failed"
    assert second.evaluation is not None
    assert (second.evaluation.status, second.evaluation.passed) == ("error", False)
    assert second.evaluation.error is not None
    assert second.evaluation.error["code"] == "evaluator_invalid"
    assert [call.type for call in driver.calls(job.id) if call.iteration == 2] == ["generate", "evaluate", "repair"]
    assert len(model_server.requests("evaluate")) == 4
    third = model_server.requests("generate")[2].prompt
    assert "Add dates" in third
    assert "garbage" not in third
    assert "JSON" not in third
    assert job.result is not None
    assert (job.result["best_iteration"], job.result["final_score"]) == (3, 0.7)
    thinking = [event.data["message"] for event in driver.events(job.id) if event.type == "thinking"]
    assert "below 0.9" in thinking[0]
    assert "below" not in thinking[1]


def test_a_repaired_verdict_counts_and_the_second_asking_says_why(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=["no verdict at all", 0.9])
    job = driver.run_new()

    assert (job.stop_reason, job.usage.calls) == ("accepted", 3)
    first, second = model_server.requests("evaluate")
    assert "could not be used" not in first.prompt
    assert "could not be used" in second.prompt
    assert [(call.type, call.status) for call in driver.calls(job.id)][1:] == [
        ("evaluate", "succeeded"),
        ("repair", "succeeded"),
    ]


def test_a_cut_verdict_is_asked_for_again_with_more_room_and_without_the_cut_text(
    driver: Driver, model_server: ModelServer
):
    model_server.script(evaluate=[Reply(text='{"score": 0.3, "reasoning": "CUT', finish="length"), 0.9])
    job = driver.run_new()

    assert job.stop_reason == "accepted"
    first, second = [asked.body["max_tokens"] for asked in model_server.requests("evaluate")]
    assert second == 2 * first
    assert "CUT" not in model_server.requests("evaluate")[1].prompt


# Case A08
@pytest.mark.parametrize("score", ["8", 85, -0.1, True, None, "NaN"])
def test_an_impossible_score_is_an_error_and_never_0_nor_a_pass(driver: Driver, model_server: ModelServer, score: Any):
    model_server.script(evaluate=[{**verdict(0.5), "score": score}])
    job = driver.run_new(iter_max=1)

    assert (job.status, job.stop_reason) == ("succeeded", "evaluator_error")
    assert job.result is not None
    assert (job.result["final_score"], job.result["success"]) == (None, False)
    assert job.result["final_answer"] == "draft 1"
    assert job.error is not None
    assert job.error["code"] == "evaluator_invalid"
    assert driver.scores(job.id) == [None]


def test_a_refusing_evaluator_is_an_evaluation_error_without_a_second_asking(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[Reply(text="", finish="content_filter"), 0.9])
    job = driver.run_new()
    assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [None, 0.9])
    assert [call.type for call in driver.calls(job.id)] == ["generate", "evaluate", "generate", "evaluate"]


@pytest.mark.parametrize("failure", [RATE_LIMIT, OUTAGE])
@pytest.mark.parametrize("role", ["generate", "evaluate"])
def test_a_passing_failure_puts_the_step_off_as_a_row_and_is_tried_again(
    make_driver: Callable[..., Driver], model_server: ModelServer, failure: Reply, role: str
):
    driver = make_driver(retry_wait_s=30.0)
    good = {"generate": ["one"], "evaluate": [0.9]}
    model_server.script(**{**good, role: [failure, *good[role]]})
    job_id = driver.submit(iter_max=1)
    driver.step(job_id)
    if role == Step.EVALUATE:
        driver.step(job_id)

    row = driver.row(job_id)
    assert (row.status, row.step, row.step_attempt) == ("running", role, 1)
    assert (row.lease_owner, row.lease_expires_at, row.rung_at) == (None, None, None)
    assert row.available_at > row.created_at
    told = driver.events(job_id)[-1]
    assert told.type == "step.retrying"
    assert 15 <= told.data["wait_s"] <= 30
    assert told.data["attempt"] == 1

    asked = len(model_server.requests())
    driver.step(job_id)
    assert len(model_server.requests()) == asked, "the step was done before its time"

    driver.set_back(job_id, available_at=-1)
    job = driver.run(job_id)
    assert (job.stop_reason, job.usage.calls, len(driver.iterations(job_id))) == ("accepted", 3, 1)
    assert [(c.type, c.attempt, c.status) for c in driver.calls(job_id) if c.type == role] == [
        (role, 1, "failed"),
        (role, 2, "succeeded"),
    ]


def test_a_rate_limit_during_the_second_asking_is_tried_again_without_repeating_the_first(
    driver: Driver, model_server: ModelServer
):
    model_server.script(evaluate=["garbage", RATE_LIMIT, 0.9])
    job = driver.run_new(iter_max=1)
    assert job.stop_reason == "accepted"
    assert [(c.type, c.status) for c in driver.calls(job.id)] == [
        ("generate", "succeeded"),
        ("evaluate", "succeeded"),
        ("repair", "failed"),
        ("repair", "succeeded"),
    ]


def test_the_wait_a_provider_asks_for_is_honoured(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(status=429, raw=RATE_LIMIT.raw, headers={"retry-after": "7"})])
    job_id = driver.submit()
    driver.step(job_id)
    assert driver.events(job_id)[-1].data["wait_s"] >= 7


def test_a_wait_beyond_the_deadline_ends_the_job_at_once(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(status=429, raw=RATE_LIMIT.raw, headers={"retry-after": "30"})])
    job = driver.run_new(limits={"deadline_s": 20})
    assert (job.status, job.usage.calls) == ("failed", 1)


def test_a_passing_failure_that_does_not_pass_ends_the_job_after_so_many_attempts(
    make_driver: Callable[..., Driver], model_server: ModelServer
):
    driver = make_driver(step_attempts_max=3)
    model_server.script(generate=[OUTAGE])
    job = driver.run_new()

    assert (job.status, job.stop_reason, job.result) == ("failed", "error", None)
    assert job.error is not None
    assert (job.error["code"], job.error["attempts"], job.error["iteration"]) == ("provider_unavailable", 3, 1)
    assert job.error["model"] == "openai:writer"
    assert [call.attempt for call in driver.calls(job.id)] == [1, 2, 3]
    assert driver.event_types(job.id).count("iteration.started") == 1
    assert driver.event_types(job.id).count("job.started") == 1


def test_the_evaluator_failing_for_good_leaves_the_answer(
    make_driver: Callable[..., Driver], model_server: ModelServer
):
    driver = make_driver(step_attempts_max=2)
    model_server.script(evaluate=[OUTAGE])
    job = driver.run_new()

    assert (job.status, job.stop_reason) == ("succeeded", "error")
    assert job.result is not None
    assert (job.result["final_answer"], job.result["final_score"]) == ("draft 1", None)
    assert len(model_server.requests("evaluate")) == 2


# Case B11
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (NO_KEY, "provider_auth"),
        (refusal(404, "model_not_found"), "unknown_model"),
        (refusal(429, "insufficient_quota"), "provider_quota"),
        (refusal(400, "context_length_exceeded"), "context_too_long"),
        (refusal(400, "invalid_value"), "provider_bad_request"),
        (Reply(text="", finish="content_filter"), "content_filtered"),
        (Reply(text=""), "empty_output"),
    ],
)
def test_what_cannot_heal_is_one_call_and_a_failed_job(
    driver: Driver, model_server: ModelServer, reply: Reply, code: str
):
    model_server.script(generate=[reply])
    job = driver.run_new()

    assert (job.status, job.stop_reason, job.result, job.usage.calls) == ("failed", "error", None, 1)
    assert job.error is not None
    assert (job.error["code"], job.error["retryable"]) == (code, False)
    (call,) = driver.calls(job.id)
    assert (call.status, call.error and call.error["code"]) == ("failed", code)


def test_a_failure_after_an_answer_exists_is_a_success_with_an_error(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", NO_KEY], evaluate=[0.4])
    job = driver.run_new()

    assert (job.status, job.stop_reason) == ("succeeded", "error")
    assert job.error is not None
    assert (job.error["code"], job.error["iteration"]) == ("provider_auth", 2)
    assert job.result is not None
    assert (job.result["final_answer"], job.result["final_score"], job.result["success"]) == ("one", 0.4, False)


def test_one_candidate_that_fails_does_not_take_the_others_with_it(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", refusal(400, "invalid_value"), "three"], evaluate=[0.9])
    job = driver.run_new(candidates=3, iter_max=1)
    assert job.stop_reason == "accepted"
    assert sorted(each.answer for each in driver.iterations(job.id)) == ["one", "three"]


def test_candidates_that_answered_are_not_asked_again_when_one_is_put_off(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", RATE_LIMIT, "three", "two"], evaluate=[0.9])
    job = driver.run_new(candidates=3, iter_max=1)
    assert len(model_server.requests("generate")) == 4
    assert sorted(each.answer for each in driver.iterations(job.id)) == ["one", "three", "two"]


def test_the_deadline_ends_a_job_before_its_next_call_with_the_best_answer(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.4])
    job_id = driver.submit()
    driver.step(job_id)
    driver.step(job_id)
    driver.set_back(job_id, deadline_at=-1)
    job = driver.run(job_id)

    assert (job.status, job.stop_reason, job.usage.calls) == ("succeeded", "deadline_exceeded", 2)
    assert job.error is not None
    assert job.error["code"] == "deadline_exceeded"
    assert job.result is not None
    assert job.result["final_score"] == 0.4


def test_the_deadline_of_a_job_without_an_answer_fails_it(driver: Driver, model_server: ModelServer):
    job_id = driver.submit()
    driver.set_back(job_id, deadline_at=-1)
    job = driver.run(job_id)
    assert (job.status, job.stop_reason, job.result) == ("failed", "deadline_exceeded", None)
    assert model_server.requests() == []


def test_the_deadline_bounds_the_call_itself(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(fault="hang")])
    job = driver.run_new(limits={"deadline_s": 0.8})
    assert (job.status, job.stop_reason) == ("failed", "deadline_exceeded")
    assert job.usage.calls == 1


def test_a_claim_that_waits_for_the_database_brings_the_deadline_no_nearer(driver: Driver):
    job_id = driver.submit(limits={"deadline_s": 5}, iter_max=1)
    with ThreadPoolExecutor(max_workers=1) as pool:
        with driver.services.database.write() as connection:
            transitions.lock(connection, [job_id])
            running = pool.submit(driver.run, job_id)
            let_pass(2.7)
        assert running.result().stop_reason == "accepted"


def test_the_sweeper_ends_a_job_that_nobody_takes_up_in_time(driver: Driver):
    job_id = driver.submit()
    driver.set_back(job_id, deadline_at=-1)
    sweep(driver.services)
    job = driver.job(job_id)
    assert (job.status, job.stop_reason) == ("failed", "deadline_exceeded")
    driver.check_order(job_id)
    driver.step(job_id)
    assert driver.calls(job_id) == []


def test_the_sweeper_leaves_a_held_job_some_time_to_end_itself(driver: Driver, interrupted: Callable[..., Driver]):
    def late_sweep() -> None:
        driver.set_back(job_id, deadline_at=-1)
        sweep(driver.services)
        assert driver.row(job_id).finished_at is None
        driver.set_back(job_id, deadline_at=-10)
        sweep(driver.services)
        assert driver.row(job_id).stop_reason == "deadline_exceeded"

    job_id = driver.submit()
    interrupted(late_sweep).step(job_id)
    assert driver.iterations(job_id) == []
    assert driver.call_statuses(job_id) == ["ok"]
    driver.check_order(job_id)


def test_sums_hold_more_than_two_thousand_million(make_driver: Callable[..., Driver], model_server: ModelServer):
    """A cost is counted in 1e-9 USD: a step of 2.2 USD is no rare thing."""
    price = ModelPrice(input=1000.0, output=1000.0)
    driver = make_driver(prices={"openai:writer": price, "openai:judge": price})
    model_server.script(generate=[Reply("dear", usage={"input": 5_000_000, "output": 5_000_000})], evaluate=[0.9])
    job = driver.run_new()
    assert job.usage.cost_usd is not None
    assert float(job.usage.cost_usd) > 10_000
    assert job.usage.input_tokens >= 5_000_000


@pytest.mark.parametrize("tokens", [10**19, -1, 2.5])
def test_counts_that_cannot_be_are_unknown(driver: Driver, model_server: ModelServer, tokens: Any):
    model_server.script(generate=[Reply("fine", usage={"input": tokens, "output": 3})], evaluate=[0.9])
    job = driver.run_new()
    assert job.stop_reason == "accepted"
    assert driver.ledger(job.id)[0]["input_tokens"] is None
    assert job.usage.cost_usd is None


def test_a_stop_reason_of_any_length_is_stored(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply("fine", finish="because\x00" * 40)], evaluate=[0.9])
    job_id = driver.submit(iter_max=1)
    driver.run(job_id)
    stored = driver.ledger(job_id)[0]["finish_reason"]
    assert stored.startswith("because")
    assert len(stored) <= 40
