"""A batch from its submission to its replies, in both wire formats."""

import json
from typing import Any

import pytest

from redraft.domain.calls.conversation import Media
from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.batches.batch_endpoint import BatchLine, BatchRequest, BatchState, LineKind
from redraft.providers.shared.protocol import NotExecuted, UnusableReply
from redraft.providers.shared.transport import CALLS_LOOP
from tests.model_server import BatchScript, ModelServer, Reply
from tests.providers.batches.conftest import Client, MakeClient
from tests.providers.conftest import OPENAI_KEY, VERDICT


def error_of(client: Client, line: BatchLine, **rest: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        client.reply(line, **rest)
    return caught.value


def test_a_batch_has_the_same_replies_as_live_calls(client: Client, server: ModelServer):
    server.script(
        generate=[Reply(text="two", usage={"input": 70, "output": 7, "cached": 50, "reasoning": 3})], case="2"
    )
    lines = client.run()
    assert [line.kind for line in lines.values()] == [LineKind.ANSWERED] * 3
    live = client.catalog.get(ModelRef(client.endpoint.name, "test-model"))
    for number in "123":
        expected = CALLS_LOOP.run(live.send(client.body(f"hello [[case:{number}]]"), timeout_s=10))
        found = client.reply(lines[f"call_{number}"])
        assert (found.usage, found.finish_reason) == (expected.usage, expected.finish_reason)
        assert (found.http_status, bool(found.text)) == (200, True)
    assert client.reply(lines["call_2"]).text == "two"


def test_structured_output_is_asked_for_in_a_batch_as_in_a_live_call(client: Client, server: ModelServer):
    server.script(evaluate=[0.75])
    lines = client.run(1, reply_schema=VERDICT)
    assert json.loads(client.reply(lines["call_1"]).text)["score"] == 0.75


def test_the_results_are_matched_by_id_and_not_by_order(client: Client, server: ModelServer):
    server.script(generate=[])
    file = client.file(20)
    found = client.lines(client.ended(client.submit(file)), file)
    assert [line.call_id for line in found] != list(file.call_ids)
    assert sorted(line.call_id for line in found) == sorted(file.call_ids)
    assert [line.number for line in found] == list(range(1, 21))


def test_a_batch_reports_its_progress(client: Client, server: ModelServer):
    server.script(batch=BatchScript(polls=3))
    file = client.file(4)
    batch = client.submit(file)
    assert batch.expires_at
    assert batch.created_at
    seen = [batch]
    while not seen[-1].state.is_ended:
        seen.append(client.read(batch))
    running = {
        "openai": [BatchState.VALIDATING, BatchState.IN_PROGRESS, BatchState.IN_PROGRESS, BatchState.FINALIZING],
        "anthropic": [BatchState.IN_PROGRESS] * 4,
    }
    assert [each.state for each in seen] == [*running[client.format], BatchState.COMPLETED]
    assert [each.counts.total for each in seen] == [4] * 5
    assert seen[-1].counts.succeeded == 4
    assert seen[-1].ended_at


def test_a_state_that_nobody_has_seen_is_polled_again(client: Client, server: ModelServer):
    server.script(batch=BatchScript(state="dreaming", polls=2))
    batch = client.submit(client.file())
    assert (batch.state, batch.reported_state, batch.state.is_ended) == (BatchState.UNKNOWN, "dreaming", False)
    assert client.ended(batch).state == BatchState.COMPLETED


def test_a_batch_that_is_refused_as_a_whole_has_a_reason_and_no_results(make_client: MakeClient, server: ModelServer):
    server.script(batch=BatchScript(end="failed", error=f"Line 1: bad key {OPENAI_KEY}."))
    client = make_client("openai")
    file = client.file()
    batch = client.ended(client.submit(file))
    assert batch.state == BatchState.FAILED
    assert batch.error.startswith("Line 1: bad key")
    assert OPENAI_KEY not in batch.error
    assert client.lines(batch, file) == []


def test_a_batch_for_which_the_queue_is_too_full_can_be_submitted_again(make_client: MakeClient, server: ModelServer):
    words = (
        "Enqueued token limit reached for test-model. Please try again once some in_progress batches have completed."
    )
    server.script(batch=BatchScript(end="failed", error=words, polls=0))
    client = make_client("openai")
    file = client.file()
    batch = client.submit(file)
    assert (batch.state, batch.is_queue_full, batch.error) == (BatchState.FAILED, True, words)
    assert client.find(file) is None
    server.script(batch=BatchScript(polls=0))
    again = client.submit(file)
    assert (again.state, again.is_queue_full) == (BatchState.COMPLETED, False)
    assert client.find(file) == again


@pytest.mark.parametrize("done", [0, 1])
def test_what_an_expired_batch_has_not_executed_is_transient_and_free(client: Client, server: ModelServer, done: int):
    server.script(batch=BatchScript(end="expired", done=done))
    lines = client.run()
    kinds = [lines[call_id].kind for call_id in ("call_1", "call_2", "call_3")]
    assert kinds == [*[LineKind.ANSWERED] * done, *[LineKind.EXPIRED] * (3 - done)]
    error = error_of(client, lines["call_3"])
    assert isinstance(error, NotExecuted)
    assert (error.code, error.retryable) == ("provider_timeout", True)
    assert sum(sum(batch.answered.values()) for batch in server.batches()) == done


def test_a_canceled_batch_keeps_what_had_ended(client: Client, server: ModelServer):
    server.script(batch=BatchScript(done=1, is_held=True))
    file = client.file()
    batch = client.cancel(client.submit(file))
    assert batch.state == BatchState.CANCELING
    batch = client.ended(batch)
    # Anthropic does not say whether a batch that has ended was canceled
    assert batch.state == (BatchState.CANCELED if client.format == "openai" else BatchState.COMPLETED)
    lines = {line.call_id: line for line in client.lines(batch, file)}
    assert client.reply(lines["call_1"]).text
    error = error_of(client, lines["call_2"])
    assert isinstance(error, NotExecuted)
    assert (error.code, error.retryable) == ("canceled", False)


def test_a_batch_that_has_ended_is_not_canceled(client: Client):
    batch = client.ended(client.submit(client.file()))
    assert client.cancel(batch).state == BatchState.COMPLETED


@pytest.mark.parametrize(
    ("reply", "code", "retryable"),
    [
        (Reply(status=429), "provider_rate_limited", True),
        (Reply(status=500), "provider_unavailable", True),
        (Reply(fault="reset"), "provider_unavailable", True),
        (Reply(fault="line_error"), "provider_unavailable", True),
        (Reply(status=413), "context_too_long", False),
        (Reply(text="cut", finish="max_tokens"), "output_truncated", False),
        (Reply(text="No.", finish="refusal"), "refused", False),
        (Reply(text=""), "empty_output", False),
        (Reply(text="part", finish="pause_turn"), "provider_unavailable", True),
        (Reply(raw="<html>Bad gateway</html>"), "provider_unavailable", True),
        (Reply(raw={}), "empty_output", False),
    ],
)
def test_an_error_of_one_line_is_read_by_the_rules_of_live_calls(
    client: Client,
    server: ModelServer,
    reply: Reply,
    code: str,
    retryable: bool,  # noqa: FBT001 - a column of the table
):
    server.script(generate=[reply], case="2")
    lines = client.run()
    error = error_of(client, lines["call_2"])
    assert (error.code, error.retryable) == (code, retryable)
    assert client.reply(lines["call_1"]).text
    assert client.reply(lines["call_3"]).text


def test_an_unusable_reply_of_a_batch_has_its_cost(client: Client, server: ModelServer):
    server.script(generate=[Reply(text="cut", finish="max_tokens", usage={"input": 40, "output": 9})])
    error = error_of(client, client.run(1)["call_1"])
    assert isinstance(error, UnusableReply)
    assert (error.usage.input_tokens, error.usage.output_tokens, error.text) == (40, 9, "cut")


def test_a_refused_parameter_is_left_out_of_later_requests(client: Client, server: ModelServer):
    server.script(quirks=("no_temperature",))
    lines = client.run(1, temperature=0.5)
    error = error_of(client, lines["call_1"], temperature=0.5)
    assert (error.code, error.is_adapted) == ("provider_bad_request", True)
    assert "temperature" not in client.body(temperature=0.5)


def test_lines_that_are_no_results_change_no_call(client: Client, server: ModelServer):
    for number, fault in enumerate(("line_malformed", "line_cut", "line_duplicate", "line_missing"), 1):
        server.script(generate=[Reply(text="same", fault=fault)], case=str(number), batch=BatchScript(foreign=1))
    file = client.file(5)
    lines = client.lines(client.ended(client.submit(file)), file)
    kinds = sorted((line.call_id, line.kind) for line in lines)
    assert kinds == [
        ("", LineKind.MALFORMED),
        ("", LineKind.MALFORMED),
        ("call_3", LineKind.ANSWERED),
        ("call_3", LineKind.DUPLICATE),
        ("call_5", LineKind.ANSWERED),
        ("call_of_nobody_0", LineKind.FOREIGN),
    ]
    evidence = {line.kind: line.text for line in lines}
    assert "not JSON" in evidence[LineKind.MALFORMED] or "custom_id" in evidence[LineKind.MALFORMED]
    assert "Not yours." in evidence[LineKind.FOREIGN]
    assert evidence[LineKind.ANSWERED] == ""


@pytest.mark.parametrize(
    ("wire_format", "line"),
    [
        ("openai", {"custom_id": "call_1", "response": {"status_code": "200", "body": {}}, "error": None}),
        ("openai", {"custom_id": "call_1", "response": None, "error": None}),
        ("openai", {"custom_id": 1, "response": {"status_code": 200, "body": {}}}),
        ("openai", ["call_1"]),
        ("anthropic", {"custom_id": "call_1", "result": {"type": "postponed"}}),
        ("anthropic", {"custom_id": "call_1", "result": "succeeded"}),
        ("anthropic", {"custom_id": None, "result": {"type": "expired"}}),
    ],
)
def test_a_line_of_an_unknown_form_is_no_result(make_client: MakeClient, wire_format: str, line: Any):
    client = make_client(wire_format)
    path = client.folder / "results.jsonl"
    path.write_text(f"\n{json.dumps(line)}\n\n", "utf-8")
    [found] = client.endpoint.lines(path, ["call_1"])
    assert (found.kind, found.number) == (LineKind.MALFORMED, 1)
    with pytest.raises(ValueError, match="has no reply"):
        client.endpoint.reply(found, {})


def test_the_evidence_of_a_line_has_no_secret(make_client: MakeClient):
    client = make_client("openai")
    path = client.folder / "results.jsonl"
    path.write_text(f"what is {OPENAI_KEY}?\n", "utf-8")
    [found] = client.endpoint.lines(path, ["call_1"])
    assert "what is" in found.text
    assert OPENAI_KEY not in found.text


def test_an_error_of_an_unknown_type_is_transient(make_client: MakeClient):
    client = make_client("anthropic")
    path = client.folder / "results.jsonl"
    error = {"type": "error", "error": {"type": "new_error", "message": "What?"}}
    path.write_text(json.dumps({"custom_id": "call_1", "result": {"type": "errored", "error": error}}), "utf-8")
    [found] = client.endpoint.lines(path, ["call_1"])
    assert error_of(client, found).code == "provider_unavailable"


def test_attachments_are_sent_in_a_batch(client: Client, server: ModelServer):
    image = Media("Image 1:", "image/png", "a" * 64, 4)
    request = BatchRequest("call_1", client.body("What is it?", media=(image,)), {"a" * 64: "iVBORw0KGgo="})
    [file] = client.files([request])
    [line] = client.lines(client.ended(client.submit(file)), file)
    assert client.endpoint.reply(line, request.body).text
    [entry] = server.requests()
    assert "iVBORw0KGgo=" in json.dumps(entry.body)
    assert entry.custom_id == "call_1"


def test_a_streamed_request_is_no_request_of_a_batch(client: Client):
    with pytest.raises(ValueError, match="cannot be streamed"):
        client.file(1, stream=True)


def test_models_of_the_responses_api_have_batches_of_their_own(make_client: MakeClient, server: ModelServer):
    client = make_client("openai")
    body = {"model": "test-model", "input": [{"role": "user", "content": "hello"}], "store": False}
    chat, responses = client.files([*client.requests(1), BatchRequest("call_9", body)])
    assert (chat.url, responses.url) == ("/v1/chat/completions", "/v1/responses")
    [line] = client.lines(client.ended(client.submit(responses)), responses)
    assert client.endpoint.reply(line, body).text
