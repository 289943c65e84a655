"""Sampling and reasoning of generator and evaluators, in both wire formats."""

from typing import Any

import pytest

from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.jobs import lifecycle
from tests.model_server import ModelServer, Reply, Script
from tests.model_server.scripts import Rule
from tests.operations.driving import Driver

ALL: dict[str, Any] = {"temperature": 0.3, "top_p": 0.5, "seed": 7, "reasoning_effort": "low"}
MODELS = {
    "openai": {"model": "openai:w", "evaluator_model": "openai:j"},
    "anthropic": {"model": "anthropic:w", "evaluator_model": "anthropic:j"},
}


def left_out(job: Any) -> list[str]:
    return sorted(each.message.split(",")[0] for each in job.warnings if each.code == "parameter_not_sent")


@pytest.mark.parametrize("stream", [False, True])
def test_both_roles_have_their_own_parameters(driver: Driver, model_server: ModelServer, *, stream: bool):
    of_evaluator = {**ALL, "temperature": 0, "reasoning_effort": "high", "max_output_tokens": 900}
    job = driver.run_new(**MODELS["openai"], sampling=ALL, evaluator_sampling=of_evaluator, stream=stream)
    assert (job.stop_reason, left_out(job)) == ("accepted", [])
    (written,), (judged,) = model_server.requests("generate"), model_server.requests("evaluate")
    assert {name: written.body[name] for name in ALL} == ALL
    assert {name: judged.body[name] for name in ALL} == {**ALL, "temperature": 0, "reasoning_effort": "high"}
    assert ("max_tokens" in written.body, judged.body["max_tokens"]) == (False, 900)


def test_the_messages_api_gets_thinking_and_no_seed(driver: Driver, model_server: ModelServer):
    job = driver.run_new(**MODELS["anthropic"], sampling=ALL, evaluator_sampling={"reasoning_effort": "none"})
    (written,), (judged,) = model_server.requests("generate"), model_server.requests("evaluate")
    assert (written.body["temperature"], written.body["top_p"]) == (0.3, 0.5)
    assert (written.body["thinking"], written.body["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})
    assert judged.body["thinking"] == {"type": "disabled"}
    assert "format" in judged.body["output_config"]
    assert left_out(job) == ["anthropic:w does not accept seed"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("wire", "quirks", "missing"),
    [
        ("openai", ("no_temperature", "no_top_p", "no_seed", "no_effort"), {*ALL}),
        ("anthropic", ("no_top_p", "no_effort", "no_budget"), {"top_p", "seed", "reasoning_effort"}),
        ("anthropic", ("no_effort",), {"seed"}),
    ],
)
def test_what_a_model_refuses_is_left_out_remembered_and_told(
    driver: Driver, model_server: ModelServer, wire: str, quirks: Any, missing: set[str], *, stream: bool
):
    model_server.play(Script(quirks=quirks))
    given = {"sampling": {**ALL, "max_output_tokens": 8000}, "evaluator_sampling": ALL}
    job = driver.run_new(**MODELS[wire], **given, stream=stream)
    assert job.stop_reason == "accepted"
    wanted = [f"{wire}:{model} does not accept {name}" for model in "jw" for name in sorted(missing)]
    assert left_out(job) == sorted(wanted)
    failed = [call for call in driver.calls(job.id) if call.status == "failed"]
    assert [call.cost_usd for call in failed] == [None] * len(failed)
    again = driver.run_new(**MODELS[wire], **given, stream=stream)
    assert [call.status for call in driver.calls(again.id)] == ["succeeded", "succeeded"]
    assert left_out(again) == left_out(job)
    if quirks == ("no_effort",):
        assert driver.calls(again.id)[0].request["thinking"] == {"type": "enabled", "budget_tokens": 2048}


def test_a_refused_effort_takes_nothing_from_other_efforts(driver: Driver, model_server: ModelServer):
    def answer(asked: Any) -> Reply | None:
        if asked.body.get("reasoning_effort") != "minimal":
            return None
        words = "reasoning_effort must be one of low, medium, high"
        return Reply(status=400, raw={"error": {"message": words, "type": "invalid_request_error"}})

    model_server.respond(answer)
    assert left_out(driver.run_new(sampling={"reasoning_effort": "minimal"}))
    assert not left_out(driver.run_new(sampling={"reasoning_effort": "low"}))
    model_server.respond(None)


@pytest.mark.parametrize("wire", MODELS)
def test_an_evaluator_whose_reasoning_used_up_its_limit_gets_four_times_as_much(
    driver: Driver, model_server: ModelServer, wire: str
):
    cut = {"openai": "length", "anthropic": "max_tokens"}[wire]
    usage = {"input": 10, "output": 500, "reasoning": 500}
    model_server.script(generate=["A"], evaluate=[Reply(text="", finish=cut, usage=usage), 0.9])
    job = driver.run_new(**MODELS[wire], evaluator_sampling={"max_output_tokens": 500}, limits={"max_tokens": 50_000})
    assert job.stop_reason == "accepted"
    assert [entry.body["max_tokens"] for entry in model_server.requests("evaluate")] == [500, 2000]
    calls = driver.calls(job.id)
    assert [(call.type, call.status) for call in calls[1:]] == [("evaluate", "failed"), ("repair", "succeeded")]
    assert calls[1].output_tokens == 500
    assert job.usage.output_tokens == sum(call.output_tokens or 0 for call in calls)


def test_reasoning_that_is_only_in_the_total_counts_as_output(driver: Driver, model_server: ModelServer):
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115}
    usage |= {"completion_tokens_details": {"reasoning_tokens": 100}}
    choice = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}
    model_server.script(generate=[Reply(raw={"object": "chat.completion", "choices": [choice], "usage": usage})])
    call = driver.calls(driver.run_new().id)[0]
    assert (call.output_tokens, call.reasoning_tokens) == (105, 100)


@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_parameter_before_a_transient_failure_ends_no_job(
    driver: Driver, model_server: ModelServer, *, stream: bool
):
    rule = Rule((Reply(status=503, raw={"error": {"message": "Overloaded"}}), "A"), role="generate")
    model_server.play(Script(rules=(rule,), quirks=("no_temperature",)))
    job = driver.run_new(sampling={"temperature": 0.3}, stream=stream)
    assert job.stop_reason == "accepted"
    assert [call.status for call in driver.calls(job.id)] == ["failed", "failed", "succeeded", "succeeded"]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a_continuation_changes_the_sampling_of_the_evaluator(driver: Driver, model_server: ModelServer, dialect: str):
    model_server.script(generate=["one", "two"], evaluate=[0.2, 0.9])
    models = {"model": f"{dialect}:writer", "evaluator_model": f"{dialect}:judge"}
    first = driver.run_new(iter_max=1, evaluator_sampling={"temperature": 0.5, "max_output_tokens": 900}, **models)
    change = ContinueJob.model_validate({"iter_max": 1, "evaluator_sampling": {"temperature": 0.25}})
    lifecycle.continue_job(driver.services, first.id, change)
    driver.run(first.id)
    body = model_server.requests("evaluate")[-1].body
    assert body["temperature"] == 0.25
    assert 900 in {body.get("max_tokens"), body.get("max_completion_tokens")}
    sent = model_server.requests("generate")[-1].body
    assert "temperature" not in sent
