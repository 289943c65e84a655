"""Public bug reports about providers (kind B), and a stream cut within characters, through the whole loop."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.model_server import ModelServer, Reply
from tests.model_server.events import named
from tests.operations.driving import ANTHROPIC, Driver
from tests.operations.steps.test_the_loop import verdict

MakeDriver = Callable[..., Driver]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
TOOL_CALL = {"id": "t1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
NO_DEVELOPER = "unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`"


def message(*content: dict[str, Any], stop: str | None = "end_turn", usage: tuple[int, int] = (20, 5)) -> Reply:
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(content)}
    tokens = {"input_tokens": usage[0], "output_tokens": usage[1]}
    return Reply(raw={**body, "stop_reason": stop, "stop_sequence": None, "usage": tokens})


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def completion(finish: str | None = "stop", **said: Any) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": finish}
    return Reply(raw={"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})


def refusal(message: str, kind: str = "invalid_request_error", status: int = 400, **headers: str) -> Reply:
    error = {"message": message, "type": kind, "param": None, "code": kind}
    return Reply(status=status, raw={"error": error}, headers=headers)


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_model_thought_is_in_no_answer_prompt_or_event(
    make_driver: MakeDriver, model_server: ModelServer, *, stream: bool
):
    driver = make_driver(**ANTHROPIC)  # B01
    thought = {"type": "thinking", "thinking": "secret plan", "signature": "c2ln"}
    model_server.script(generate=[message(thought, text("Paris.")), "two"], evaluate=[verdict(0.4, "more"), 0.9])
    job = driver.run_new(stream=stream)

    assert driver.iterations(job.id)[0].answer == "Paris."
    assert not any("secret plan" in asked.prompt for asked in model_server.requests())
    assert "secret plan" not in repr((job, driver.iterations(job.id), driver.events(job.id)))


@pytest.mark.parametrize(
    ("models", "reply", "told"),
    [
        (ANTHROPIC, message(stop="refusal"), "refused"),
        ({}, completion(content=None, refusal="I can't help with that."), "I can't help with that."),
    ],
)
def test_a_refusing_generator_is_asked_once(
    make_driver: MakeDriver, model_server: ModelServer, models: dict[str, str], reply: Reply, told: str
):
    model_server.script(generate=[reply])  # B03
    job = make_driver(**models).run_new()
    assert job.error is not None
    assert (job.status, job.error["code"], job.error["retryable"]) == ("failed", "refused", False)
    assert told in job.error["detail"]
    assert len(model_server.requests()) == 1


def test_a_refusing_evaluator_leaves_the_answer_without_a_score(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[completion(content=None, refusal="I can't grade that."), verdict(0.9)])  # B03
    job = driver.run_new()
    assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [None, 0.9])
    evaluation = driver.iterations(job.id)[0].evaluation
    assert evaluation is not None
    assert evaluation.error is not None
    assert evaluation.error["code"] == "refused"
    assert "grade that" not in model_server.requests("generate")[1].prompt


@pytest.mark.parametrize("stream", [False, True])
def test_the_evaluator_sees_a_paused_turn_whole(make_driver: MakeDriver, model_server: ModelServer, *, stream: bool):
    driver = make_driver(**ANTHROPIC)  # B04
    model_server.script(
        generate=[
            message(text("I looked this up. "), stop="pause_turn", usage=(100, 50)),
            message(text("It is 42."), usage=(160, 10)),
        ]
    )
    job = driver.run_new(stream=stream)
    assert job.result is not None
    assert job.result["final_answer"] == "I looked this up. It is 42."
    first, second = [asked.body["messages"] for asked in model_server.requests("generate")]
    assert second == [*first, {"role": "assistant", "content": [text("I looked this up. ")]}]
    (judged,) = model_server.requests("evaluate")
    assert "I looked this up. It is 42." in judged.prompt
    call = driver.calls(job.id)[0]
    assert (call.input_tokens, call.output_tokens) == (260, 60)


def test_a_pause_without_end_is_an_error_that_nobody_judges(make_driver: MakeDriver, model_server: ModelServer):
    model_server.script(generate=[message(text("still "), stop="pause_turn")])  # B04
    job = make_driver(**ANTHROPIC).run_new()
    assert job.error is not None
    assert "paused" in job.error["detail"]
    assert [asked.role for asked in model_server.requests()] == ["generate"] * 6


@pytest.mark.parametrize("reply", [Reply(status=529, raw=OVERLOADED), Reply(raw=OVERLOADED)])
def test_an_overloaded_provider_is_asked_again(make_driver: MakeDriver, model_server: ModelServer, reply: Reply):
    model_server.script(generate=[reply, "Hello."])  # B05
    job = make_driver(**ANTHROPIC).run_new()
    assert job.result is not None
    assert (job.stop_reason, job.result["final_answer"]) == ("accepted", "Hello.")


def test_an_overload_in_mid_stream_withdraws_what_was_told(make_driver: MakeDriver, model_server: ModelServer):
    driver = make_driver(**ANTHROPIC)  # B05
    cut = Reply(text="Hello.", pieces=["Hel", "lo."], fault="stream_error", after=1)
    model_server.script(generate=[cut, Reply(text="Hello.", pieces=["Hel", "lo."])])
    job = driver.run_new(stream=True)
    assert job.result is not None
    assert job.result["final_answer"] == "Hello."
    (retried,) = [event for event in driver.events(job.id) if event.type == "step.retrying"]
    assert (retried.data["withdrawn"], retried.data["code"]) == (True, "provider_unavailable")


def test_usage_that_is_not_told_is_unknown_and_left_out_of_the_sums(driver: Driver, model_server: ModelServer):
    known = Reply(verdict=verdict(0.9), usage={"input": 11, "output": 3})
    model_server.script(generate=[completion(content="Hi.")], evaluate=[known])  # B07
    job = driver.run_new()
    call = driver.calls(job.id)[0]
    assert (call.input_tokens, call.output_tokens, call.cost_usd) == (None, None, None)
    assert (job.usage.input_tokens, job.usage.output_tokens, job.usage.cost_usd) == (11, 3, None)


def test_a_reasoning_model_is_asked_in_its_own_words_and_they_are_kept(driver: Driver, model_server: ModelServer):
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    no_limit = {"message": words, "param": "max_tokens", "code": "unsupported_parameter"}  # B08
    words = "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) is supported."
    no_warmth = {"message": words, "param": "temperature", "code": "unsupported_value"}
    refusals = [Reply(status=400, raw={"error": error}) for error in (no_limit, no_warmth)]
    model_server.script(generate=[*refusals, "Paris."])
    sampling = {"temperature": 0.2, "max_output_tokens": 77}
    job = driver.run_new(sampling=sampling)
    assert job.result is not None
    assert (job.stop_reason, job.result["final_answer"]) == ("accepted", "Paris.")
    first, second, third = [asked.body for asked in model_server.requests("generate")]
    assert first["max_tokens"] == second["max_completion_tokens"] == third["max_completion_tokens"] == 77
    assert ["temperature" in body for body in (first, second, third)] == [True, True, False]

    assert driver.run_new(sampling=sampling).usage.calls == 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("reply", "code", "told", "calls"),
    [
        (completion("length", content=""), "output_truncated", "truncated before text", 1),
        (completion(content="", reasoning="The user wants..."), "empty_output", "reasoning only", 1),
        (completion(content=None), "empty_output", "no text", 1),
        (completion("tool_calls", content=None, tool_calls=[TOOL_CALL]), "empty_output", "tool call only", 1),
        (
            Reply(raw={"choices": None, "error": {"message": "Provider returned error", "code": 502}}),
            "provider_unavailable",
            "Provider returned error",
            2,
        ),
    ],
)
def test_a_reply_without_text_is_an_error_that_nobody_judges(
    make_driver: MakeDriver, model_server: ModelServer, reply: Reply, code: str, told: str, calls: int, *, stream: bool
):
    model_server.script(generate=[reply])  # B09
    job = make_driver(step_attempts_max=2).run_new(stream=stream, iter_max=1)
    assert job.error is not None
    assert (job.status, job.error["code"], job.error["retryable"]) == ("failed", code, calls > 1)
    assert told in job.error["detail"]
    assert [asked.role for asked in model_server.requests()] == ["generate"] * calls


def test_a_filtered_text_is_kept_in_the_ledger_only(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[completion("content_filter", content="The first step is")])  # B10
    job = driver.run_new()
    assert job.error is not None
    assert (job.status, job.error["code"], job.result) == ("failed", "content_filtered", None)
    assert driver.iterations(job.id) == []
    assert "The first step is" in json.dumps(driver.calls(job.id)[0].response)
    assert len(model_server.requests()) == 1


def test_rate_limits_are_waited_for_and_tried_so_many_times(make_driver: MakeDriver, model_server: ModelServer):
    driver = make_driver(step_attempts_max=3, retry_wait_s=0.001)  # B11
    limited = refusal("Rate limit reached", "rate_limit_exceeded", 429, **{"retry-after-ms": "40"})
    model_server.script(generate=[limited])
    job = driver.run_new()
    assert job.error is not None
    assert (job.status, job.error["code"], job.error["retryable"]) == ("failed", "provider_rate_limited", True)
    first, second, third = [asked.started_at for asked in model_server.requests()]
    assert min(second - first, third - second) >= 0.04

    model_server.script(generate=[limited, limited, "fine"])
    assert driver.run_new().stop_reason == "accepted"


def test_instructions_go_into_the_turn_where_a_server_has_no_system_role(driver: Driver, model_server: ModelServer):
    error = {"message": "System role not supported", "type": "BadRequestError", "param": None, "code": 400}
    model_server.script(evaluate=[Reply(status=400, raw={"error": error}), 0.9])  # B13
    job = driver.run_new()
    assert (job.stop_reason, job.usage.calls) == ("accepted", 3)
    first, second = [asked.body["messages"] for asked in model_server.requests("evaluate")]
    (merged,) = second
    assert merged["role"] == "user"
    assert all(message["content"] in merged["content"] for message in first)


def test_a_role_that_a_server_does_not_know_is_named(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[refusal(NO_DEVELOPER)])  # B13
    job = driver.run_new()
    assert job.error is not None
    assert (job.status, job.stop_reason, job.error["code"]) == ("succeeded", "error", "provider_bad_request")
    assert "developer" in job.error["detail"]
    assert [asked.role for asked in model_server.requests()] == ["generate", "evaluate"]


@pytest.mark.parametrize("strategy", ["revise", "fresh", "encourage"])
def test_blanks_in_texts_make_no_request_that_is_refused(
    make_driver: MakeDriver, model_server: ModelServer, strategy: str
):
    model_server.script(generate=["Four. \n ", "4"], evaluate=[verdict(0.2, "shorter"), verdict(0.3)])  # B15
    job = make_driver(**ANTHROPIC).run_new(
        instruct="What is 2+2?  \n",
        iter_max=2,
        revision={"strategy": strategy},
        conversation=[["Hi \n", "Hello  \n"], [" ", ""]],
        system_instructions="  ",
    )
    assert (job.error, job.usage.calls) == (None, 4)
    assert [asked.status for asked in model_server.requests()] == [200] * 4


@pytest.mark.parametrize("models", [{}, ANTHROPIC])
def test_a_stream_that_comes_byte_by_byte_cuts_no_character(
    make_driver: MakeDriver, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, models: dict[str, str]
):
    monkeypatch.setattr("tests.model_server.server._TRICKLE_S", 0.001)
    said = "水😀é."  # E17
    if models:
        piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "SAID"}}
        events = [named(piece), named({"type": "message_stop"})]
    else:
        events = ['data: {"choices": [{"index": 0, "delta": {"content": "SAID"}}]}\n\n', "data: [DONE]\n\n"]
    model_server.script(generate=[Reply(events=[wire.replace("SAID", said) for wire in events], fault="trickle")])
    job = make_driver(**models).run_new(stream=True)
    assert job.result is not None
    assert job.result["final_answer"] == said
    assert said in model_server.requests("evaluate")[0].prompt


@pytest.mark.parametrize("headers", [{"retry-after": "86400"}, {"retry-after-ms": "86400000"}])
def test_a_wait_beyond_the_deadline_is_told_and_not_waited_for(
    driver: Driver, model_server: ModelServer, headers: dict[str, str]
):
    model_server.script(generate=[refusal("Slow down", "rate_limit_exceeded", 429, **headers)])  # HB-B4
    job = driver.run_new(limits={"deadline_s": 600})
    assert job.error is not None
    assert (job.status, job.error["code"], job.error["retryable"]) == ("failed", "provider_rate_limited", True)
    assert "asked to wait 24 h" in job.error["detail"]
    assert "limits.deadline_s" in job.error["detail"]
    assert len(model_server.requests()) == 1


def test_an_error_in_an_unknown_field_of_a_stream_is_kept_in_the_ledger(driver: Driver, model_server: ModelServer):
    words = "the request exceeds the available context size."  # T2-03
    wire = f'error: {{"code":400,"message":"{words}","type":"invalid_request_error"}}\n\n'
    model_server.script(generate=[Reply(events=[wire, "data: [DONE]\n\n"])])
    job = driver.run_new(stream=True)
    assert job.error is not None
    assert job.error["code"] == "context_too_long"
    assert words in job.error["detail"]
    (call,) = driver.calls(job.id)
    assert words in repr(call.response)


def test_an_upstreams_words_reach_the_job(driver: Driver, model_server: ModelServer):
    raw = '{"error":{"message":"Input is longer than the maximum context length of 8192 tokens"}}'  # T2-05
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}
    model_server.script(generate=[Reply(status=400, raw={"error": error})])
    job = driver.run_new()
    assert job.error is not None
    assert job.error["code"] == "context_too_long"
    assert "maximum context length of 8192" in job.error["detail"]
