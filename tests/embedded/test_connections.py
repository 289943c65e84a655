"""Connections whose clients are slow, on a real socket."""

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from redraft.embedded.api_server import BoundedHeads
from tests.support.waiting import patient, wait_until

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Impatient(BoundedHeads):
    head_s = 0.3


async def answer(scope, receive, send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    server = uvicorn.Server(uvicorn.Config(answer, port=0, log_config=None, lifespan="off", http=Impatient))
    thread = threading.Thread(target=server.run)
    thread.start()
    port = wait_until(lambda: server.started and server.servers[0].sockets[0].getsockname()[1])
    with socket.create_connection(("127.0.0.1", port), timeout=patient(20)) as made:
        yield made
    server.should_exit = True
    thread.join()


def is_answered(connection: socket.socket) -> bool:
    with connection.makefile("rb") as read:
        return any(line == b"\r\n" for line in read) and read.read(2) == b"ok"


def has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "])
def test_a_head_that_does_not_end_ends_its_connection(connection: socket.socket, head: bytes):
    connection.sendall(head)
    assert has_ended(connection)


def test_a_later_slow_head_ends_its_connection_too(connection: socket.socket):
    connection.sendall(REQUEST)
    assert is_answered(connection)
    connection.sendall(REQUEST[:20])
    assert has_ended(connection)


def test_a_slow_body_has_its_time(connection: socket.socket):
    connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
    assert is_answered(connection)
