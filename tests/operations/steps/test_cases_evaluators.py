"""Public bug reports about evaluators' replies (kind A) and the loop (kind C), from the reply to what is stored."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Never

import pytest

from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver
from tests.operations.steps.test_the_loop import verdict

DECOY = """<think>A first draft would be {"score": 0.05, "reasoning": "no"} but the text does answer.</think>
```json
{"score": 0.88, "meets_criteria": true, "reasoning": "r", "suggestions": ["Name it"]}
```"""
QUOTES = (
    r'{"score": 0.9, "meets_criteria": true, "reasoning": "It shows ```json\n{\"score\": 0.1}\n``` and the tag '
    r'<think>x</think>.", "suggestions": []}'
)
TWO_VERDICTS = '{"score": 0.2, "reasoning": "a"}\n{"score": 0.9, "reasoning": "b"}'
ALMOST_JSON = [
    "{'score': 0.8, 'meets_criteria': True, 'reasoning': \"it's fine\", 'suggestions': None}",
    '{"score": 0.8, "meets_criteria": true, "reasoning": "r", "suggestions": ["a",],}',
    '{"score": 0.8, "meets_criteria": true, "reasoning": "line one\nline two", "suggestions": []}',
    '{"score": 0.8, "meets_criteria": true, "reasoning": "use \\alpha here", "suggestions": []}',
    '{"score": 0.8, "meets_criteria": true, "reasoning": "write \\frac{1}{2}", "suggestions": []}',
]
SPOKEN = {
    "openai": ({}, "length"),
    "anthropic": ({"model": "anthropic:writer", "evaluator_model": "anthropic:judge"}, "max_tokens"),
}


def strict_json(text: str) -> Any:
    def refuse(token: str) -> Never:
        raise ValueError(f"{token} is no JSON")

    return json.loads(text, parse_constant=refuse)


def texts_of(driver: Driver, job_id: str) -> Iterator[str]:
    """All that a user can see of a job but its raw calls, as JSON texts."""
    yield driver.job(job_id).model_dump_json()
    for shown in (*driver.iterations(job_id), *driver.events(job_id)):
        yield shown.model_dump_json()


def test_thinking_text_with_a_decoy_reaches_neither_the_score_nor_anyone(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[DECOY, verdict(0.95)])  # A04
    job = driver.run_new(iter_max=2, score_threshold=0.9)

    assert driver.scores(job.id) == [0.88, 0.95]
    assert "Name it" in model_server.requests("generate")[1].prompt
    assert not any("first draft" in asked.prompt for asked in model_server.requests())
    assert not any("first draft" in text for text in texts_of(driver, job.id))


def test_a_fenced_verdict_needs_no_second_call_and_its_suggestion_is_fed_back(
    driver: Driver, model_server: ModelServer
):
    said = '{"score": 0.63, "meets_criteria": false, "reasoning": "Misses one step", "suggestions": ["Name the probe"]}'
    model_server.script(evaluate=[f"```json\n{said}\n```", 0.9])  # A01
    job = driver.run_new(iter_max=2)
    assert driver.scores(job.id) == [0.63, 0.9]
    assert len(model_server.requests("evaluate")) == 2
    assert "Name the probe" in model_server.requests("generate")[1].prompt


@pytest.mark.parametrize(
    ("text", "meets", "suggestions"),
    [
        ('{"score": 0.7, "meets_criteria": "false", "reasoning": "r", "suggestions": []}', False, []),  # A10
        ('{"Score": 0.7, "Reasoning": "x"}', None, []),  # A11
        ('{"score": 0.7, "meets_criteria": true, "reasoning": "r", "suggestions": null}', True, []),  # A12
    ],
)
def test_what_a_verdict_leaves_out_is_unknown(
    driver: Driver, model_server: ModelServer, text: str, meets: object, suggestions: list[str]
):
    model_server.script(evaluate=[text])
    evaluation = driver.iterations(driver.run_new(iter_max=1).id)[0].evaluation
    assert evaluation is not None
    assert (evaluation.score, evaluation.meets_criteria) == (0.7, meets)
    assert evaluation.improvement_suggestions == suggestions


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TWO_VERDICTS, "2 different verdicts"),  # A02
        ('{"score": 85, "meets_criteria": true, "reasoning": "r"}', "85 is not between 0 and 1"),  # A08
        ('{"score": true, "meets_criteria": true, "reasoning": "r"}', "score"),  # A10
        ('{"score": "True", "meets_criteria": "yes", "reasoning": "r"}', "score"),
        ("{}", "score"),  # A11
        ("[]", "verdict"),
        ("The answer is good.", "verdict"),
        ('{"overall": {"score": 0.7}}', "score"),
    ],
)
def test_an_evaluation_without_a_verdict_says_why(driver: Driver, model_server: ModelServer, text: str, reason: str):
    """The kinds of the cases (`ambiguous`, `invalid_score`, …) are no codes of the contract: their words are kept."""
    model_server.script(evaluate=[text])
    job = driver.run_new(iter_max=1, score_threshold=0)
    evaluation = driver.iterations(job.id)[0].evaluation
    assert evaluation is not None
    assert (evaluation.status, evaluation.score, evaluation.passed) == ("error", None, False)
    assert evaluation.error is not None
    assert evaluation.error["code"] == "evaluator_invalid"
    assert reason in evaluation.error["detail"]
    assert len(model_server.requests("evaluate")) == 2


def test_two_different_verdicts_are_asked_about_once_more(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[TWO_VERDICTS, 0.85])  # A02
    job = driver.run_new()
    assert (driver.scores(job.id), len(model_server.requests("evaluate"))) == ([0.85], 2)


@pytest.mark.parametrize("text", ["<think>Let me compare each", '{"score": 0.9, "reasoning": "compare each'])
@pytest.mark.parametrize("dialect", SPOKEN)
def test_a_verdict_that_is_cut_twice_is_none_and_the_loop_goes_on(
    make_driver: Callable[..., Driver], model_server: ModelServer, dialect: str, text: str
):
    models, stop = SPOKEN[dialect]  # A06
    driver = make_driver(**models)
    model_server.script(evaluate=[Reply(text=text, finish=stop)] * 2 + [Reply(verdict=verdict(0.9))])
    job = driver.run_new()

    assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [None, 0.9])
    first, second, third = [asked.body["max_tokens"] for asked in model_server.requests("evaluate")]
    assert second > first == third
    assert not any("compare each" in asked.prompt for asked in model_server.requests())


@pytest.mark.parametrize("score", ["NaN", "Infinity", "-Infinity", "1e999", "null", '"NaN"', '"N/A"'])
def test_a_score_that_is_no_number_is_never_shown_as_one(driver: Driver, model_server: ModelServer, score: str):
    model_server.script(evaluate=[f'{{"score": {score}, "meets_criteria": true, "reasoning": "r"}}'])  # A09
    job = driver.run_new(iter_max=1, score_threshold=0)

    assert job.result is not None
    assert (job.stop_reason, job.result["final_score"], job.result["success"]) == ("evaluator_error", None, False)
    assert len(model_server.requests("evaluate")) == 2
    assert all(strict_json(text) for text in texts_of(driver, job.id))


@pytest.mark.parametrize("text", ALMOST_JSON)
def test_almost_json_counts_and_brings_no_control_character(driver: Driver, model_server: ModelServer, text: str):
    model_server.script(evaluate=[text, verdict(0.95)])  # A12
    job = driver.run_new(iter_max=2, score_threshold=0.9)

    assert driver.scores(job.id) == [0.8, 0.95]
    assert len(model_server.requests("evaluate")) == 2
    shown = [model_server.requests("generate")[1].prompt]
    shown += [part for text in texts_of(driver, job.id) for part in strings_in(strict_json(text))]
    assert not [char for part in shown for char in part if char < " " and char not in "\t\n"]


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from strings_in(member)


def test_a_nul_character_goes_and_its_name_stays(driver: Driver, model_server: ModelServer):
    answer = "Alpha\x00Beta. The escape is written \\u0000 in JSON."  # A13
    model_server.script(
        generate=[answer],
        evaluate=[r'{"score": 0.9, "meets_criteria": true, "reasoning": "contains \u0000 byte", "suggestions": []}'],
    )
    job = driver.run_new()

    assert job.result is not None
    assert (job.status, job.result["final_score"]) == ("succeeded", 0.9)
    assert job.result["final_answer"] == "AlphaBeta. The escape is written \\u0000 in JSON."
    (iteration,) = driver.iterations(job.id)
    assert iteration.evaluation is not None
    assert iteration.evaluation.evaluation_reasoning == "contains  byte"


def test_fences_and_tags_in_a_verdicts_strings_are_stored_as_they_are(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[QUOTES])  # A16
    job = driver.run_new()
    (iteration,) = driver.iterations(job.id)
    assert iteration.evaluation is not None
    assert iteration.evaluation.score == 0.9
    assert iteration.evaluation.evaluation_reasoning == json.loads(QUOTES)["reasoning"]


@pytest.mark.parametrize("evaluated", [verdict(0.5), "garbage"])
def test_a_model_that_repeats_itself_is_not_asked_without_end(
    driver: Driver, model_server: ModelServer, evaluated: Any
):
    model_server.script(generate=["same"], evaluate=[evaluated])  # C12
    job = driver.run_new(iter_max=4, score_threshold=0.9)
    assert job.status == "succeeded"
    assert len(model_server.requests("generate")) <= 4
    assert len(model_server.requests("evaluate")) <= 8


@pytest.mark.parametrize("empty", ["", "   ", "\n"])
def test_an_evaluator_that_says_nothing_is_asked_once_more(driver: Driver, model_server: ModelServer, empty: str):
    model_server.script(evaluate=[empty, 0.9])
    job = driver.run_new(iter_max=1)
    assert driver.scores(job.id) == [0.9]
    assert [call.type for call in driver.calls(job.id)] == ["generate", "evaluate", "repair"]


def test_a_second_asking_that_is_refused_for_any_length_is_an_evaluation_error_and_no_end(
    driver: Driver, model_server: ModelServer
):
    too_long = Reply(status=400, raw={"error": {"message": "max_tokens is too large: 8192", "param": "max_tokens"}})
    model_server.script(generate=["one", "two"], evaluate=[Reply("{", finish="length"), *[too_long] * 6, 0.9])
    job = driver.run_new(iter_max=2)
    assert driver.scores(job.id) == [None, 0.9]
    assert job.stop_reason == "accepted"
    assert {call.type for call in driver.calls(job.id)[2:8]} == {"repair"}


def test_a_reply_without_a_verdict_is_not_kept_for_the_next_job(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=["garbage", "garbage", 0.9])
    assert driver.run_new(iter_max=1, cache="use").stop_reason == "evaluator_error"
    assert driver.run_new(iter_max=1, cache="use").stop_reason == "accepted"
    assert len(model_server.requests("generate")) == 1


@pytest.mark.parametrize(
    "second",
    ['{"reasoning": "a", "score": 0.7}', '{"score": 0.70, "reasoning": "a"}', '{"score":0.7,"reasoning":"a"}'],
)
def test_a_verdict_said_twice_in_other_order_is_one(driver: Driver, model_server: ModelServer, second: str):
    model_server.script(evaluate=[f'First: {{"score": 0.7, "reasoning": "a"}} Again: {second}'])
    job = driver.run_new(iter_max=1)
    assert driver.scores(job.id) == [0.7]
    assert len(model_server.requests("evaluate")) == 1
