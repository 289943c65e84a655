"""Requests to users' addresses: where they may go, what is sent there, how long they may take."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from redraft.domain.admin.address_rules import Allowed
from redraft.domain.admin.urls import read_url
from redraft.errors import Forbidden, Unavailable
from redraft.outbound import Reply, Sender, resolve
from tests.support.receiver import LOOPBACK, Answer, Receiver
from tests.support.waiting import patient

HERE = Allowed.parse(LOOPBACK)


class Names:
    """A resolver that answers as it is told, and tells what it was asked."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[tuple[str, int]] = []
        self._answers = list(answers)

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def post(sender: Sender, url: str, body: bytes = b"{}") -> Reply:
    return sender.post(read_url(url), {"Content-Type": "application/json"}, body)


def status_of(reply: Reply) -> tuple[int, str | None]:
    return reply.status, reply.retry_after


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that speaks no HTTP of its own: `serve` has the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(patient(10))
        assert not thread.is_alive()


def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked():
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    with Receiver() as receiver:
        url = f"http://hooks.example:{receiver.port}/a?b=c"
        assert status_of(post(Sender(HERE, resolver=names), url)) == (200, None)
        [hit] = receiver.hits
        assert (hit.path, hit.headers["host"]) == ("/a?b=c", f"hooks.example:{receiver.port}")
        assert names.asked == [("hooks.example", receiver.port)]


def test_a_name_that_is_bound_anew_leads_nowhere():
    names = Names(["93.184.215.14"], ["127.0.0.1"])
    with Receiver() as receiver:
        url = f"http://hooks.example:{receiver.port}/"
        assert names("hooks.example", receiver.port) == ["93.184.215.14"]  # what a check before would have seen
        with pytest.raises(Forbidden) as refused:
            post(Sender(Allowed(), resolver=names), url)
        assert refused.value.code == "address_not_allowed"
        assert receiver.hits == []


@pytest.mark.parametrize(
    "answers",
    [["10.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["fe80::1%lo"]],
)
def test_one_inner_address_refuses_the_whole_name(answers: list[str]):
    with pytest.raises(Forbidden, match="not public"):
        post(Sender(Allowed(), resolver=Names(answers)), "http://hooks.example/")


# Case E14
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "localhost"])
def test_no_spelling_of_this_machine_is_reached(host: str):
    with Receiver() as receiver:
        with pytest.raises((Forbidden, Unavailable)) as refused:
            post(Sender(Allowed(), resolver=resolve), f"http://{host}:{receiver.port}/")
        assert refused.value.code == "address_not_allowed" or host == "[::1]"
        assert receiver.hits == []


def test_proxies_of_the_environment_are_not_taken(monkeypatch: pytest.MonkeyPatch):
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        post(Sender(HERE), receiver.url)
        assert (len(receiver.hits), proxy.hits) == (1, [])


# Case E14
def test_redirects_are_not_followed():
    with Receiver() as elsewhere, Receiver(Answer(307, {"Location": elsewhere.url})) as receiver:
        assert post(Sender(HERE), receiver.url).status == 307
        assert elsewhere.hits == []


def test_the_next_address_is_tried_where_the_first_takes_no_connection():
    names = Names(["127.0.0.2", "127.0.0.1"])
    with Receiver() as receiver:
        assert post(Sender(HERE, resolver=names), f"http://hooks.example:{receiver.port}/").status == 200


def test_over_tls_the_name_is_asked_for_at_the_checked_address():
    hello: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        hello.append(connection.recv(8192))

    with raw_server(serve) as port, pytest.raises(Unavailable):
        post(Sender(HERE, resolver=Names(["127.0.0.1"])), f"https://hooks.example:{port}/")
    assert b"hooks.example" in hello[0]


def test_a_receiver_that_never_answers_costs_the_limit_and_no_more():
    go_on = threading.Event()
    with Receiver(Answer(before=lambda: go_on.wait(patient(60)))) as receiver:
        with pytest.raises(Unavailable, match="longer than"):
            post(Sender(HERE, total_s=0.3), receiver.url)
        go_on.set()


def test_a_receiver_that_drips_is_held_to_the_same_clock():
    stop = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        try:
            while not stop.wait(0.02):
                connection.sendall(b"x")
        except OSError:
            return

    with raw_server(drip) as port:
        started_at = time.monotonic()
        with pytest.raises(Unavailable, match="longer than"):
            post(Sender(HERE, total_s=0.5), f"http://127.0.0.1:{port}/")
        assert time.monotonic() - started_at < patient(2)
        stop.set()


def test_an_endless_answer_is_left():
    def pour(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            return

    with raw_server(pour) as port:
        assert status_of(post(Sender(HERE), f"http://127.0.0.1:{port}/")) == (200, None)


def test_a_body_that_breaks_off_does_not_undo_the_answer():
    def cut(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 204 No\r\nRetry-After: 5\r\nContent-Length: 100\r\n\r\nxx")

    with raw_server(cut) as port:
        assert status_of(post(Sender(HERE), f"http://127.0.0.1:{port}/")) == (204, "5")


@pytest.mark.parametrize("answer", [b"", b"\x00\x01\x02", b"SSH-2.0-x\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_what_is_no_http_is_no_answer(answer: bytes):
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    with raw_server(serve) as port, pytest.raises(Unavailable) as failed:
        post(Sender(HERE), f"http://127.0.0.1:{port}/secret-path")
    assert "secret-path" not in failed.value.message


def test_a_closed_port_and_a_name_without_address_are_no_answers():
    # Bound, so that no other program listens there
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="cannot be connected"):
            post(Sender(HERE), f"http://127.0.0.1:{closed.getsockname()[1]}/")
    with pytest.raises(Unavailable, match="no address"):
        post(Sender(HERE, resolver=Names([])), "http://hooks.example/")

    def fail(_host: str, _port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    with pytest.raises(Unavailable, match="cannot be resolved"):
        post(Sender(HERE, resolver=fail), "http://hooks.example/")
    with pytest.raises(Unavailable, match="cannot be resolved"):
        post(Sender(HERE), "http://" + "a" * 70 + ".example/")  # longer than a label may be
    with pytest.raises(Forbidden, match="no address"):
        post(Sender(HERE, resolver=Names(["what?"])), "http://hooks.example/")
