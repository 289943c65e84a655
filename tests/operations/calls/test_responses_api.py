"""Models that OpenAI serves by the Responses API only."""

import json
from typing import Any

import pytest

from redraft.domain.calls.conversation import Chat, Media, Message
from redraft.domain.calls.model_names import ModelRef
from redraft.operations.admin.model_checks import check_model
from redraft.providers.openai.responses_api import ResponsesEvents, read_response, responses_body
from redraft.providers.shared.failures import Answer, Vendor
from redraft.providers.shared.media import digests_in, with_data
from redraft.providers.shared.protocol import UnusableReply
from tests.model_server import ModelServer, Reply, Script
from tests.model_server.scripts import Rule
from tests.operations.driving import Driver

VENDOR = Vendor("it", "K", "U")
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def play(model_server: ModelServer, generate: Any = ("A",), evaluate: Any = (0.9,), quirks: Any = ()) -> None:
    rules = (Rule(tuple(generate), role="generate"), Rule(tuple(evaluate), role="evaluate"))
    model_server.play(Script(rules=rules, quirks=("responses_only", *quirks)))


@pytest.mark.parametrize("stream", [False, True])
def test_the_refusal_is_learned_and_the_ledger_is_the_same(driver: Driver, model_server: ModelServer, *, stream: bool):
    usage = {"input": 100, "output": 50, "cached": 10, "written": 20, "reasoning": 40}
    play(model_server, [Reply(text="An answer.", usage=usage)])
    sampling = {"temperature": 0.3, "seed": 7, "reasoning_effort": "low", "max_output_tokens": 500}
    job = driver.run_new(sampling=sampling, stream=stream)
    assert (job.stop_reason, (job.result or {})["final_answer"]) == ("accepted", "An answer.")
    refused, written, _, judged = driver.calls(job.id)
    assert (refused.status, refused.http_status, refused.cost_usd) == ("failed", 404, None)
    assert (written.status, written.finish_reason) == ("succeeded", "completed")
    counts = (written.input_tokens, written.cached_input_tokens, written.output_tokens, written.reasoning_tokens)
    assert (*counts, written.cache_write_tokens) == (100, 10, 50, 40, 20)
    assert (job.usage.reasoning_tokens, job.usage.cache_write_tokens) == (40, 20)
    assert written.request["reasoning"] == {"effort": "low"}
    assert (written.request["max_output_tokens"], written.request["store"]) == (500, False)
    assert written.request.get("stream", False) == stream
    assert judged.request["text"]["format"]["strict"]
    assert [each.message for each in job.warnings if each.code == "parameter_not_sent"] == [
        "openai:writer does not accept seed, so it was called without it."
    ]
    again = driver.run_new(stream=stream)
    assert [call.status for call in driver.calls(again.id)] == ["succeeded", "succeeded"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_and_what_the_model_refuses_are_handled_as_in_chat_completions(
    driver: Driver, model_server: ModelServer, *, stream: bool
):
    quirks = ("no_temperature", "no_effort", "no_json_schema")
    play(model_server, ['{"answer": "A"}'], quirks=quirks)
    job = driver.run_new(
        answer_schema=SCHEMA, sampling={"temperature": 0.3, "reasoning_effort": "high"}, stream=stream, iter_max=1
    )
    assert (job.stop_reason, (job.result or {})["parsed"]) == ("accepted", {"answer": "A"})
    body = model_server.requests("generate")[-1].body
    assert body["text"] == {"format": {"type": "json_object"}}
    assert "Reply with one JSON object" in body["instructions"]
    assert body.keys().isdisjoint({"temperature", "reasoning"})
    assert {each.code for each in job.warnings} >= {"parameter_not_sent", "schema_not_enforced"}


def test_an_evaluator_that_was_cut_while_it_reasoned_gets_more(driver: Driver, model_server: ModelServer):
    cut = Reply(text="", finish="max_output_tokens", usage={"input": 10, "output": 500, "reasoning": 500})
    play(model_server, evaluate=[cut, 0.9])
    job = driver.run_new(evaluator_sampling={"max_output_tokens": 500}, limits={"max_tokens": 60_000})
    assert job.stop_reason == "accepted"
    limits = [each.body.get("max_output_tokens") for each in model_server.requests("evaluate")]
    assert limits == [None, 500, 2000]


def test_images_and_pdfs_are_sent_in_its_own_parts():
    image = Media("Image 1", "image/png", "a" * 64, 3)
    pdf = Media("PDF 2", "application/pdf", "b" * 64, 3, pages=1)
    chat = Chat(ModelRef("openai", "m"), "", (Message("user", "Look.", media=(image, pdf)),))
    planned = responses_body(chat, frozenset())
    assert digests_in(planned) == {"a" * 64, "b" * 64}
    sent = with_data(planned, {"a" * 64: "QUJD", "b" * 64: "REVG"})["input"][0]["content"]
    assert sent[1] == {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"}
    assert (sent[3]["type"], sent[3]["file_data"]) == ("input_file", "data:application/pdf;base64,REVG")
    assert sent[4] == {"type": "input_text", "text": "Look."}


def response(**fields: Any) -> dict[str, Any]:
    return {"object": "response", "status": "completed", "error": None, "output": [], **fields}


def said(**part: Any) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "assistant", "content": [part]}]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (response(output=said(type="refusal", refusal="No.")), "refused"),
        (
            response(status="incomplete", incomplete_details={"reason": "content_filter"}, output=said(type="x")),
            "content_filtered",
        ),
        (
            response(status="failed", error={"code": "invalid_prompt", "message": "Not allowed"}),
            "content_filtered",
        ),
        (response(output=[{"type": "reasoning", "summary": []}]), "empty_output"),
        (response(output=[{"type": "function_call", "name": "f", "arguments": "{}"}]), "empty_output"),
    ],
)
def test_a_response_without_an_answer_is_the_same_error_as_elsewhere(
    driver: Driver, model_server: ModelServer, body: dict[str, Any], code: str, *, stream: bool
):
    event = f'event: response.{body["status"]}\ndata: {{"type": "response.{body["status"]}", "response": %s}}\n\n'
    as_events = (event % json.dumps(body),) if stream else None
    play(model_server, [Reply(raw=body, events=as_events)])
    job = driver.run_new(stream=stream)
    assert (job.status, (job.error or {})["code"]) == ("failed", code)


def of_phase(text: str, phase: Any) -> dict[str, Any]:
    return {"type": "message", "phase": phase, "content": [{"type": "output_text", "text": text}]}


ANSWER = said(type="output_text", text="A.")


@pytest.mark.parametrize(
    "output",
    [
        [of_phase("Let me see.", "commentary"), of_phase("A.", "final_answer")],
        [{"type": "web_search_call", "status": "completed"}, *ANSWER],
    ],
)
def test_the_text_is_the_final_answer(output: list[dict[str, Any]]):
    assert read_response(VENDOR, Answer(200, response(output=output), {})).text == "A."


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ([{"type": "new_client_call"}, *ANSWER], "calls a tool"),
        ([{"type": "web_search_call"}], "no text"),
        ([of_phase("A.", {"unknown": 1})], "no text"),
        ([of_phase("Let me see.", "commentary")], "no text"),
    ],
)
def test_a_response_without_a_final_answer_is_an_error(output: list[dict[str, Any]], message: str):
    with pytest.raises(UnusableReply, match=message):
        read_response(VENDOR, Answer(200, response(output=output), {}))


ADDED = {"type": "response.output_item.added", "output_index": 0, "item": of_phase("", "commentary")}
DELTAS = [
    {"type": "response.output_text.delta", "output_index": 0, "delta": "Let me see."},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "A"},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "."},
]
ITEMS = [
    {"type": "response.output_item.done", "output_index": index, "item": item}
    for index, item in enumerate([of_phase("Let me see.", "commentary"), of_phase("A.", "final_answer")])
]


@pytest.mark.parametrize(
    ("events", "emitted"),
    [
        ([ADDED, *DELTAS, {"type": "response.completed", "response": response()}], "A."),
        ([ADDED, *DELTAS, {"type": "response.completed", "response": {"status": "completed"}}], "A."),
        ([ADDED, *DELTAS, *ITEMS, {"type": "response.completed", "response": response()}], "A."),
        ([*ITEMS, {"type": "response.completed", "response": response()}], ""),
        ([response(status="in_progress"), response(output=ANSWER)], ""),
    ],
)
def test_a_stream_loses_no_text(events: list[dict[str, Any]], emitted: str):
    collector = ResponsesEvents()
    assert all(collector.matches_format(event) for event in events)
    assert "".join([collector.take(event) for event in events]) == emitted
    assert collector.is_whole
    assert read_response(VENDOR, Answer(200, collector.body(), {})).text == "A."


@pytest.mark.parametrize("fault", ["stream_cut", "stream_end", "stream_error"])
def test_a_broken_stream_is_sent_again(driver: Driver, model_server: ModelServer, fault: Any):
    play(model_server, [Reply(text="One two three.", fault=fault, after=2), "One two three."])
    job = driver.run_new(stream=True)
    assert (job.stop_reason, (job.result or {})["final_answer"]) == ("accepted", "One two three.")
    assert [(call.type, call.status) for call in driver.calls(job.id)].count(("generate", "failed")) == 2


def test_models_check_calls_such_a_model(driver: Driver, model_server: ModelServer):
    play(model_server)
    assert check_model(driver.services, "openai:x-codex").is_ok
