"""Budgets: checked before each call with its worst case, never overrun, and the best answer so far is returned."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from redraft.domain.jobs.requests import ContinueJob, Limits
from redraft.errors import Invalid
from redraft.operations.jobs.lifecycle import continue_job
from redraft.settings import ModelPrice
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver

PRICE = ModelPrice(input=1.0, output=10.0)
MakeDriver = Callable[..., Driver]


@pytest.fixture
def priced(make_driver: MakeDriver) -> Driver:
    return make_driver(prices={"openai:writer": PRICE, "openai:judge": PRICE})


def usage(tokens: int) -> dict[str, int]:
    return {"input": tokens // 2, "output": tokens - tokens // 2}


def drafts(tokens: int) -> list[Reply]:
    return [Reply(f"draft {number}", usage=usage(tokens)) for number in range(1, 11)]


def test_without_a_budget_no_limit_is_sent(driver: Driver, model_server: ModelServer):
    driver.run_new()
    (asked,) = model_server.requests("generate")
    assert not {"max_tokens", "max_completion_tokens"} & asked.body.keys()


@pytest.mark.parametrize("in_one_go", [True, False])
def test_a_job_stops_before_the_call_that_could_cost_too_much(
    driver: Driver, model_server: ModelServer, *, in_one_go: bool
):
    model_server.script(evaluate=[Reply(score=0.4, usage=usage(1500))], generate=drafts(1500))
    job_id = driver.submit(limits={"max_tokens": 9000}, iter_max=10, stop={"plateau_patience": 0})
    if in_one_go:
        driver.go_on(job_id)
    job = driver.run(job_id)
    assert job.result is not None
    assert (job.status, job.stop_reason) == ("succeeded", "budget_exhausted")
    assert job.result["final_answer"] == "draft 1"
    assert job.usage.input_tokens + job.usage.output_tokens <= 9000
    assert job.error is not None
    assert job.error["code"] == "budget_exhausted"
    assert "of 9000 tokens" in job.error["detail"]


def test_an_answer_gets_as_much_room_as_the_budget_leaves(driver: Driver, model_server: ModelServer):
    driver.run_new(limits={"max_tokens": 6000})
    (asked,) = model_server.requests("generate")
    limit = asked.body.get("max_tokens") or asked.body["max_completion_tokens"]
    assert 256 <= limit < 6000


def test_a_limit_that_the_user_set_is_a_bound_and_not_a_wish(driver: Driver, model_server: ModelServer):
    driver.run_new(limits={"max_tokens": 100_000}, sampling={"max_output_tokens": 77})
    (asked,) = model_server.requests("generate")
    assert (asked.body.get("max_tokens") or asked.body["max_completion_tokens"]) == 77


def test_a_budget_too_small_for_any_call_makes_none(driver: Driver, model_server: ModelServer):
    job = driver.run_new(limits={"max_tokens": 50})
    assert (job.status, job.stop_reason, job.result) == ("failed", "budget_exhausted", None)
    assert model_server.requests() == []


def test_candidates_share_the_budget(driver: Driver, model_server: ModelServer):
    driver.run_new(limits={"max_tokens": 30_000}, candidates=4)
    for asked in model_server.requests("generate"):
        limit = asked.body.get("max_tokens") or asked.body["max_completion_tokens"]
        assert limit * 4 < 30_000


def test_money_is_counted_by_the_models_price(priced: Driver, model_server: ModelServer):
    model_server.script(generate=drafts(400), evaluate=[Reply(score=0.4, usage=usage(400))])
    job = priced.run_new(limits={"max_cost_usd": 0.02}, iter_max=10, stop={"plateau_patience": 0})
    assert job.stop_reason == "budget_exhausted"
    assert job.usage.cost_usd is not None
    assert 0 < float(job.usage.cost_usd) <= 0.02
    assert "USD" in (job.error or {})["detail"]


def test_a_budget_in_money_needs_a_price(driver: Driver):
    with pytest.raises(Invalid) as caught:
        driver.submit(limits={"max_cost_usd": 1})
    (error,) = caught.value.errors
    assert (error.pointer, error.code) == ("/limits/max_cost_usd", "unpriced_model")
    assert "REDRAFT_PRICES" in error.detail


def test_a_job_goes_on_with_a_larger_budget(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply("draft", usage=usage(3000))], evaluate=[Reply(score=0.9, usage=usage(100))])
    job_id = driver.submit(limits={"max_tokens": 3500})
    assert driver.run(job_id).stop_reason == "budget_exhausted"
    continue_job(driver.services, job_id, ContinueJob(limits=Limits(max_tokens=100_000)))
    assert driver.run(job_id).stop_reason == "accepted"


def test_a_longer_deadline_ends_no_budget(driver: Driver, model_server: ModelServer):
    job_id = driver.submit(limits={"max_tokens": 50})
    assert driver.run(job_id).stop_reason == "budget_exhausted"
    continue_job(driver.services, job_id, ContinueJob(limits=Limits(deadline_s=900)))
    assert driver.row(job_id).request["limits"] == {"deadline_s": 900, "max_cost_usd": None, "max_tokens": 50}
    assert driver.run(job_id).stop_reason == "budget_exhausted"


@pytest.mark.parametrize("limits", [{"max_tokens": 0}, {"max_cost_usd": 0}, {"max_cost_usd": -1}, {"max_tokens": 1.5}])
def test_a_budget_is_a_positive_number(limits: dict[str, float]):
    with pytest.raises(ValidationError):
        Limits.model_validate(limits)


def obedient(text: str) -> Callable[[Any], Reply]:
    """A provider that uses up exactly the output it is allowed, and says so."""

    def reply(asked: Any) -> Reply:
        limit = asked.body.get("max_tokens") or asked.body["max_completion_tokens"]
        words = text if asked.role == "generate" else "no verdict"
        return Reply(words, usage={"input": 100, "output": limit})

    return reply


@pytest.mark.parametrize("candidates", [1, 4])
@pytest.mark.parametrize("max_tokens", [3000, 9000, 40_000])
def test_second_askings_are_within_the_budget_too(
    driver: Driver, model_server: ModelServer, candidates: int, max_tokens: int
):
    schema = {"type": "object", "required": ["name"]}
    model_server.respond(obedient("{}"))
    job = driver.run_new(
        limits={"max_tokens": max_tokens}, candidates=candidates, answer_schema=schema, stop={"plateau_patience": 0}
    )
    assert 0 < job.usage.input_tokens + job.usage.output_tokens <= max_tokens


@pytest.mark.parametrize("candidates", [1, 8])
def test_second_verdicts_are_within_the_budget_too(driver: Driver, model_server: ModelServer, candidates: int):
    model_server.respond(obedient("draft"))
    job = driver.run_new(limits={"max_tokens": 60_000}, candidates=candidates)
    assert 0 < job.usage.input_tokens + job.usage.output_tokens <= 60_000


def test_calls_that_may_have_cost_count_as_if_they_had(make_driver: MakeDriver, model_server: ModelServer):
    driver = make_driver(retry_wait_s=0.01)
    model_server.script(generate=[Reply(fault="cut_body")])
    job = driver.run_new(limits={"max_tokens": 3000}, sampling={"max_output_tokens": 1000}, instruct="T" * 1000)
    assert job.stop_reason == "budget_exhausted"
    assert len(model_server.requests()) == 2


@pytest.mark.parametrize(("price", "cost"), [(0, "0"), (1, None)])
def test_a_call_that_failed_without_usage_costs_nothing_where_the_model_is_free(
    make_driver: MakeDriver, model_server: ModelServer, price: float, cost: str | None
):
    prices = dict.fromkeys(("openai:writer", "openai:judge"), ModelPrice(input=price, output=price))
    model_server.script(generate=[Reply(fault="cut_body")])
    job = make_driver(prices=prices).run_new()
    assert job.usage.cost_usd == cost
