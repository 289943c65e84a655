"""What people do to jobs: submit (once), cancel, continue, delete, list."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text, update

from redraft.domain.jobs.requests import ContinueJob, EvaluateAnswer, GenerateAnswer
from redraft.errors import Conflict, Invalid, NotFound
from redraft.operations.jobs import lifecycle, queries, references
from redraft.operations.jobs.cost_estimates import preview
from redraft.operations.jobs.submit import Idempotency, submit
from redraft.operations.steps.sweeper import sweep
from redraft.storage.engine.tables import iterations
from redraft.storage.jobs import transitions
from redraft.storage.jobs.job_filters import JobFilter
from tests.model_server import ModelServer, Reply
from tests.operations.driving import LEAST, Driver
from tests.operations.steps.test_the_loop import verdict
from tests.support.waiting import patient, wait_until

MISSING = "job_" + "0" * 32


def go_on(driver: Driver, job_id: str, **values: Any) -> None:
    lifecycle.continue_job(driver.services, job_id, ContinueJob.model_validate(values))


@pytest.mark.both_databases
def test_twenty_twins_at_once_are_one_job(driver: Driver):
    request = GenerateAnswer.model_validate(LEAST)
    barrier, found = threading.Barrier(20), []

    def post() -> None:
        barrier.wait()
        found.append(submit(driver.services, request, Idempotency("me", "key")))

    threads = [threading.Thread(target=post) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    assert len({each.job.id for each in found}) == 1
    assert [each.is_replay for each in found].count(False) == 1
    assert driver.event_types(found[0].job.id) == ["job.queued"]
    assert len(queries.list_jobs(driver.services, JobFilter())[0]) == 1


def test_a_key_with_another_body_is_refused_and_with_another_scope_it_is_another_job(driver: Driver):
    def post(scope: str, **values: Any) -> Any:
        request = GenerateAnswer.model_validate({**LEAST, **values})
        return submit(driver.services, request, Idempotency(scope, "key"))

    first = post("me")
    assert post("me", iter_max=3, score_threshold=0.8).job.id == first.job.id
    with pytest.raises(Invalid) as caught:
        post("me", iter_max=2)
    assert caught.value.code == "idempotency_key_reused"
    other = post("you")
    assert other.job.id != first.job.id
    assert not other.is_replay


def test_a_replay_after_the_job_has_ended_is_the_same_job(driver: Driver, model_server: ModelServer):
    request, key = GenerateAnswer.model_validate(LEAST), Idempotency("me", "key")
    first = submit(driver.services, request, key)
    driver.run(first.job.id)
    again = submit(driver.services, request, key)
    assert (again.is_replay, again.job.id, again.job.status) == (True, first.job.id, "succeeded")
    assert len(model_server.requests()) == 2


@pytest.mark.parametrize(
    ("values", "pointer"),
    [
        ({"model": "llama-3"}, "/model"),
        ({"model": ["openai:a", "nobody:b"]}, "/model/1"),
        ({"evaluator_model": "nobody:b"}, "/evaluator_model"),
    ],
)
def test_an_unknown_model_is_refused_at_its_place_and_nothing_is_stored(
    driver: Driver, values: dict[str, Any], pointer: str
):
    with pytest.raises(Invalid) as caught:
        driver.submit(**values)
    assert [(error.pointer, error.code) for error in caught.value.errors] == [(pointer, "unknown_model")]
    assert queries.list_jobs(driver.services, JobFilter())[0] == []


def test_an_estimate_is_the_normal_form_and_bounds_the_calls_without_storing_anything(driver: Driver):
    found = preview(driver.services, GenerateAnswer.model_validate({**LEAST, "iter_max": 2, "candidates": 3}))
    assert (found.request["model"], found.request["evaluator_model"]) == (["openai:writer"], "openai:judge")
    assert found.calls_max == 2 * 3 * 3
    judged = preview(driver.services, EvaluateAnswer.model_validate({**LEAST, "answer": "A"}))
    assert judged.calls_max == 2
    assert queries.list_jobs(driver.services, JobFilter())[0] == []


# Case D07
def test_a_queued_job_that_is_canceled_never_calls_a_model(driver: Driver, model_server: ModelServer):
    job_id = driver.submit()
    job, is_ended_now = lifecycle.cancel(driver.services, job_id)
    assert (job.status, job.stop_reason, is_ended_now) == ("canceled", "canceled", True)
    driver.step(job_id)
    assert sweep(driver.services).undelivered == []
    assert model_server.requests() == []
    driver.check_order(job_id)


# Case D07
def test_canceling_twice_or_after_the_end_changes_nothing(driver: Driver):
    """The case allows 409 for a job that has ended; the contract answers 200 with the job as it is."""
    job_id = driver.submit()
    lifecycle.cancel(driver.services, job_id)
    before = driver.row(job_id)
    _, is_ended_now = lifecycle.cancel(driver.services, job_id)
    assert not is_ended_now
    assert driver.row(job_id) == before

    done = driver.run_new()
    _, is_ended_now = lifecycle.cancel(driver.services, done.id)
    assert not is_ended_now
    assert driver.job(done.id) == done


def test_a_canceled_job_gives_the_best_answer_it_had(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.4])
    job_id = driver.submit()
    driver.step(job_id)
    driver.step(job_id)
    lifecycle.cancel(driver.services, job_id)
    job = driver.job(job_id)
    assert job.result is not None
    assert (job.result["final_answer"], job.result["final_score"], job.result["success"]) == ("draft 1", 0.4, False)


@pytest.mark.parametrize("act", [lifecycle.cancel, lifecycle.delete, queries.get_job, queries.list_calls])
def test_what_does_not_exist_is_not_found(driver: Driver, act: Callable[..., Any]):
    with pytest.raises(NotFound):
        act(driver.services, MISSING)
    with pytest.raises(NotFound):
        go_on(driver, MISSING)


@pytest.mark.both_databases
@pytest.mark.parametrize("end", ["cancel", "deadline"])
def test_a_job_that_ends_while_its_step_is_stored_ends_with_what_the_step_stored(driver: Driver, end: str):
    services = driver.services
    job_id = driver.submit()
    driver.step(job_id)
    driver.set_back(job_id, deadline_at=-60.0)
    work = partial(lifecycle.cancel, services, job_id) if end == "cancel" else partial(sweep, services)
    with ThreadPoolExecutor(1) as thread:
        with services.database.write() as connection:
            transitions.lock(connection, [job_id])
            ending = thread.submit(work)
            if not services.database.is_sqlite:
                wait_until(lambda: _waits_for_a_lock(driver), what="the end that waits")
            stored = update(iterations).where(iterations.c.job_id == job_id).values(answer="what the step stored")
            connection.execute(stored)
        ending.result(patient(30))
    result = driver.job(job_id).result
    assert result is not None
    assert result["final_answer"] == "what the step stored"


def _waits_for_a_lock(driver: Driver) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with driver.services.database.read() as connection:
        return connection.execute(text(query)).scalar_one() > 0


def test_a_continuation_goes_on_behind_the_last_iteration_with_the_best_answer_and_the_guidance(
    driver: Driver, model_server: ModelServer
):
    model_server.script(generate=["one", "two", "three"], evaluate=[verdict(0.6, "FIX-1"), verdict(0.5), 0.9])
    first = driver.run_new(iter_max=2)
    assert (first.stop_reason, first.progress.iter_max) == ("iteration_limit", 2)
    calls_before = first.usage.calls

    go_on(driver, first.id, guidance="MORE DATES", iter_max=3)
    waiting = driver.job(first.id)
    assert (waiting.status, waiting.stop_reason, waiting.result, waiting.finished_at) == ("queued", None, None, None)
    assert (waiting.continuations, waiting.progress.iter_max) == (1, 5)
    assert driver.events(first.id)[-1].type == "job.continued"

    job = driver.run(first.id)
    assert (job.stop_reason, job.usage.calls - calls_before) == ("accepted", 2)
    assert [each.number for each in driver.iterations(job.id)] == [1, 2, 3]
    prompt = model_server.requests("generate")[2].prompt
    assert all(word in prompt for word in ("one", "FIX-1", "MORE DATES"))
    assert job.result is not None
    assert (job.result["final_answer"], job.result["total_iterations"]) == ("three", 3)
    assert "MORE DATES" in (driver.iterations(job.id)[2].feedback_given or "")


def test_every_field_of_a_continuation_takes_effect(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.5, 0.6])
    first = driver.run_new(iter_max=1)
    go_on(
        driver,
        first.id,
        iter_max=2,
        score_threshold=0.55,
        model=["openai:larger", "openai:largest"],
        evaluator_model="anthropic:stern",
        limits={"deadline_s": 77},
    )
    job = driver.run(first.id)

    assert job.stop_reason == "accepted"
    assert job.request["score_threshold"] == 0.55
    assert job.request["limits"]["deadline_s"] == 77
    assert model_server.requests("generate")[1].model == "largest"
    assert model_server.requests("evaluate")[1].model == "stern"
    assert model_server.requests("evaluate")[1].dialect == "anthropic"
    assert job.progress.iter_max == 3


def test_a_continuation_that_says_nothing_has_as_many_rounds_as_the_job_had(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.1, 0.2, 0.3, 0.4])
    first = driver.run_new(iter_max=2)
    go_on(driver, first.id)
    job = driver.run(first.id)
    assert (job.stop_reason, len(driver.iterations(job.id))) == ("iteration_limit", 4)


def test_a_stricter_threshold_goes_on_and_the_higher_score_wins(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.6, 0.8])
    first = driver.run_new(score_threshold=0.5)
    assert first.stop_reason == "accepted"
    go_on(driver, first.id, score_threshold=0.9, iter_max=1)
    job = driver.run(first.id)
    assert job.stop_reason == "iteration_limit"
    assert job.result is not None
    assert (job.result["final_score"], job.result["best_iteration"], job.result["success"]) == (0.8, 2, False)


def test_a_continuation_does_not_stop_at_once_on_the_plateau_it_came_from(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.82, 0.82, 0.82, 0.82, 0.95])
    first = driver.run_new(iter_max=9, score_threshold=0.9)
    assert first.stop_reason == "plateau"
    go_on(driver, first.id)
    job = driver.run(first.id)
    assert (job.stop_reason, len(driver.iterations(job.id))) == ("accepted", 5)


def test_a_failed_and_a_canceled_job_can_be_continued(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(status=401, raw={"error": {"message": "no"}}), "one"], evaluate=[0.9])
    failed = driver.run_new()
    assert failed.status == "failed"
    go_on(driver, failed.id)
    assert driver.run(failed.id).stop_reason == "accepted"

    canceled = driver.submit()
    lifecycle.cancel(driver.services, canceled)
    go_on(driver, canceled)
    assert driver.run(canceled).stop_reason == "accepted"


def test_a_reply_that_came_after_the_cancel_is_not_paid_for_again(
    driver: Driver, interrupted: Callable[..., Driver], model_server: ModelServer
):
    job_id = driver.submit()
    interrupted(lambda: lifecycle.cancel(driver.services, job_id)).step(job_id)
    go_on(driver, job_id)
    job = driver.run(job_id)
    assert job.result is not None
    assert job.result["final_answer"] == "draft 1"
    assert len(model_server.requests("generate")) == 1


def test_a_live_job_is_neither_continued_nor_deleted(driver: Driver):
    job_id = driver.submit()
    driver.step(job_id)
    before = driver.row(job_id)
    with pytest.raises(Conflict):
        go_on(driver, job_id)
    with pytest.raises(Conflict):
        lifecycle.delete(driver.services, job_id)
    assert driver.row(job_id) == before


def test_a_job_that_only_evaluates_is_not_continued(driver: Driver):
    job = driver.run(driver.submit_evaluation("An answer."))
    with pytest.raises(Conflict, match="only evaluates"):
        go_on(driver, job.id)


@pytest.mark.both_databases
def test_of_two_continuations_at_once_one_is_refused(driver: Driver):
    job = driver.run_new()
    barrier, outcomes = threading.Barrier(2), []

    def post() -> None:
        barrier.wait()
        try:
            go_on(driver, job.id)
        except Conflict:
            outcomes.append("refused")
        else:
            outcomes.append("continued")

    threads = [threading.Thread(target=post) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["continued", "refused"]
    assert driver.row(job.id).continuations == 1


def test_a_continuation_of_a_state_that_is_over_is_not_stored(driver: Driver):
    """In between, another one was stored and has ended."""
    job_id = driver.run_new().id
    ready = lifecycle.plan_continuation(driver.services, driver.row(job_id), ContinueJob())
    go_on(driver, job_id)
    driver.run(job_id)
    with driver.services.database.write() as connection:
        assert lifecycle.store_continuation(connection, ready) is None


@pytest.mark.both_databases
def test_a_deleted_job_is_gone_with_all_that_hung_on_it(driver: Driver):
    job, other = driver.run_new(), driver.run_new()
    lifecycle.delete(driver.services, job.id)
    with driver.services.database.read() as connection:
        for table in ("jobs", "iterations", "evaluations", "calls", "events"):
            column = "id" if table == "jobs" else "job_id"
            left = connection.exec_driver_sql(f"SELECT DISTINCT {column} FROM {table}").scalars()
            assert list(left) == [other.id]
    with pytest.raises(NotFound):
        lifecycle.delete(driver.services, job.id)


def test_lists_are_read_page_by_page_with_cursors(driver: Driver):
    ids = [driver.submit(metadata={"n": str(n)}) for n in range(5)]
    seen, cursor = [], None
    while True:
        page, cursor = queries.list_jobs(driver.services, JobFilter(limit=2), cursor)
        seen += [job.id for job in page]
        if cursor is None:
            break
    assert seen == ids[::-1]


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "!!", "MjAyNnxqb2I", "\ud800"])
def test_a_cursor_that_is_not_ours_is_refused(driver: Driver, cursor: str):
    with pytest.raises(Invalid):
        queries.list_jobs(driver.services, JobFilter(), cursor)


@pytest.mark.both_databases
def test_a_job_is_found_by_the_beginning_of_its_id_or_as_the_latest(driver: Driver):
    first, second = driver.submit(), driver.submit()
    assert references.find_job_id(driver.services, second) == second
    assert references.find_job_id(driver.services, second.removeprefix("job_")) == second
    assert references.find_job_id(driver.services, first[:-1]) == first
    assert references.find_job_id(driver.services, "latest") == second
    with pytest.raises(Conflict):
        references.find_job_id(driver.services, "job_")
    for nothing in ("job_f", "%", "zzz", "job_' OR 1=1"):
        with pytest.raises(NotFound):
            references.find_job_id(driver.services, nothing)


# Case D02
@pytest.mark.both_databases
def test_the_sweeper_notifies_again_of_a_step_that_no_worker_took(driver: Driver):
    job_id = driver.submit()
    driver.set_back(job_id, rung_at=0)
    sweep(driver.services)
    assert driver.row(job_id).ring_count == 0, "its worker was notified a moment ago"
    driver.set_back(job_id, rung_at=-60)
    sweep(driver.services)
    assert driver.row(job_id).ring_count == 1


def test_without_a_broker_the_sweeper_hands_the_steps_to_its_caller(make_driver: Callable[..., Driver]):
    driver = make_driver(broker_url="redis+socket:///nowhere/s")
    job_id = driver.submit()
    assert driver.row(job_id).rung_at is None
    (message,) = sweep(driver.services).undelivered
    assert (message.job_id, message.step, message.step_no) == (job_id, "generate", 1)
    assert driver.run(job_id).stop_reason == "accepted"
