"""Jobs that ask for JSON: the provider is told the schema, code checks the answer, a misfit is asked for again."""

import json
from collections.abc import Callable

import pytest

from redraft.domain.requests import GenerateAnswer
from redraft.errors import Invalid
from redraft.operations import submit
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver, Killed, kill

Interrupted = Callable[[Callable[[], None]], Driver]

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}
GOOD = '{"name": "Bern", "people": 134000}'
BAD = '{"name": "Bern", "people": -5}'


def test_a_fitting_answer_is_parsed(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[GOOD], evaluate=[0.9])
    job = driver.run_new(answer_schema=SCHEMA)
    assert job.result is not None
    assert (job.stop_reason, job.result["final_answer"]) == ("accepted", GOOD)
    assert job.result["parsed"] == {"name": "Bern", "people": 134_000}
    (asked,) = model_server.requests("generate")
    assert asked.body["response_format"]["json_schema"]["strict"] is True
    assert "fits this JSON Schema" in asked.prompt
    assert driver.events(job.id)[-1].data["result"]["parsed"] == job.result["parsed"]


def test_a_misfit_is_told_to_the_generator_once(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[BAD, GOOD], evaluate=[0.9])
    job_id = driver.submit(answer_schema=SCHEMA)
    job = driver.run(job_id)
    assert [each.answer for each in driver.iterations(job_id)] == [GOOD]
    assert [call.type for call in driver.calls(job_id)] == ["generate", "repair", "evaluate"]
    assert "less than the minimum of 0 (at /people)" in model_server.requests("generate")[1].prompt
    assert (job.stop_reason, job.usage.calls) == ("accepted", 3)


def test_a_second_misfit_becomes_feedback_without_asking_the_evaluator(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[BAD, "no JSON", GOOD], evaluate=[0.9])
    job_id = driver.submit(answer_schema=SCHEMA)
    job = driver.run(job_id)
    first, second = driver.iterations(job_id)
    assert first.evaluation is not None
    assert (first.answer, first.evaluation.score, first.evaluation.passed) == ("no JSON", 0.0, False)
    assert second.answer == GOOD
    assert len(model_server.requests("evaluate")) == 1
    assert "is not JSON" in model_server.requests("generate")[2].prompt
    assert job.stop_reason == "accepted"


def test_an_answer_that_never_fits_is_never_accepted(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[BAD], evaluate=[1.0])
    job = driver.run_new(answer_schema=SCHEMA, iter_max=1, score_threshold=0.1)
    assert job.result is not None
    assert (job.stop_reason, job.result["success"], job.result["parsed"]) == ("iteration_limit", False, None)
    assert model_server.requests("evaluate") == []


def test_a_second_asking_that_fails_leaves_the_first_answer(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[BAD, Reply(status=400, raw={"error": {"message": "no"}}), GOOD], evaluate=[0.9])
    job_id = driver.submit(answer_schema=SCHEMA)
    driver.run(job_id)
    assert [each.answer for each in driver.iterations(job_id)] == [BAD, GOOD]
    assert [call.status for call in driver.calls(job_id)] == ["succeeded", "failed", "succeeded", "succeeded"]


def test_after_a_crash_in_the_second_asking_the_first_is_not_paid_again(
    driver: Driver, interrupted: Interrupted, model_server: ModelServer
):
    calls = iter([False, True])

    def die_at_the_second() -> None:
        if next(calls):
            kill()

    model_server.script(generate=[BAD, GOOD, GOOD], evaluate=[0.9])
    job_id = driver.submit(answer_schema=SCHEMA)
    with pytest.raises(Killed):
        interrupted(die_at_the_second).step(job_id)
    driver.expire_lease(job_id)
    job = driver.run(job_id)
    assert job.stop_reason == "accepted"
    driver.check_order(job_id)


def test_with_candidates_each_is_checked_for_itself(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[GOOD], evaluate=[0.9])
    job = driver.run_new(answer_schema=SCHEMA, candidates=3)
    assert job.result is not None
    assert job.result["parsed"] == json.loads(GOOD)


def test_a_schema_of_no_use_makes_no_job(driver: Driver):
    with pytest.raises(Invalid) as caught:
        submit.submit(
            driver.services,
            GenerateAnswer.model_validate({"instruct": "T", "eval_crit": "C", "answer_schema": {"type": "array"}}),
        )
    assert caught.value.code == "invalid_schema"
