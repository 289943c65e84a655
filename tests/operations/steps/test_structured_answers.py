"""Jobs that ask for JSON: the provider is told the schema, code checks the answer, a misfit is asked for again."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jsonschema
import pytest

from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.errors import Invalid
from redraft.operations.jobs import submit
from redraft.providers.shared.schemas import WRAPPER, schema_in, wraps
from redraft.sandbox import processes
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver, Killed, kill
from tests.support.waiting import wait_until

Interrupted = Callable[[Callable[[], None]], Driver]

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
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
            GenerateAnswer.model_validate({"instruct": "T", "eval_crit": "C", "answer_schema": {"type": "aray"}}),
        )
    assert caught.value.code == "invalid_schema"


MAP = {
    "type": "object",
    "properties": {"fruits": {"type": "object", "additionalProperties": {"type": "integer"}}},
    "required": ["fruits"],
    "additionalProperties": False,
}
# Each is wider than strict dialects can say; the answer uses just that
WIDER: list[tuple[dict[str, Any], Any]] = [
    (MAP, {"fruits": {"apple": 1, "pear": 2}}),  # Case T2-06
    ({"type": "object"}, {"free": [1]}),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": "x", "more": 1}),
    ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, {"x1": 1}),
    ({"type": "object", "unevaluatedProperties": {"type": "integer"}}, {"n": 1}),
    ({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "minProperties": 1}, {"key": None}),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}, ["a", 1]),
    ({"type": "array", "items": {"type": "object"}}, [{"a": 1}, {}]),  # Case T2-08
    ({"type": ["object", "array"]}, [1]),
    ({"anyOf": [{"type": "object"}, {"type": "null"}]}, None),
    ({"not": {"type": "string"}}, {"anything": 1}),
    ({"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1, "b": 2}),
    ({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}, "o": {}}}, [[]]),
    ({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}}, [1, [2]]),
    ({"type": "array"}, []),
]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_what_a_schema_admits_can_be_answered(driver: Driver, model_server: ModelServer, provider: str):
    for schema, value in WIDER:
        model_server.log.clear()
        model_server.script(generate=[json.dumps(value)], evaluate=[0.9])
        job = driver.run_new(answer_schema=schema, model=f"{provider}:w", evaluator_model="openai:e")
        assert job.result is not None
        found = (job.stop_reason, job.result["parsed"], job.result["final_answer"])
        assert found == ("accepted", value, json.dumps(value))
        (asked,) = model_server.requests("generate")
        sent = schema_in(asked.body)
        assert sent is None or jsonschema.Draft202012Validator(sent).is_valid(
            {WRAPPER: value} if wraps(sent) else value
        )
        assert sent is None or not asked.body["response_format"]["json_schema"]["strict"]
        assert json.dumps(schema) in asked.prompt
        (told,) = [each.message for each in job.warnings if each.code == "schema_not_enforced"]
        assert told.startswith(f"{provider}:w got the answer's schema {'as a JSON Schema' if sent else 'in words'}")
        assert "strict mode would narrow it" in told


ROOTS: list[tuple[dict[str, Any], Any]] = [
    ({"type": "array", "items": {"type": "string"}}, ["a", "ü"]),
    ({"type": "integer", "minimum": 1}, 42),
    ({"type": "string"}, "text"),
    ({"enum": ["yes", "no"]}, "yes"),
    ({"anyOf": [SCHEMA, {"type": "null"}]}, {"name": "Bern"}),
]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_an_answer_that_is_no_object_is_wrapped_on_the_wire_only(
    driver: Driver, model_server: ModelServer, provider: str
):
    is_streamed = provider == "openai"
    for schema, value, stream in [*((*root, is_streamed) for root in ROOTS), (*ROOTS[0], not is_streamed)]:
        text = json.dumps(value)
        model_server.log.clear()
        model_server.script(generate=[f'{{"{WRAPPER}": {text}}}'], evaluate=[0.9])
        job = driver.run_new(answer_schema=schema, model=f"{provider}:w", evaluator_model="openai:e", stream=stream)
        assert job.result is not None
        assert (job.stop_reason, job.result["parsed"], job.result["final_answer"]) == ("accepted", value, text)
        assert WRAPPER in json.dumps(schema_in(model_server.requests("generate")[0].body))
        assert text in model_server.requests("evaluate")[0].prompt
        assert WRAPPER not in model_server.requests("evaluate")[0].prompt
        assert [each.code for each in job.warnings] == []


def test_a_server_without_schemas_is_told_a_root_that_is_no_object_in_words(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["[1, 2]"], evaluate=[0.9], quirks=("no_json_schema",))
    job = driver.run_new(answer_schema={"type": "array", "items": {"type": "integer"}}, evaluator_model="openai:e")
    assert job.result is not None
    assert (job.stop_reason, job.result["parsed"]) == ("accepted", [1, 2])
    assert "response_format" not in model_server.requests("generate")[-1].body
    assert "one JSON array" in model_server.requests("generate")[-1].prompt
    (told,) = [each.message for each in job.warnings if each.code == "schema_not_enforced"]
    assert "in words, since its server takes no strict schema" in told


def test_an_answer_outside_a_map_is_still_found_out(driver: Driver, model_server: ModelServer):
    model_server.script(generate=['{"fruits": {"apple": "one"}}', '{"fruits": {"apple": 1}}'], evaluate=[0.9])
    job = driver.run_new(answer_schema=MAP)
    assert [call.type for call in driver.calls(job.id)] == ["generate", "repair", "evaluate"]
    assert (job.result or {})["parsed"] == {"fruits": {"apple": 1}}


EXPENSIVE: dict[str, Any] = {"type": "array", "items": {"enum": [[n] for n in range(9_000)]}}
LONG = json.dumps([[8_999]] * 50_000)
"""Nine thousand comparisons for each of fifty thousand items: beyond what one validation may take."""


@contextmanager
def crowded_validators() -> Iterator[None]:
    """No further expensive validation is taken."""
    turns = processes.default.slow.turns

    def wait() -> None:
        with turns.slot(b"another"):
            pass

    with ThreadPoolExecutor(max_workers=8) as threads, turns.slot(b"another"):
        for _ in range(8):
            threads.submit(wait)
        wait_until(lambda: turns.waiting == 8, what="a full queue")
        yield


def test_a_paid_answer_is_kept_while_the_validators_are_busy_and_its_step_comes_back(
    driver: Driver, model_server: ModelServer
):
    model_server.script(generate=[LONG, LONG])
    # The title is another one each time, since outcomes are remembered
    job_id = driver.submit(answer_schema={**EXPENSIVE, "title": new_id("job")})
    with crowded_validators():
        for _ in range(2):
            driver.step(job_id)
            row = driver.row(job_id)
            assert (row.step, row.step_attempt, row.lost_leases, row.lease_owner) == ("generate", 0, 0, None)
            assert driver.call_statuses(job_id) == ["ok"]
            driver.set_back(job_id, available_at=-1)
    assert len(model_server.requests("generate")) == 1
