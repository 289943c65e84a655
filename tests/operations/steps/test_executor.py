"""One worker that goes on with its job: what holds for single steps holds for a row of them."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.jobs.lifecycle import cancel, continue_job
from redraft.operations.steps.leases import LeaseHolder
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver, Killed

Interrupted = Callable[[Callable[[], None]], Driver]


def at_call(number: int, happening: Callable[[], None]) -> Callable[[], None]:
    """Let something happen during one of the calls only."""
    calls = iter(range(1, 100))

    def happen() -> None:
        if next(calls) == number:
            happening()

    return happen


def killed() -> None:
    raise Killed


def test_a_worker_does_a_whole_job_and_tells_the_same_as_one_that_is_rung_for_each_step(
    driver: Driver, model_server: ModelServer
):
    model_server.script(evaluate=[0.4, 0.9, 0.4, 0.9])
    in_one_go, step_by_step = driver.submit(), driver.submit()
    driver.go_on(in_one_go)
    driver.run(step_by_step)
    driver.check_order(in_one_go)

    assert driver.job(in_one_go).stop_reason == "accepted"
    assert driver.event_types(in_one_go) == driver.event_types(step_by_step)
    assert driver.scores(in_one_go) == driver.scores(step_by_step) == [0.4, 0.9]
    one, other = driver.row(in_one_go), driver.row(step_by_step)
    for name in (
        "step",
        "step_no",
        "iteration",
        "calls",
        "output_tokens",
        "event_seq",
        "best_iteration",
        "lost_leases",
    ):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.both_databases
@pytest.mark.parametrize(("sources", "count"), [([], 0), ([{"content": "A word.", "relevance_score": 0.5}], 1)])
def test_of_a_job_only_an_end_with_an_observation_needs_a_transaction(
    driver: Driver, model_server: ModelServer, sources: list[dict[str, Any]], count: int
):
    database = driver.services.database
    if database.is_sqlite:
        pytest.skip("SQLite begins a transaction for each step")
    begun: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        begun.extend([statement] if statement == "BEGIN" else [])

    model_server.script(generate=["One word [Source 1].", "A word [Source 1]."] * 2, evaluate=[0.4, 0.9] * 2)
    # The first steps of a process store the profile version, in transactions of their own
    driver.run_new(sources=sources)
    job_id = driver.submit(sources=sources)
    event.listen(database.engine, "before_cursor_execute", note)
    driver.go_on(job_id)
    assert len(begun) == count
    assert driver.job(job_id).stop_reason == "accepted"


@pytest.mark.both_databases
def test_while_it_goes_on_the_lease_is_its_own_and_each_step_has_a_token_of_its_own(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    model_server.script(evaluate=[0.4, 0.9])
    holder, seen = LeaseHolder(driver.services.settings), []

    def look() -> None:
        row = driver.row(job_id)
        assert row.lease_owner == holder.owner
        assert row.lease_expires_at is not None
        assert holder.may_call(job_id, row.lease_token)
        seen.append((row.step, row.step_no, row.step_claims, row.lease_token))
        driver.step(job_id)

    job_id = driver.submit()
    interrupted(look).go_on(job_id, holder=holder)
    assert seen == [("generate", 1, 1, 1), ("evaluate", 2, 1, 2), ("generate", 3, 1, 3), ("evaluate", 4, 1, 4)]
    assert len(model_server.requests()) == 4, "nobody else could take a step"
    assert holder.in_flight == 0


@pytest.mark.parametrize("dies_at", [1, pytest.param(2, marks=pytest.mark.both_databases), 3, 4])
def test_a_worker_that_dies_on_its_way_costs_the_call_in_flight_only(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer, dies_at: int
):
    model_server.script(evaluate=[0.4, 0.9, 0.9])
    job_id = driver.submit()
    with pytest.raises(Killed):
        interrupted(at_call(dies_at, killed)).go_on(job_id)
    statuses = driver.call_statuses(job_id)
    assert statuses == ["ok"] * (dies_at - 1) + ["started"]

    driver.expire_lease(job_id)
    driver.go_on(job_id)
    driver.check_order(job_id)
    assert driver.job(job_id).stop_reason == "accepted"
    assert driver.call_statuses(job_id).count("unknown") == 1
    assert [call.status for call in driver.calls(job_id)].count("succeeded") == len(model_server.requests()) - 1


# Case D07
@pytest.mark.parametrize("canceled_at", [1, pytest.param(2, marks=pytest.mark.both_databases), 3])
def test_a_cancel_on_the_way_ends_it_there(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer, canceled_at: int
):
    model_server.script(evaluate=[0.4, 0.9])
    job_id = driver.submit()
    interrupted(at_call(canceled_at, lambda: cancel(driver.services, job_id))).go_on(job_id)
    assert driver.job(job_id).stop_reason == "canceled"
    assert driver.call_statuses(job_id) == ["ok"] * canceled_at
    assert len(model_server.requests()) == canceled_at
    driver.check_order(job_id)


def test_a_closing_worker_ends_after_its_step_and_rings_for_the_next(driver: Driver, model_server: ModelServer):
    job_id = driver.submit()
    answers = iter([True, False])
    driver.go_on(job_id, lambda: next(answers))
    row = driver.row(job_id)
    assert (row.step, row.step_no, row.lease_owner) == ("generate", 3, None) or row.finished_at
    assert len(model_server.requests()) == 2
    assert driver.run(job_id).stop_reason == "accepted"


@pytest.mark.both_databases
def test_a_failure_that_may_pass_puts_the_step_off_and_the_worker_is_free(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["draft"], evaluate=[Reply(status=503), 0.9])
    job_id = driver.submit()
    driver.go_on(job_id)
    row = driver.row(job_id)
    assert (row.status, row.step, row.step_attempt, row.lease_owner) == ("running", "evaluate", 1, None)
    assert driver.call_statuses(job_id) == ["ok", "error"]

    driver.set_back(job_id, available_at=-1.0)
    driver.go_on(job_id)
    assert driver.job(job_id).stop_reason == "accepted"
    assert len(model_server.requests("generate")) == 1
    driver.check_order(job_id)


def test_a_passed_deadline_ends_the_job_before_its_next_call(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply("late draft", latency_s=1.2)])
    job_id = driver.submit(limits={"deadline_s": 1})
    driver.go_on(job_id)
    job = driver.run(job_id)
    assert job.stop_reason == "deadline_exceeded"
    assert len(model_server.requests("evaluate")) == 0


# A reply that came after a cancel, and the continuation


def canceled_with_a_late_reply(driver: Driver, interrupted: Interrupted, model_server: ModelServer) -> str:
    model_server.script(generate=["late", "new"], evaluate=[0.9])
    job_id = driver.submit()
    interrupted(lambda: cancel(driver.services, job_id)).step(job_id)
    assert driver.call_statuses(job_id) == ["ok"]
    return job_id


def test_a_late_reply_serves_a_continuation_that_asks_the_same(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    job_id = canceled_with_a_late_reply(driver, interrupted, model_server)
    continue_job(driver.services, job_id, ContinueJob())
    driver.go_on(job_id)
    driver.run(job_id)
    assert [each.answer for each in driver.iterations(job_id)] == ["late"]
    assert len(model_server.requests("generate")) == 1


def test_marks_for_the_cache_of_a_provider_make_no_other_question(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    model_server.script(generate=["late", "new"], evaluate=[0.9])
    # The prompt of a single iteration has no mark, and that of several has one
    job_id = driver.submit(model="anthropic:writer", instruct="Explain it. " * 500, iter_max=1)
    interrupted(lambda: cancel(driver.services, job_id)).step(job_id)
    continue_job(driver.services, job_id, ContinueJob(iter_max=2))
    driver.go_on(job_id)
    driver.run(job_id)
    assert [each.answer for each in driver.iterations(job_id)] == ["late"]
    assert len(model_server.requests("generate")) == 1


@pytest.mark.parametrize(
    ("change", "model", "feedback"),
    [
        ({"guidance": "Say it in French."}, "openai:writer", "Say it in French."),
        ({"model": "openai:other"}, "openai:other", None),
    ],
)
def test_a_late_reply_to_another_question_is_set_aside(
    driver: Driver,
    interrupted: Interrupted,
    model_server: ModelServer,
    change: dict[str, str],
    model: str,
    feedback: str | None,
):
    job_id = canceled_with_a_late_reply(driver, interrupted, model_server)
    continue_job(driver.services, job_id, ContinueJob.model_validate(change))
    driver.go_on(job_id)
    job = driver.run(job_id)

    (iteration,) = driver.iterations(job_id)
    assert (iteration.answer, iteration.generator_model) == ("new", model)
    assert driver.call_statuses(job_id) == ["dup", "ok", "ok"]
    assert driver.ledger(job_id)[1]["model"] == model
    if feedback:
        assert feedback in model_server.requests("generate")[1].prompt
    assert job.usage.calls == 3
