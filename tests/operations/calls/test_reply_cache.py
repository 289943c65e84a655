"""`cache: use`: an identical earlier call's reply is taken, told as such, and costs nothing."""

from typing import Any

import pytest

from redraft.operations.jobs.lifecycle import delete
from tests.model_server import ModelServer
from tests.operations.driving import Driver

USE = {"cache": "use"}


def test_the_same_job_again_calls_nobody(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    first = driver.run_new(**USE)
    made = len(model_server.requests())
    again = driver.run_new(**USE)

    assert len(model_server.requests()) == made == 4
    assert again.result
    assert first.result
    assert again.result["final_answer"] == first.result["final_answer"]
    assert (again.result["input_tokens"], again.result["output_tokens"]) == (0, 0)
    ledger = driver.calls(again.id)
    assert [call.cached for call in ledger] == [True] * 4
    assert {call.cost_usd for call in ledger} == {"0"} or all(float(call.cost_usd or 0) == 0 for call in ledger)
    assert (again.usage.calls, again.usage.input_tokens, again.usage.output_tokens) == (4, 0, 0)
    assert [call.response for call in ledger] == [call.response for call in driver.calls(first.id)]


@pytest.mark.parametrize(
    "other",
    [
        {"cache": "off"},
        {**USE, "instruct": "Another task"},
        {**USE, "model": "openai:other"},
        {**USE, "sampling": {"temperature": 0.5}},
    ],
)
def test_another_call_is_made(driver: Driver, model_server: ModelServer, other: dict[str, Any]):
    driver.run_new(**USE)
    made = len(model_server.requests("generate"))
    job = driver.run_new(**other)
    assert len(model_server.requests("generate")) == made + 1
    assert not driver.calls(job.id)[0].cached


def test_a_job_without_cache_leaves_nothing_to_others(driver: Driver, model_server: ModelServer):
    driver.run_new(cache="off")
    driver.run_new(**USE)
    assert len(model_server.requests("generate")) == 2


def test_candidates_are_no_copies_of_each_other(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two", "three"], evaluate=[0.9])
    job = driver.run_new(candidates=3, **USE)
    assert len({each.answer for each in driver.iterations(job.id)}) == 3


def test_a_deleted_job_leaves_no_reply_behind(driver: Driver, model_server: ModelServer):
    delete(driver.services, driver.run_new(**USE).id)
    driver.run_new(**USE)
    assert len(model_server.requests("generate")) == 2


def test_a_failure_is_not_kept(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[{"status": 401, "raw": {"error": {"message": "no"}}}, "fine"], evaluate=[0.9])
    assert driver.run_new(**USE).status == "failed"
    assert driver.run_new(**USE).status == "succeeded"


def test_an_answer_that_does_not_fit_is_not_kept(driver: Driver, model_server: ModelServer):
    schema = {"type": "object", "required": ["name"]}
    model_server.script(generate=["{}", "{}", '{"name": "Bern"}'], evaluate=[0.9])
    assert driver.run_new(iter_max=1, answer_schema=schema, **USE).stop_reason == "iteration_limit"
    assert driver.run_new(iter_max=1, answer_schema=schema, **USE).stop_reason == "accepted"
