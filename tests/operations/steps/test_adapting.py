"""A provider that refuses a parameter: one more call within the step, all of it in the ledger, learned for later."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.model_server import ModelServer, Reply, Script
from tests.model_server.requests import Asked
from tests.operations.driving import Driver


def test_a_refused_parameter_is_left_out_in_the_same_attempt(driver: Driver, model_server: ModelServer):
    model_server.play(Script(quirks=("no_temperature",)))
    job = driver.run_new(sampling={"temperature": 0.3})
    assert job.stop_reason == "accepted"
    ledger = driver.calls(job.id)
    assert [(call.type, call.status) for call in ledger] == [
        ("generate", "failed"),
        ("generate", "succeeded"),
        ("evaluate", "succeeded"),
    ]
    assert ledger[0].request["temperature"] == 0.3
    assert "temperature" not in ledger[1].request
    assert (job.usage.calls, driver.event_types(job.id).count("step.retrying")) == (3, 0)

    again = driver.run_new(sampling={"temperature": 0.3})
    assert [call.status for call in driver.calls(again.id)] == ["succeeded", "succeeded"]


@pytest.mark.parametrize(
    ("quirks", "failures"),
    [
        (("no_json_schema",), 1),
        (("no_json_schema", "no_json_object"), 2),
        (("no_temperature", "no_system"), 2),
    ],
)
def test_several_refusals_are_met_one_after_the_other(
    driver: Driver, model_server: ModelServer, quirks: tuple[str, ...], failures: int
):
    model_server.play(Script(quirks=quirks))
    job = driver.run_new(sampling={"temperature": 0.3})
    assert job.stop_reason == "accepted"
    assert [call.status for call in driver.calls(job.id)].count("failed") >= failures
    assert all(call.attempt == 1 for call in driver.calls(job.id))
    driver.check_order(job.id)


def test_what_cannot_be_left_out_makes_one_call(driver: Driver, model_server: ModelServer):
    refused = {"status": 400, "raw": {"error": {"message": "Unsupported value: 'messages'", "param": "messages"}}}
    model_server.script(generate=[refused])
    job = driver.run_new()
    assert (job.status, (job.error or {})["code"]) == ("failed", "provider_bad_request")
    assert len(model_server.requests()) == 1


def test_a_refused_schema_of_one_job_takes_nothing_from_the_others(driver: Driver, model_server: ModelServer):
    refused = {
        "status": 400,
        "raw": {"error": {"message": "Invalid schema for response_format 'answer': no", "param": "response_format"}},
    }
    model_server.script(generate=[refused, '{"name": "Bern"}'], evaluate=[0.9])
    job = driver.run_new(
        answer_schema={"type": "object", "properties": {"name": {"type": "string"}}},
        model="openai:one",
        evaluator_model="openai:one",
    )
    assert job.stop_reason == "accepted"
    formats = [(call.type, call.request["response_format"]["type"]) for call in driver.calls(job.id)]
    assert formats == [("generate", "json_schema"), ("generate", "json_object"), ("evaluate", "json_schema")]


def small_server(asked: Asked) -> Reply | None:
    """A context of 4096 tokens, of which each prompt takes 612; the words are vLLM's."""
    limit = asked.body.get("max_tokens")
    if limit is None or limit + 612 <= 4096:
        return None
    words = (
        f"This model's maximum context length is 4096 tokens. However, you requested {limit} output tokens and your"
        " prompt contains at least 612 input tokens, for a total of at least 4708 tokens."
    )
    return Reply(status=400, raw={"object": "error", "message": words, "type": "BadRequestError", "code": 400})


# Case T2-10
def test_an_evaluator_with_a_small_context_is_asked_for_less(driver: Driver, model_server: ModelServer):
    model_server.respond(small_server)
    job = driver.run_new(model="openai:w", evaluator_model="openai:vj")
    assert (job.stop_reason, job.usage.calls) == ("accepted", 3)
    refused, taken = driver.calls(job.id)[1:]
    assert [call.type for call in (refused, taken)] == ["evaluate", "evaluate"]
    assert (refused.status, refused.request["max_tokens"]) == ("failed", 4096)
    assert (refused.error or {})["code"] == "context_too_long"
    assert "The next call asks for at most" in (refused.error or {})["detail"]
    assert (taken.status, taken.request["max_tokens"] <= 4096 - 612) == ("succeeded", True)

    again = driver.run_new(model="openai:w", evaluator_model="openai:vj")
    assert [call.status for call in driver.calls(again.id)] == ["succeeded", "succeeded"]


def test_an_evaluators_limit_that_was_set_is_named(make_driver: Callable[..., Driver], model_server: ModelServer):
    model_server.respond(small_server)
    driver = make_driver(evaluator_max_output_tokens=4000)
    job = driver.run_new(model="openai:w", evaluator_model="openai:vj")
    assert job.error is not None
    assert job.error["code"] == "context_too_long"
    assert "Lower REDRAFT_EVALUATOR_MAX_OUTPUT_TOKENS" in job.error["detail"]
    assert len(driver.calls(job.id)) == 2


def test_a_generators_limit_that_was_set_is_named(driver: Driver, model_server: ModelServer):
    model_server.respond(small_server)
    job = driver.run_new(sampling={"max_output_tokens": 4000})
    assert (job.status, len(driver.calls(job.id))) == ("failed", 1)
    assert "Lower sampling.max_output_tokens" in (job.error or {})["detail"]


@pytest.mark.parametrize("request_fields", [{"limits": {"max_tokens": 100_000}}, {"candidates": 3}])
def test_a_limit_that_nobody_set_is_lowered_for_the_generator_too(
    driver: Driver, model_server: ModelServer, request_fields: dict[str, Any]
):
    model_server.respond(small_server)
    job = driver.run_new(model="openai:w", evaluator_model="openai:vj", **request_fields)
    assert job.stop_reason == "accepted"
    driver.check_order(job.id)


def test_a_second_asking_gets_no_more_than_the_model_writes(driver: Driver, model_server: ModelServer):
    def respond(asked: Asked) -> Reply | None:
        limit = asked.body.get("max_tokens", 0)
        words = f"max_tokens is too large: {limit}. This model supports at most 5000 completion tokens."
        return Reply(status=400, raw={"error": {"message": words, "param": "max_tokens"}}) if limit > 5_000 else None

    model_server.respond(respond)
    model_server.script(evaluate=[Reply(text='{"score": 0.', finish="length"), 0.9])
    job = driver.run_new()
    assert job.stop_reason == "accepted"
    limits = [(call.type, call.request.get("max_tokens"), call.status) for call in driver.calls(job.id)]
    assert limits[1:] == [("evaluate", 4096, "failed"), ("repair", 8192, "failed"), ("repair", 5000, "succeeded")]
