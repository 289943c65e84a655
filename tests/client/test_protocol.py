"""The rules of the client's conversation, without a server: what is repeated, and how responses are read."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from redraft_client import ApiError, RedraftError, Retries, ServerNotReached, UnexpectedResponse
from redraft_client._events import Follower
from redraft_client._operations import path
from redraft_client._protocol import Failure, Reply, Request, Response, Sleep, exchange, get, post, query, read
from redraft_client.errors import _ADVICE
from redraft_client.models import Job, Run

OK = Response(200, {}, b"{}")
CUT = Failure("cut", is_sent=True)
REFUSED = Failure("no connection", is_sent=False)
WITH_KEY = post("/v1/generate-answer", {}, idempotency_key="k")
ACTS_TWICE = post("/v1/jobs/job_1/continue", {})
PROBLEM: dict[str, Any] = {
    "type": "urn:redraft:error:unavailable", "title": "t", "status": 503, "code": "unavailable", "detail": "None.",
    "instance": "/v1/jobs", "request_id": "req_1", "retryable": True, "errors": [],
}  # fmt: skip
JOB: dict[str, Any] = {
    "id": "job_1", "kind": "generate_answer", "status": "succeeded", "stop_reason": "accepted", "created_at": "…",
    "started_at": None, "finished_at": "…", "result": None, "warnings": [], "error": None, "metadata": {},
    "version": 3, "continuations": 0, "urls": {}, "request": {"instruct": "x"},
    "progress": {"iteration": 1, "iter_max": 3, "step": None, "best_score": None, "best_iteration": None,
                 "score_threshold": 0.8},
    "usage": {"calls": 1, "input_tokens": 1, "cached_input_tokens": 0, "cache_write_tokens": 0, "output_tokens": 1,
              "reasoning_tokens": 0, "cost_usd": None},
}  # fmt: skip
RESULT: dict[str, Any] = {
    "final_answer": "a", "success": True, "total_iterations": 1, "final_score": 0.9, "best_iteration": 1,
    "citations": [], "sources_used": [], "sources_provided": 0, "unsupported_claims": [], "input_tokens": 1,
    "output_tokens": 1,
}  # fmt: skip


def status(code: int, **headers: str) -> Response:
    return Response(code, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


def converse(
    request: Request, replies: Sequence[Response | Failure], retries: Retries | None = None
) -> tuple[Response | RedraftError, list[float], list[Request]]:
    """Play a server. Returns the result, the pauses and the requests."""
    steps, waiting = exchange(request, retries or Retries()), list(replies)
    pauses: list[float] = []
    requests: list[Request] = []
    reply: Reply = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as end:
            return end.value, pauses, requests
        except RedraftError as error:
            return error, pauses, requests
        if isinstance(step, Sleep):
            pauses.append(step.seconds)
            reply = None
        else:
            requests.append(step)
            reply = waiting.pop(0)


@pytest.mark.parametrize(
    "request_", [get("/v1/jobs"), WITH_KEY, Request("DELETE", "/v1/jobs/job_1", is_repeatable=True)]
)
@pytest.mark.parametrize("reply", [CUT, REFUSED, status(429), status(502), status(503), status(504), status(408)])
def test_a_repeatable_request_is_repeated_after_failures_that_may_pass(request_: Request, reply: Response | Failure):
    result, pauses, requests = converse(request_, [reply, reply, OK])
    assert result is OK
    assert requests == [request_] * 3
    assert 0 < pauses[0] < pauses[1]


@pytest.mark.parametrize(("reply", "attempts"), [(CUT, 1), (status(503), 1), (status(429), 2), (REFUSED, 2)])
def test_a_request_that_acts_twice_is_repeated_only_if_the_server_did_not_act(reply: Response | Failure, attempts: int):
    assert len(converse(ACTS_TWICE, [reply, OK])[2]) == attempts


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 413, 415, 422, 500])
def test_what_cannot_heal_is_not_repeated(code: int):
    result, pauses, _ = converse(get("/v1/jobs"), [status(code)])
    assert isinstance(result, ApiError)
    assert (result.status, pauses) == (code, [])


def test_attempts_are_limited():
    result, pauses, requests = converse(WITH_KEY, [CUT] * 9, Retries(attempts=3))
    assert isinstance(result, ServerNotReached)
    assert (result.idempotency_key, len(pauses), len(requests)) == ("k", 2, 3)
    assert len(converse(WITH_KEY, [CUT], Retries(attempts=1))[2]) == 1


def test_the_server_says_how_long_to_wait():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(days=3), usegmt=True)
    for text, low, high in [("7", 7, 7), (later, 28, 30), (past, 0.3, 0.7), ("-5", 0.3, 0.7), ("soon", 0.3, 0.7)]:
        _, [pause], _ = converse(get("/v1/jobs"), [status(429, retry_after=text), OK])
        assert low <= pause <= high, text


def test_a_date_is_read_by_the_clock_of_the_server():
    then, later = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 0, 0, 9, tzinfo=UTC)
    dates = {"date": format_datetime(then, usegmt=True), "retry_after": format_datetime(later, usegmt=True)}
    assert converse(get("/v1/jobs"), [status(503, **dates), OK])[1] == [9]


def test_a_wait_that_is_too_long_is_an_error_that_names_it():
    result, pauses, _ = converse(get("/v1/jobs"), [status(429, retry_after="3600")])
    assert isinstance(result, ApiError)
    assert (result.retry_after_s, result.retryable, pauses) == (3600, True, [])


def test_no_attempt_begins_after_the_end():
    steps = exchange(get("/v1/jobs"), Retries(), until=0)
    next(steps)
    with pytest.raises(ServerNotReached):
        steps.send(CUT)


def test_an_error_says_what_is_wrong_and_what_to_do():
    errors = [{"pointer": "/iter_max", "detail": "must be at least 1", "code": "greater_than_equal"}]
    body = {**PROBLEM, "status": 422, "code": "invalid_request", "detail": "/iter_max: …", "errors": errors, "more": 1}
    result, _, _ = converse(WITH_KEY, [Response(422, {}, json.dumps(body).encode())])
    assert isinstance(result, ApiError)
    assert str(result) == f"422 invalid_request: /iter_max: … {_ADVICE[422]} (request req_1)"
    assert result.errors[0].pointer == "/iter_max"


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (Response(404, {}, b"<html><h1>nginx</h1></html>"), "http_404", "not Redraft's API answered: <html>"),
        (Response(307, {"location": "https://other/"}, b""), "redirected", "redirects to https://other/"),
        (Response(500, {"x-request-id": "r1"}, b"\xff" * 5000), "http_500", r"\(request r1\)"),
    ],
)
def test_the_answer_of_another_server_is_named(reply: Response, code: str, words: str):
    result, _, _ = converse(get("/v1/jobs"), [reply])
    assert isinstance(result, ApiError)
    assert result.code == code
    with pytest.raises(ApiError, match=words):
        raise result
    assert len(str(result)) < 1000


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"id": "job_1"}', b"\xff"])
def test_a_good_status_with_another_body_is_an_error(body: bytes):
    with pytest.raises(UnexpectedResponse, match="not a Job"):
        read(Job, Response(200, {}, body))


def job(**fields: Any) -> Job:
    return read(Job, Response(200, {}, json.dumps({**JOB, **fields}).encode()))


def test_what_a_newer_server_adds_is_kept():
    found = job(color="blue", stop_reason="bored", result={**RESULT, "mood": 1}, request={"instruct": "x", "new": []})
    assert (found.stop_reason, found.is_accepted) == ("bored", True)
    assert found.model_dump()["color"] == "blue"
    assert found.request["new"] == []


@pytest.mark.parametrize(
    ("fields", "has_ended"),
    [({"status": "archived"}, True), ({"status": "paused", "finished_at": None}, False), ({"status": "failed"}, True)],
)
def test_an_unknown_status_is_no_success(fields: dict[str, Any], *, has_ended: bool):
    found = job(result=RESULT, **fields)
    assert (found.has_ended, found.is_accepted) == (has_ended, False)


@pytest.mark.parametrize("success", ["yes", "true", 1, []])
def test_only_true_is_a_success(success: Any):
    with pytest.raises(UnexpectedResponse, match="success"):
        job(result={**RESULT, "success": success})
    assert not job(result={**RESULT, "success": None}).is_accepted


def test_a_run_ends_when_its_jobs_have_ended():
    counts = dict.fromkeys(("total", "queued", "running", "succeeded", "failed", "canceled", "invalid", "accepted"), 0)
    body: dict[str, Any] = {
        "id": "run_1", "name": "n", "dataset_id": "ds_1", "created_at": "…", "usage": JOB["usage"], "repeat": 1,
        "max_in_flight": 1, "defaults": {}, "overrides": {}, "version": 1, "urls": {},
    }  # fmt: skip
    for state, finished_at, running, has_ended in [
        ("running", None, 1, False), ("canceled", "…", 1, False), ("canceled", "…", 0, True),
        ("paused", None, 0, False),
    ]:  # fmt: skip
        fields = {"status": state, "finished_at": finished_at, "counts": {**counts, "running": running}}
        run = read(Run, Response(200, {}, json.dumps({**body, **fields}).encode()))
        assert run.has_ended is has_ended, state


def test_parameters_are_written_as_the_api_reads_them():
    found = query({"status": ["failed", "queued"], "limit": 5, "after": None, "full": True, "metadata": {"a": "b c"}})
    assert sorted(found) == [
        ("full", "true"), ("limit", "5"), ("metadata.a", "b c"), ("status", "failed"), ("status", "queued"),
    ]  # fmt: skip
    assert path("jobs", "../keys?x#y", "cancel") == "/v1/jobs/..%2Fkeys%3Fx%23y/cancel"


def test_a_stream_is_resumed_where_it_was_cut_and_ends_with_204():
    follower = Follower("/v1/jobs/job_1/events", 0, Retries())
    assert "Last-Event-ID" not in follower.request().headers
    follower.opened()
    lines = ["retry: 1000", ": events follow", "", "id: 4", "event: job.started", 'data: {"message": "m", "at": "…",']
    assert [follower.feed(line) for line in lines] == [None] * 6
    # The stream is cut within an event
    follower.interrupted(CUT)
    assert (follower.is_over, follower.request().headers.get("Last-Event-ID")) == (False, None)
    follower.opened()
    for line in [
        "id: 4",
        "event: job.started",
        'data: {"message": "m",',
        'data: "at": "2026-01-01T00:00:00Z", "new": 1}',
    ]:
        assert follower.feed(line) is None
    event = follower.feed("")
    assert event is not None
    assert (event.type, event.id, event.data.message) == ("job.started", 4, "m")
    assert follower.request().headers["Last-Event-ID"] == "4"
    follower.answered(status(204))
    assert follower.is_over


def test_a_stream_that_the_server_refuses_is_an_error():
    follower = Follower("/v1/jobs/job_1/events", 0, Retries(attempts=2))
    for _ in range(5):
        follower.answered(status(503))
    with pytest.raises(ApiError):
        follower.answered(status(503))
    with pytest.raises(ApiError):
        Follower("/v1/jobs/job_1/events", 0, Retries()).answered(status(404))
