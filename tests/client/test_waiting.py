"""How the client waits for a job: by long polls that end in time, without asking more often than it must."""

import json
from typing import Any

import pytest
from redraft_client import ApiError, Retries, UnexpectedResponse, WaitTimeout
from redraft_client._operations import Operations
from redraft_client._protocol import Request, Response, Sleep, Steps

from tests.client.test_protocol import JOB, status

UNCHANGED = status(304)


def job(**fields: Any) -> Response:
    return Response(200, {}, json.dumps({**JOB, **fields}).encode())


RUNNING = job(status="running", finished_at=None, version=7)


def begin(timeout_s: float = 900.0) -> tuple[Steps[Any], Request]:
    steps = Operations(Retries()).wait_for_job("job_1", timeout_s)
    first = next(steps)
    assert isinstance(first, Request)
    return steps, first


def test_the_server_holds_the_response_until_there_is_news():
    steps, first = begin()
    assert (first.headers.get("Prefer"), first.headers.get("If-None-Match")) == ("wait=50", None)
    assert first.wait_s == pytest.approx(50, abs=1)
    second = steps.send(RUNNING)
    assert isinstance(second, Request)
    assert second.headers["If-None-Match"] == '"7"'
    with pytest.raises(StopIteration) as end:
        steps.send(job())
    assert end.value.value.status == "succeeded"


def test_a_server_that_ignores_the_wish_is_asked_once_a_second():
    steps, _ = begin()
    steps.send(RUNNING)
    pause = steps.send(UNCHANGED)
    assert isinstance(pause, Sleep)
    assert 0.9 <= pause.seconds <= 1
    assert isinstance(steps.send(None), Request)
    # So is a server that sends the same version again
    assert isinstance(steps.send(RUNNING), Sleep)


def test_the_last_poll_ends_with_the_time():
    _, first = begin(timeout_s=3.9)
    assert (first.headers["Prefer"], int(first.wait_s)) == ("wait=3", 3)


@pytest.mark.parametrize("timeout_s", [0, -1])
def test_without_time_the_job_is_read_once(timeout_s: float):
    steps, first = begin(timeout_s)
    assert "Prefer" not in first.headers
    with pytest.raises(WaitTimeout) as caught:
        steps.send(RUNNING)
    assert caught.value.last.version == 7


def test_a_restart_of_the_server_does_not_end_the_wait():
    steps, _ = begin()
    again = steps.send(RUNNING)
    for _ in range(10):
        assert isinstance(steps.send(status(503)), Sleep)
        again = steps.send(None)
    assert isinstance(again, Request)
    assert again.headers["If-None-Match"] == '"7"'
    with pytest.raises(ApiError, match="404"):
        steps.send(status(404))


def test_an_unchanged_job_that_was_never_read_is_an_error():
    steps, _ = begin()
    with pytest.raises(UnexpectedResponse):
        steps.send(UNCHANGED)
