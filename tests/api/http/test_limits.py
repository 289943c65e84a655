import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import httpx2
import pytest
from starlette.types import Message, Receive, Scope, Send

from api.http.bodies import BodyLimit, Bound
from api.http.problems import HttpProblem
from tests.api.conftest import REQUEST, assert_problem
from tests.support.api_server import ApiServer
from tests.support.waiting import patient

MEGABYTE = b" " * 1_000_000


def test_an_announced_body_that_is_too_large_is_a_problem(client: httpx2.Client):
    problem = assert_problem(
        client.post("/v1/generate-answer", content=MEGABYTE * 50, headers={"Content-Type": "application/json"}),
        413,
        "body_too_large",
    )
    assert "8,000,000 bytes (REDRAFT_MAX_BODY_BYTES)" in problem["detail"]
    assert client.get("/v1/jobs").json()["data"] == []


def test_a_body_of_unknown_length_is_cut_off(client: httpx2.Client):
    def chunks() -> Iterator[bytes]:
        for _ in range(50):
            yield MEGABYTE

    headers = {"Content-Type": "application/json"}
    assert_problem(client.post("/v1/generate-answer", content=chunks(), headers=headers), 413)


def test_the_answer_comes_before_the_body_is_over(start_api: Callable[..., ApiServer]):
    api = start_api(max_body_bytes=2048)
    with socket.create_connection(("127.0.0.1", api.port), timeout=patient(5)) as connection:
        connection.sendall(
            b"POST /v1/generate-answer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n1000\r\n" + b" " * 4096 + b"\r\n"
        )
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in received


_ASKED: Message = {"type": "http.request", "body": b"{", "more_body": True}
_LEFT: Message = {"type": "http.disconnect"}


async def _read_all(_scope: Scope, receive: Receive, _send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _serve_slowly(messages: Sequence[Message], pause_s: float, patience_s: float) -> None:
    waiting = iter(messages)

    async def receive() -> Message:
        await asyncio.sleep(pause_s)
        return next(waiting)

    async def send(_message: Message) -> None:
        raise AssertionError("nothing is sent")

    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    asyncio.run(BodyLimit(_read_all, Bound(1000, "LIMIT", patience_s), {})(scope, receive, send))


@pytest.mark.parametrize(("pause_s", "patience_s"), [(60.0, 0.02), (0.01, 0.1)])
def test_a_body_that_stops_or_comes_in_drops_is_not_waited_for(pause_s: float, patience_s: float):
    with pytest.raises(HttpProblem) as raised:
        _serve_slowly([_ASKED] * 900, pause_s, patience_s)
    assert (raised.value.status_code, raised.value.code) == (408, "body_too_slow")


def test_a_client_that_stays_behind_its_body_is_not_held_to_the_time_for_bodies():
    _serve_slowly([{**_ASKED, "more_body": False}, _LEFT], 0.3, 0.5)


@pytest.mark.parametrize("spare", [0, -1])
def test_the_limit_is_exact(start_api: Callable[..., ApiServer], spare: int):
    client = start_api(max_body_bytes=2000).client()
    body = b'{"instruct": "i", "eval_crit": "c"}'.ljust(2000 - spare)
    response = client.post("/v1/generate-answer", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == (202 if spare == 0 else 413)


def test_a_large_request_within_the_limit_is_taken(client: httpx2.Client):
    body = {**REQUEST, "instruct": "ü" * 200_000, "reference": "r" * 200_000}
    response = client.post("/v1/generate-answer", json=body)
    assert response.status_code == 202
    assert client.get(response.headers["location"]).json()["request"]["instruct"] == "ü" * 200_000


def test_a_schema_that_is_expensive_to_prepare_keeps_no_other_request_waiting(api: ApiServer):
    patterns = {f"p{n}": {"pattern": rf"\pL{{60}}{n}"} for n in range(2000)}
    rubric = [
        {"id": "a", "text": "a", "kind": "check", "check": {"kind": "json_schema", "value": {"properties": patterns}}}
    ]
    answered = threading.Event()
    answers: list[httpx2.Response] = []

    def submit() -> None:
        with api.client() as client:
            answers.append(
                client.post("/v1/generate-answer", json={"instruct": "i", "rubric": rubric}, timeout=patient(60))
            )
        answered.set()

    sender = threading.Thread(target=submit)
    submitted_at = time.monotonic()
    sender.start()
    waits = [0.0]
    with api.client() as client:
        while not answered.is_set():
            started_at = time.monotonic()
            client.get("/livez")
            waits.append(time.monotonic() - started_at)
    took = time.monotonic() - submitted_at
    sender.join()
    assert_problem(answers[0], 422)
    assert "too expensive" in answers[0].text
    assert max(waits) < took / 2
