"""The budget of a run: what counts against it, what is said when it is used up, and how it is raised."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from redraft.domain.bulk.run_requests import ResumeRun
from redraft.errors import Conflict, Invalid
from redraft.operations.bulk import run_results, runs, scheduler
from redraft.operations.bulk.run_resources import Run
from redraft.operations.calls.budgets import spent_of_run
from redraft.settings import ModelPrice
from redraft.storage.bulk import runs as stored_runs
from redraft.storage.engine import bulk_tables
from tests.model_server import ModelServer, Reply
from tests.operations.bulk.test_runs import DEFAULTS, now, rows, start, under_way, work_off
from tests.operations.driving import Driver

PRICE = ModelPrice(input=1.0, output=10.0)
USED = {"input": 100, "output": 250}
FEW = {**DEFAULTS, "sampling": {"max_output_tokens": 500}}


@pytest.fixture
def priced(make_driver: Callable[..., Driver]) -> Driver:
    prices = {"openai:writer": PRICE, "openai:judge": PRICE}
    return make_driver(prices=prices, evaluator_max_output_tokens=500)


def spent(driver: Driver, run: Run) -> int:
    with driver.services.database.read() as connection:
        return spent_of_run(connection, driver.services, run.id)


@pytest.mark.parametrize("fault", ["reset", "cut_body", "garbage"])
def test_a_call_of_unknown_outcome_counts_with_its_worst_case(priced: Driver, model_server: ModelServer, fault: Any):
    model_server.script(generate=[Reply(fault=fault), Reply("a", usage=USED)], evaluate=[0.9])
    run = start(priced, rows(1), defaults=FEW, max_cost_usd=0.006)
    ended = work_off(priced, run)
    assert (ended.stop_reason, len(model_server.requests())) == ("budget_exhausted", 1)
    assert ended.usage.cost_usd is None
    assert 5_000_000 < spent(priced, run) < 6_000_000


def test_calls_of_unknown_outcome_let_no_further_item_begin(priced: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(fault="reset")] * 9)
    run = work_off(priced, start(priced, rows(4), defaults=FEW, max_cost_usd=0.006, max_in_flight=1))
    assert (run.counts.canceled, len(model_server.requests())) == (3, 1)


def test_a_call_that_was_refused_costs_nothing(priced: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(status=401)])
    run = work_off(priced, start(priced, rows(1), defaults=FEW, max_cost_usd=1))
    assert (run.counts.failed, spent(priced, run)) == (1, 0)


def test_a_budget_that_is_too_small_for_a_single_call_says_what_one_costs_and_is_raised(
    priced: Driver, model_server: ModelServer
):
    model_server.script(generate=[Reply("a", usage=USED)], evaluate=[Reply(score=0.9, usage=USED)])
    run = work_off(priced, start(priced, rows(3), defaults=FEW, max_cost_usd=0.0001, max_in_flight=1))
    assert (run.stop_reason, run.counts.failed, run.counts.canceled) == ("budget_exhausted", 1, 2)
    failed = next(run_results.stream_results(priced.services, run.id))
    assert "0.000100 USD are left of its run's budget" in failed["error"]
    assert "It could cost up to 0.00" in failed["error"]
    with pytest.raises(Conflict) as caught:
        runs.resume_run(priced.services, run.id, ResumeRun(retry="errors"))
    assert caught.value.code == "run_budget_exhausted"
    assert "$0 of $0.0001 are spent or may have been, and a single call can cost up to $0.0" in caught.value.message
    raised = runs.resume_run(priced.services, run.id, ResumeRun(max_cost_usd=1))
    assert (raised.status, raised.max_cost_usd, raised.counts.failed) == ("running", "1", 0)
    ended = work_off(priced, run)
    assert (ended.stop_reason, ended.counts.accepted) == ("finished", 3)


def test_what_a_budget_stopped_goes_on_and_what_has_ended_is_kept(priced: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply("a", usage=USED)], evaluate=[Reply(score=0.9, usage=USED)])
    run = work_off(priced, start(priced, rows(9), defaults=FEW, max_cost_usd=0.03, max_in_flight=2))
    assert run.stop_reason == "budget_exhausted"
    asked, kept = len(model_server.requests()), run.counts.accepted
    runs.resume_run(priced.services, run.id, ResumeRun(max_cost_usd=1))
    ended = work_off(priced, run)
    assert (ended.stop_reason, ended.counts.accepted) == ("finished", 9)
    assert len(model_server.requests()) <= asked + 2 * (9 - kept)


def test_given_answers_that_a_budget_stopped_are_judged_once_it_is_raised(priced: Driver, model_server: ModelServer):
    model_server.script(evaluate=[Reply(score=0.9, usage=USED)])
    run = work_off(priced, start(priced, rows(2, answer="GIVEN"), max_cost_usd=0.0001))
    assert run.stop_reason == "budget_exhausted"
    runs.resume_run(priced.services, run.id, ResumeRun(max_cost_usd=1))
    assert (work_off(priced, run).stop_reason, now(priced, run).counts.accepted) == ("finished", 2)


def test_an_item_that_its_own_budget_stopped_stays_as_it_is(priced: Driver, model_server: ModelServer):
    small = {**FEW, "limits": {"max_cost_usd": 0.0001}}
    run = work_off(priced, start(priced, rows(2), defaults=small, max_cost_usd=1))
    assert (run.stop_reason, run.counts.failed) == ("finished", 2)
    assert runs.resume_run(priced.services, run.id, ResumeRun(max_cost_usd=2)).status == "succeeded"


@pytest.mark.parametrize("budget", [None, 0.02])
def test_a_budget_is_only_raised(priced: Driver, model_server: ModelServer, budget: float | None):
    run = start(priced, rows(1), max_cost_usd=budget)
    with pytest.raises(Invalid) as caught:
        runs.resume_run(priced.services, run.id, ResumeRun(max_cost_usd=0.02))
    assert (caught.value.code, now(priced, run).status) == ("budget_not_raised", "running")
    assert under_way(priced, run)
    scheduler.schedule_all(priced.services)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_locked_run_is_nobody_elses_until_the_unit_of_work_ends(driver: Driver):
    run_id = start(driver, rows(1)).id
    free = select(bulk_tables.runs.c.id).with_for_update(skip_locked=True)
    with driver.services.database.write() as connection, driver.services.database.engine.connect() as other:
        assert other.scalars(free).all() == [run_id]
        other.rollback()
        assert stored_runs.lock(connection, run_id)
        assert other.scalars(free).all() == []


def test_an_invalid_row_is_stored_also_when_the_budget_allows_no_further_job(priced: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    names = ("x", "x", "y")
    lines = (json.dumps({"custom_id": f"{n}", "instruct": "Hi {{ x }}", "vars": {v: "1"}}) for n, v in enumerate(names))
    # Enough for one call at once
    run = start(priced, "\n".join(lines).encode(), defaults=FEW, max_cost_usd=0.006)
    counts = now(priced, run).counts
    assert (counts.running, counts.queued, counts.invalid) == (1, 1, 1)
    assert work_off(priced, run).status == "succeeded"
