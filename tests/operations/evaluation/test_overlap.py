"""With `evaluation.when: overlap`, the next answer is generated while an answer is evaluated."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from pydantic_core import to_json

from redraft.domain.jobs.requests import ContinueJob, EvaluateAnswer, RescoreJob
from redraft.errors import Invalid
from redraft.operations.evaluation.rescore import rescore
from redraft.operations.jobs.lifecycle import cancel, continue_job
from redraft.operations.steps.leases import LeaseHolder
from tests.model_server import ModelServer, Reply
from tests.operations.driving import ENGINE, Driver, Killed, both_formats, streamed_or_not
from tests.operations.steps.test_the_loop import verdict
from tests.support.waiting import patient, wait_until

OVERLAP: dict[str, Any] = {"evaluation": {"when": "overlap"}}


@contextmanager
def working(driver: Driver, job_id: str, holder: LeaseHolder | None = None) -> Generator[None]:
    def work() -> None:
        with suppress(Killed):
            driver.go_on(job_id, holder=holder)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join(patient(60))
    assert not thread.is_alive()


def generated(driver: Driver, job_id: str) -> list[tuple[int, str]]:
    return [(row["iteration"], row["status"]) for row in driver.ledger(job_id) if row["step"] == "generate"]


def prompts(model_server: ModelServer) -> list[str]:
    return [str(entry.body["messages"]) for entry in model_server.requests("generate")]


@both_formats
@streamed_or_not
def test_the_next_answer_is_generated_during_an_evaluation(
    make_driver: Callable[..., Driver], model_server: ModelServer, models: dict[str, str], *, stream: bool
):
    driver = make_driver(**models)
    held = Reply(verdict=verdict(0.2, "FIRST GAP"), is_held=True)
    model_server.script(generate=["one", "two", "three"], evaluate=[held, verdict(0.4, "SECOND GAP"), verdict(0.9, "")])
    job_id = driver.submit(**OVERLAP, stream=stream)
    with working(driver, job_id):
        wait_until(lambda: len(model_server.requests("generate")) == 2, what="the speculative call")
        assert [entry.status for entry in model_server.requests("evaluate")] in ([], [None])
        assert len(driver.iterations(job_id)) == 1
        model_server.release()
    driver.check_order(job_id)
    job = driver.job(job_id)
    assert job.result is not None
    assert (job.stop_reason, job.result["final_answer"], driver.scores(job_id)) == (
        "accepted",
        "three",
        [0.2, 0.4, 0.9],
    )
    first, second, third = prompts(model_server)
    assert first == second
    assert "FIRST GAP" in third
    assert "SECOND GAP" not in third
    given = [each.feedback_given for each in driver.iterations(job_id)]
    assert given[:2] == [None, None]
    assert "FIRST GAP" in str(given[2])


@both_formats
@streamed_or_not
def test_an_accepted_answer_aborts_the_next_one(
    make_driver: Callable[..., Driver], model_server: ModelServer, models: dict[str, str], *, stream: bool
):
    driver = make_driver(**models)
    hanging = Reply(text="a b", fault="stream_hang") if stream else Reply(fault="hang")
    model_server.script(generate=["one", hanging], evaluate=[Reply(score=0.9, is_held=True)])
    job_id = driver.submit(**OVERLAP, stream=stream)
    with working(driver, job_id):
        wait_until(lambda: len(model_server.requests("generate")) == 2, what="the speculative call")
        model_server.release()
    driver.check_order(job_id)
    job = driver.job(job_id)
    assert job.result is not None
    assert (job.stop_reason, job.result["final_answer"], job.result["total_iterations"]) == ("accepted", "one", 1)
    assert generated(driver, job_id) == [(1, "ok"), (2, "error")]
    (aborted,) = [row for row in driver.ledger(job_id) if row["iteration"] == 2]
    assert aborted["error"]["code"] == "canceled"
    assert aborted["cost_nano_usd"] is None
    assert "is not needed" in aborted["error"]["detail"]
    wait_until(lambda: model_server.open_connections <= 2, what="the connection closed")


def test_an_answer_that_is_finished_before_an_accepting_verdict_is_paid_and_not_used(
    driver: Driver, model_server: ModelServer
):
    model_server.script(generate=["one", "two", "three"], evaluate=[Reply(score=0.9, is_held=True), 0.95])
    job_id = driver.submit(**OVERLAP)
    with working(driver, job_id):
        wait_until(lambda: (2, "ok") in generated(driver, job_id), what="the speculative reply")
        model_server.release()
    driver.check_order(job_id)
    assert [each.answer for each in driver.iterations(job_id)] == ["one"]
    # A continuation has the verdict, so it asks for an answer with this feedback
    continue_job(driver.services, job_id, ContinueJob(score_threshold=0.92))
    driver.run(job_id)
    assert [each.answer for each in driver.iterations(job_id)] == ["one", "three"]
    assert driver.iterations(job_id)[1].feedback_given


def test_events_say_which_iteration_gets_the_feedback(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two", "three"], evaluate=[0.2])
    job = driver.run_new(**OVERLAP)
    assert job.stop_reason == "iteration_limit"
    round_ = ["iteration.started", "iteration.generated", "iteration.evaluated", "thinking"]
    assert driver.event_types(job.id) == ["job.queued", "job.started", *round_, *round_, *round_[:3], "done"]
    words = [event.data["message"] for event in driver.events(job.id) if event.type == "thinking"]
    assert "goes into iteration 3, because iteration 2 is written already" in words[0]
    assert "iteration 3 is written already, and is the last one" in words[1]


def test_no_more_answers_than_iterations_are_generated(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.2])
    driver.run_new(**OVERLAP, iter_max=1)
    assert len(model_server.requests("generate")) == 1
    job = driver.run_new(**OVERLAP, iter_max=4, stop={"plateau_patience": 0})
    assert [len(driver.iterations(job.id)), len(generated(driver, job.id))] == [4, 4]


@pytest.mark.both_databases
@pytest.mark.parametrize("late", ["evaluate", "generate"])
def test_after_a_crash_only_the_call_in_flight_is_repeated(driver: Driver, model_server: ModelServer, late: str):
    two, verdicts = Reply(text="two", is_held=late == "generate"), Reply(score=0.2, is_held=late == "evaluate")
    model_server.script(generate=["one", two, "three"], evaluate=[verdicts, 0.2, 0.9])
    job_id, is_killed = driver.submit(**OVERLAP, iter_max=2), threading.Event()
    driver.step(job_id)

    def die() -> None:
        if is_killed.is_set():
            raise Killed

    with working(driver.interrupted(die), job_id):
        wait_until(lambda: driver.call_statuses(job_id).count("ok") == 2, what="the first reply of the step")
        is_killed.set()
        model_server.release()
    driver.expire_lease(job_id)
    assert driver.run(job_id).result is not None
    steps = [(row["step"], row["iteration"], row["status"]) for row in driver.ledger(job_id)]
    assert [step for step in steps if step[2] != "ok"] == [(late, 2 if late == "generate" else 1, "unknown")]
    assert len(steps) == len(set(steps))
    # The speculative reply is used, or the verdict was known before the next answer was asked for
    second = driver.iterations(job_id)[1]
    assert (second.answer, bool(second.feedback_given)) == (("two", False) if late == "evaluate" else ("three", True))


def test_recorded_replies_are_used_after_the_evaluator_failed(
    make_driver: Callable[..., Driver], model_server: ModelServer
):
    driver = make_driver(retry_wait_s=0.01)
    model_server.script(generate=["one", "two", "three"], evaluate=[Reply(status=503), 0.2, 0.9])
    job = driver.run_new(**OVERLAP)
    assert job.stop_reason == "accepted"
    assert [each.answer for each in driver.iterations(job.id)] == ["one", "two"]
    assert [entry.body["model"] for entry in model_server.requests("generate")] == ["writer"] * 3


@pytest.mark.parametrize("failure", [Reply(status=503), Reply(status=401), Reply(text="", finish="content_filter")])
def test_a_failed_speculation_leaves_the_next_iteration_to_its_own_step(
    driver: Driver, model_server: ModelServer, failure: Reply
):
    model_server.script(generate=["one", failure, "two"], evaluate=[verdict(0.2, "THE GAP"), 0.9])
    job = driver.run_new(**OVERLAP)
    assert (job.stop_reason, [each.answer for each in driver.iterations(job.id)]) == ("accepted", ["one", "two"])
    assert "THE GAP" in str(driver.iterations(job.id)[1].feedback_given)


def test_the_next_step_waits_as_long_as_the_provider_asked_of_a_speculation(driver: Driver, model_server: ModelServer):
    refusal = Reply(status=429, headers={"Retry-After": "1"}, raw={"error": {"message": "slow down"}})
    model_server.script(generate=["one", refusal, "two"], evaluate=[0.2, 0.9])
    job = driver.run_new(**OVERLAP)
    assert (job.stop_reason, [each.answer for each in driver.iterations(job.id)]) == ("accepted", ["one", "two"])
    _, refused, asked = [row for row in driver.ledger(job.id) if row["step"] == "generate"][:3]
    assert (asked["started_at"] - refused["finished_at"]).total_seconds() > 0.9
    assert driver.event_types(job.id).count("iteration.started") == 2


def test_a_cancel_aborts_both_calls(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", Reply(fault="hang")], evaluate=[Reply(fault="hang")])
    holder = LeaseHolder(driver.services.settings, abort=ENGINE.abort)
    job_id = driver.submit(**OVERLAP)
    with working(driver, job_id, holder):
        wait_until(lambda: len(model_server.requests()) == 3, what="both calls")
        cancel(driver.services, job_id)
        holder.beat(driver.services.database)
    assert [(row["error"] or {}).get("code") for row in driver.ledger(job_id)] == [None, "canceled", "canceled"]
    assert driver.job(job_id).status == "canceled"
    driver.check_order(job_id)


def test_a_reply_after_a_cancel_is_recorded_and_changes_no_job(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two"], evaluate=[Reply(score=0.2, is_held=True)])
    job_id = driver.submit(**OVERLAP)
    with working(driver, job_id):
        wait_until(lambda: (2, "ok") in generated(driver, job_id), what="the speculative reply")
        cancel(driver.services, job_id)
        model_server.release()
    driver.check_order(job_id)
    assert driver.call_statuses(job_id) == ["ok"] * 3
    assert [each.answer for each in driver.iterations(job_id)] == ["one"]


def test_the_budget_covers_both_calls_or_only_the_evaluation(driver: Driver, model_server: ModelServer):
    options: dict[str, Any] = {**OVERLAP, "evaluator_sampling": {"max_output_tokens": 3000}}
    model_server.script(generate=["one", "two"], evaluate=[0.2, 0.9])
    generation, evaluation = driver.ledger(driver.run_new(**options, limits={"max_tokens": 50_000}).id)[:2]
    worst = len(to_json(evaluation["request"])) // 2 + 1 + 3000
    needed = generation["input_tokens"] + generation["output_tokens"] + worst
    for room, has_feedback in ((10, True), (10_000, False)):
        # The aborted call of the job before may take the first reply, if the server reads it late
        model_server.script(generate=["one", "two", "three", "four"], evaluate=[0.2, 0.9])
        job = driver.run_new(**options, limits={"max_tokens": needed + room})
        assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [0.2, 0.9])
        assert bool(driver.iterations(job.id)[1].feedback_given) is has_feedback


def test_the_same_answer_again_stops_the_loop_only_if_it_had_the_feedback(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "one", "two"], evaluate=[0.2, 0.9])
    job = driver.run_new(**OVERLAP)
    assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [0.2, 0.2, 0.9])
    assert driver.iterations(job.id)[2].feedback_given
    model_server.script(generate=["one"], evaluate=[0.2])
    job = driver.run_new(**OVERLAP, iter_max=5)
    assert (job.stop_reason, driver.scores(job.id)) == ("unchanged", [0.2, 0.2, 0.2])


def test_a_seed_differs_for_an_answer_without_new_feedback(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.2, 0.9])
    driver.run_new(**OVERLAP, sampling={"seed": 7}, cache="use")
    assert [entry.body["seed"] for entry in model_server.requests("generate")][:2] == [7, 6]


def test_the_reply_cache_gives_no_answer_twice(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.2, 0.9])
    driver.run_new(**OVERLAP, cache="use", iter_max=2)
    assert len(model_server.requests("generate")) == 2
    again = driver.run_new(**OVERLAP, cache="use", iter_max=2)
    assert len(model_server.requests("generate")) == 2
    assert [each.answer for each in driver.iterations(again.id)] == ["draft 1", "draft 2"]


def test_candidates_schemas_and_audits_go_together_with_it(driver: Driver, model_server: ModelServer):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    model_server.script(
        generate=['{"a": 1}', '{"a": 2}', "none", '{"a": 3}', '{"a": 4}'], evaluate=[0.2, 0.3, 0.9, 0.8, 0.7]
    )
    job = driver.run_new(candidates=2, answer_schema=schema, evaluation={"when": "overlap", "audit": "openai:auditor"})
    assert job.stop_reason == "accepted"
    assert [(each.number, each.candidate) for each in driver.iterations(job.id)][:4] == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_verdict_by_code_is_known_at_once_so_nothing_is_speculated(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two"])
    rubric = [{"id": "two", "text": "Says two.", "kind": "check", "check": {"kind": "contains", "value": "two"}}]
    job = driver.run_new(**OVERLAP, eval_crit=None, rubric=rubric)
    assert job.stop_reason == "accepted"
    assert driver.iterations(job.id)[1].feedback_given


def test_only_jobs_that_generate_can_overlap(driver: Driver):
    with pytest.raises(ValueError, match="is for jobs that generate an answer"):
        EvaluateAnswer.model_validate({"instruct": "T", "eval_crit": "C", "answer": "A", **OVERLAP})
    job = driver.run_new()
    with pytest.raises(Invalid, match=r"leave evaluation.when out"):
        rescore(driver.services, job.id, RescoreJob.model_validate(OVERLAP))
