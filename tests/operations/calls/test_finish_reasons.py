"""Replies that do not end as they should, through the whole loop: both wire formats, both roles, streamed or not."""

from collections.abc import Callable

import pytest

from tests.model_server import ModelServer, Reply
from tests.operations.driving import ANTHROPIC, Driver
from tests.operations.steps.test_cases_providers import completion, message, text
from tests.operations.steps.test_the_loop import verdict

MakeDriver = Callable[..., Driver]
HALF = "The capital of France is"
HALF_VERDICT = '{"score": 0.9, "evaluation_reasoning": "all good and th'


def reply_of(models: dict[str, str], words: str, reason: str | None) -> Reply:
    if models:
        return message(text(words), stop=reason)
    return completion(reason, content=words)


@pytest.fixture(params=[{}, ANTHROPIC], ids=["openai", "anthropic"])
def models(request: pytest.FixtureRequest) -> dict[str, str]:
    return request.param


# Cases HB-B1.2, HB-B1.4, HB-B1.5, HB-B1.7
@pytest.mark.parametrize(
    ("reason", "code", "stream"),
    [
        ("model_length", "output_truncated", False),
        ("MAX_TOKENS", "output_truncated", True),
        ("max_tokens", "output_truncated", False),
        ("content_filter: RECITATION", "content_filtered", True),
        ("SAFETY", "content_filtered", False),
        ("tool_use", "empty_output", True),
        ("model_context_window_exceeded", "context_too_long", False),
        ("refusal", "refused", True),
    ],
)
def test_an_answer_that_is_not_whole_is_not_judged(
    make_driver: MakeDriver, model_server: ModelServer, models: dict[str, str], reason: str, code: str, *, stream: bool
):
    model_server.script(generate=[reply_of(models, HALF, reason)])
    driver = make_driver(**models)
    job = driver.run_new(stream=stream, iter_max=1)
    assert job.error is not None
    assert (job.status, job.error["code"]) == ("failed", code)
    assert [asked.role for asked in model_server.requests()] == ["generate"]
    assert driver.calls(job.id)[0].finish_reason == reason


# Case HB-B1.1
@pytest.mark.parametrize(("reason", "stream"), [("insufficient_system_resource", False), ("error", True)])
def test_an_answer_that_was_broken_off_is_asked_for_again(
    make_driver: MakeDriver, model_server: ModelServer, models: dict[str, str], reason: str, *, stream: bool
):
    model_server.script(generate=[reply_of(models, HALF, reason), "Paris."])
    driver = make_driver(**models)
    job = driver.run_new(stream=stream)
    assert job.result is not None
    assert job.result["final_answer"] == "Paris."
    assert not any("finish" in warning.code for warning in job.warnings)
    assert [asked.role for asked in model_server.requests()] == ["generate", "generate", "evaluate"]
    assert driver.calls(job.id)[0].finish_reason == reason


@pytest.mark.parametrize(("reason", "stream"), [("vendor_special", True), (None, False)])
def test_an_answer_with_an_unclear_end_is_kept_with_a_warning(
    make_driver: MakeDriver, model_server: ModelServer, models: dict[str, str], reason: str | None, *, stream: bool
):
    model_server.script(generate=[reply_of(models, "Paris.", reason), "Lyon."], evaluate=[0.4, 0.9])
    job = make_driver(**models).run_new(stream=stream)
    warned = [each.message for each in job.warnings if each.code == "finish_reason_unknown"]
    assert len(warned) == 1
    assert (reason or "no finish reason") in warned[0]
    assert job.result is not None
    assert (job.stop_reason, job.result["final_answer"]) == ("accepted", "Lyon.")


# Case HB-B2
@pytest.mark.parametrize("reason", ["MODEL_LENGTH", "vendor_special", None])
def test_a_verdict_that_may_be_cut_is_not_mended_but_asked_for_once_more(
    make_driver: MakeDriver, model_server: ModelServer, models: dict[str, str], reason: str | None
):
    model_server.script(evaluate=[reply_of(models, HALF_VERDICT, reason), verdict(0.3, "more"), 0.9])
    driver = make_driver(**models)
    job = driver.run_new()
    assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [0.3, 0.9])
    first, second, _third = model_server.requests("evaluate")
    assert second.body["max_tokens"] > first.body["max_tokens"]
    assert "all good and th" not in second.prompt
    assert [call.type for call in driver.calls(job.id)][:3] == ["generate", "evaluate", "repair"]


def test_a_verdict_that_is_cut_twice_is_an_error_without_a_score(
    make_driver: MakeDriver, model_server: ModelServer, models: dict[str, str]
):
    model_server.script(evaluate=[reply_of(models, HALF_VERDICT, "abort")])
    driver = make_driver(**models)
    job = driver.run_new(iter_max=1)
    assert (job.stop_reason, driver.scores(job.id)) == ("evaluator_error", [None])
    assert len(model_server.requests("evaluate")) == 2


def test_a_whole_verdict_with_an_unclear_end_counts_with_a_warning(driver: Driver, model_server: ModelServer):
    whole = '{"score": 0.9, "meets_criteria": true, "evaluation_reasoning": "r", "improvement_suggestions": []}'
    model_server.script(evaluate=[completion("vendor_special", content=whole)])
    job = driver.run_new()
    assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [0.9])
    assert [each.code for each in job.warnings if "finish" in each.code] == ["finish_reason_unknown"]
