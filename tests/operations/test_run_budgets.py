"""The budget of a run: what counts against it, what is said when it is used up, and how it is raised."""

from collections.abc import Callable
from typing import Any

import pytest

from redraft.operations.budgets import spent_of_run
from redraft.operations.runs import Run
from redraft.settings import ModelPrice
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver
from tests.operations.test_runs import DEFAULTS, rows, start, work_off

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
