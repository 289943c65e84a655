"""A job with `evaluation.when: after_answer` ends with its first answer, and gets its verdict afterwards."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from redraft.domain.jobs.requests import ContinueJob, EvaluateAnswer, GenerateAnswer, RescoreJob
from redraft.errors import Invalid
from redraft.operations.admin.metrics import collect
from redraft.operations.bulk import runs
from redraft.operations.evaluation.rescore import rescore
from redraft.operations.jobs import queries
from redraft.operations.jobs.lifecycle import cancel, continue_job, delete
from redraft.operations.steps import sweeper
from redraft.operations.steps.leases import LeaseHolder
from tests.model_server import ModelServer, Reply
from tests.operations.bulk.test_runs import now, rows, start, under_way, work_off
from tests.operations.driving import LEAST, Driver, Killed, both_formats, streamed_or_not

BEHIND: dict[str, Any] = {"evaluation": {"when": "after_answer"}}


def answered(driver: Driver, **values: Any) -> str:
    job_id = driver.submit(**{**BEHIND, **values})
    driver.step(job_id)
    return job_id


@pytest.mark.both_databases
@both_formats
@streamed_or_not
def test_the_job_ends_with_its_answer_and_then_gets_its_verdict(
    make_driver: Callable[..., Driver], model_server: ModelServer, models: dict[str, str], *, stream: bool
):
    driver = make_driver(**models)
    model_server.script(generate=["one"], evaluate=[0.9])
    job_id = answered(driver, stream=stream)
    job = driver.job(job_id)
    assert (job.status, job.stop_reason, job.progress.step) == ("succeeded", "answered", "evaluate")
    assert job.result is not None
    assert job.finished_at is not None
    assert (job.result["final_answer"], job.result["success"], job.result["final_score"]) == ("one", None, None)
    assert job.request["iter_max"] == 1
    events, is_over = queries.list_events(driver.services, job_id, 0)
    assert (events[-1].type, events[-1].data["result"]["final_answer"], is_over) == ("done", "one", False)
    assert model_server.requests("evaluate") == []

    driver.step(job_id)
    driver.check_order(job_id)
    evaluated = driver.job(job_id)
    assert (evaluated.status, evaluated.stop_reason, evaluated.progress.step) == ("succeeded", "accepted", None)
    assert evaluated.finished_at == job.finished_at
    assert evaluated.result is not None
    assert (evaluated.result["success"], evaluated.result["final_score"]) == (True, 0.9)
    events, is_over = queries.list_events(driver.services, job_id, 0)
    assert [event.type for event in events[-3:]] == ["done", "iteration.evaluated", "evaluated"]
    assert events[-1].data["message"] == "The answer was evaluated and accepted."
    assert events[-1].data["result"]["final_score"] == 0.9
    assert is_over


def test_one_worker_goes_on_with_the_evaluation_and_a_low_score_starts_no_iteration(
    driver: Driver, model_server: ModelServer
):
    model_server.script(generate=["one"], evaluate=[0.4])
    job_id = driver.submit(**BEHIND)
    driver.go_on(job_id)
    driver.check_order(job_id)
    job = driver.job(job_id)
    assert (job.status, job.stop_reason) == ("succeeded", "iteration_limit")
    assert job.result is not None
    assert (job.result["success"], job.result["final_score"]) == (False, 0.4)
    assert driver.events(job_id)[-1].data["message"] == "The answer was evaluated, and is not accepted."


@both_formats
@streamed_or_not
def test_an_audit_follows_the_evaluation(
    make_driver: Callable[..., Driver], model_server: ModelServer, models: dict[str, str], *, stream: bool
):
    driver = make_driver(**models)
    model_server.script(generate=["one"], evaluate=[0.9, 0.7])
    job_id = driver.submit(
        evaluation={"when": "after_answer", "audit": models.get("evaluator_model", "openai:auditor")}, stream=stream
    )
    driver.go_on(job_id)
    driver.check_order(job_id)
    assert driver.job(job_id).stop_reason == "accepted"
    assert [each.score for each in driver.iterations(job_id)[0].further_evaluations] == [0.7]


@pytest.mark.both_databases
def test_another_worker_takes_the_evaluation_of_a_killed_one_over(
    driver: Driver, interrupted: Callable[[Callable[[], None]], Driver], model_server: ModelServer
):
    def killed() -> None:
        raise Killed

    model_server.script(generate=["one"], evaluate=[0.9])
    job_id = answered(driver)
    with pytest.raises(Killed):
        interrupted(killed).step(job_id)
    driver.set_back(job_id, finished_at=-100.0, lease_expires_at=-1.0, rung_at=-100.0)
    # The sweep must not take the ended job for one without a step
    messages = [each.job_id for each in sweeper.sweep(driver.services).undelivered]
    assert messages in ([], [job_id])
    driver.step(job_id)
    driver.check_order(job_id)
    assert driver.job(job_id).stop_reason == "accepted"
    assert driver.call_statuses(job_id) == ["ok", "unknown", "ok"]


def test_a_failed_evaluator_is_retried_and_leaves_the_answer(
    make_driver: Callable[..., Driver], model_server: ModelServer
):
    driver = make_driver(step_attempts_max=2, retry_wait_s=0.01)
    model_server.script(generate=["one"], evaluate=[Reply(status=503), Reply(status=503)])
    job_id = answered(driver)
    driver.step(job_id)
    assert driver.job(job_id).stop_reason == "answered"
    driver.set_back(job_id, available_at=-1.0)
    driver.step(job_id)
    job = driver.job(job_id)
    assert (job.status, job.stop_reason) == ("succeeded", "error")
    assert (job.error or {})["code"] == "provider_unavailable"
    assert job.result is not None
    assert (job.result["final_answer"], job.result["success"]) == ("one", False)
    assert driver.event_types(job_id)[-1] == "evaluated"


def test_a_cancel_stops_only_the_evaluation(driver: Driver, model_server: ModelServer):
    job_id = answered(driver)
    job, has_canceled_job = cancel(driver.services, job_id)
    assert (job.status, job.stop_reason, has_canceled_job) == ("succeeded", "evaluation_skipped", False)
    assert job.result is not None
    assert job.result["success"] is None
    assert driver.event_types(job_id)[-1] == "evaluated"
    driver.step(job_id)
    assert model_server.requests("evaluate") == []


def test_a_deadline_ends_the_evaluation(driver: Driver):
    job_id = answered(driver)
    driver.set_back(job_id, deadline_at=-100.0)
    sweeper.sweep(driver.services)
    job = driver.job(job_id)
    assert (job.status, job.stop_reason) == ("succeeded", "deadline_exceeded")
    assert driver.event_types(job_id)[-1] == "evaluated"


@both_formats
@streamed_or_not
def test_a_continuation_evaluates_the_answer_first_and_then_goes_on(
    make_driver: Callable[..., Driver], model_server: ModelServer, models: dict[str, str], *, stream: bool
):
    driver = make_driver(**models)
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    job_id = answered(driver, stream=stream)
    continue_job(driver.services, job_id, ContinueJob(iter_max=3))
    job = driver.run(job_id)
    assert (job.stop_reason, driver.scores(job_id)) == ("accepted", [0.4, 0.9])
    assert job.request["evaluation"]["when"] == "before_done"
    assert driver.event_types(job_id).count("evaluated") == 0


def test_a_job_can_be_deleted_while_its_answer_is_evaluated(
    driver: Driver, interrupted: Callable[[Callable[[], None]], Driver]
):
    job_id = answered(driver)
    interrupted(lambda: delete(driver.services, job_id)).step(job_id)


def test_the_lease_of_an_evaluation_is_extended(driver: Driver, interrupted: Callable[[Callable[[], None]], Driver]):
    job_id = answered(driver)
    holder = LeaseHolder(driver.services.settings)
    interrupted(lambda: holder.beat(driver.services.database)).step(job_id, holder)
    assert driver.job(job_id).stop_reason in {"accepted", "iteration_limit"}


def test_the_metrics_count_the_step_and_no_live_job(driver: Driver):
    answered(driver)
    text = collect(driver.services).exposition()
    assert 'redraft_steps{state="waiting",step="evaluate"} 1' in text
    assert 'redraft_jobs_live{status="running"} 0' in text


@pytest.mark.parametrize(
    "values",
    [{"iter_max": 3}, {"candidates": 2}, {"candidates": 2, "iter_max": 3}],
)
def test_more_than_the_first_answer_is_refused(values: dict[str, Any]):
    with pytest.raises(ValidationError, match="first answer") as raised:
        GenerateAnswer.model_validate({**LEAST, **BEHIND, **values})
    assert [error.get("ctx", {})["field"] for error in raised.value.errors()] == list(values)


def test_a_given_answer_is_not_evaluated_after_an_answer(driver: Driver):
    with pytest.raises(ValidationError, match="generate an answer"):
        EvaluateAnswer.model_validate({**LEAST, **BEHIND, "answer": "given"})
    job_id = answered(driver)
    with pytest.raises(Invalid, match="stored answers"):
        rescore(driver.services, job_id, RescoreJob.model_validate(BEHIND))


@both_formats
@streamed_or_not
def test_answers_outside_of_the_sample_are_not_evaluated(
    make_driver: Callable[..., Driver], model_server: ModelServer, models: dict[str, str], *, stream: bool
):
    driver = make_driver(**models)
    model_server.script(generate=["one"] * 3, evaluate=[0.9])
    out = driver.run_new(evaluation={"sample": 0.0}, stream=stream)
    assert (out.stop_reason, out.result and out.result["success"]) == ("evaluation_skipped", None)
    assert driver.iterations(out.id)[0].status == "evaluation_skipped"
    short = driver.run_new(evaluation={"min_answer_chars": 4}, stream=stream)
    assert short.stop_reason == "evaluation_skipped"
    assert driver.run_new(evaluation={"min_answer_chars": 3}, stream=stream).stop_reason == "accepted"


@both_formats
@streamed_or_not
def test_a_failed_required_check_counts_outside_of_the_sample_too(
    make_driver: Callable[..., Driver], model_server: ModelServer, models: dict[str, str], *, stream: bool
):
    driver = make_driver(**models)
    rubric = [
        {"id": "good", "text": "It is good.", "kind": "binary"},
        {"id": "long", "kind": "check", "required": True, "check": {"kind": "min_words", "value": 2}},
    ]
    model_server.script(generate=["one", "one two"])
    job = driver.run_new(rubric=rubric, evaluation={"sample": 0.0}, stream=stream)
    assert (job.stop_reason, driver.scores(job.id)) == ("evaluation_skipped", [0.0, None])
    assert job.result is not None
    assert (job.result["final_answer"], job.result["success"]) == ("one two", None)
    assert model_server.requests("evaluate") == []


def test_an_item_of_a_run_ends_when_its_answer_is_evaluated(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one"], evaluate=[0.9])
    run = start(driver, rows(1, **BEHIND))
    [job_id] = under_way(driver, run)
    driver.step(job_id)
    assert (driver.job(job_id).stop_reason, now(driver, run).counts.running) == ("answered", 1)
    ended = work_off(driver, run)
    assert (ended.status, ended.counts.succeeded, ended.counts.accepted) == ("succeeded", 1, 1)


def test_a_canceled_run_cancels_the_evaluations_of_its_items(driver: Driver):
    run = start(driver, rows(1, **BEHIND))
    [job_id] = under_way(driver, run)
    driver.step(job_id)
    runs.cancel_run(driver.services, run.id)
    assert driver.job(job_id).stop_reason == "evaluation_skipped"
    assert now(driver, run).counts.running == 0
