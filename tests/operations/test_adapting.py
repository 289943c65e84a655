"""A provider that refuses a parameter: one more call within the step, all of it in the ledger, learned for later."""

import pytest

from tests.model_server import ModelServer, Script
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
