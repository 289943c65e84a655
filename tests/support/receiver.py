"""A receiver of webhooks on a real socket. It keeps each request, and sends the answers that a test sets."""

import base64
import contextlib
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from pydantic import SecretStr

from tests.support.waiting import patient, wait_until

SECRET = "whsec_" + base64.b64encode(b"a key of the tests, 32 bytes long").decode()
LOOPBACK = "127.0.0.0/8"
SIGNED: dict[str, Any] = {"webhook_secret": SecretStr(SECRET), "webhook_allow_private": LOOPBACK}


@dataclass(frozen=True)
class Hit:
    """A request as the receiver read it."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    before: Callable[[], object] | None = None
    """This is called after the request is read and before the answer is sent."""
    raw: bytes | None = None
    """These bytes are sent instead of an answer in HTTP."""


def verify(hit: Hit, secret: str = SECRET) -> dict[str, Any]:
    """Check the signature as docs/webhooks.md shows it, and return the payload."""
    assert is_signed(hit, secret), "the signature does not fit"
    return hit.json


def is_signed(hit: Hit, secret: str = SECRET) -> bool:
    """Whether the sender of the body has the secret."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{hit.headers['webhook-id']}.{hit.headers['webhook-timestamp']}.".encode() + hit.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = [part.removeprefix("v1,") for part in hit.headers["webhook-signature"].split()]
    return any(hmac.compare_digest(expected, each) for each in given)


class Receiver:
    """A context manager. The receiver sends each of `answers` once and in order, then always `usual`."""

    def __init__(self, *answers: Answer, usual: Answer | None = None) -> None:
        self.hits: list[Hit] = []
        self.usual = usual or Answer()
        self._answers = list(answers)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=t0p"

    def wait_for(self, count: int, within_s: float = 10.0) -> list[Hit]:
        wait_until(lambda: len(self.hits) >= count, within_s=within_s, what=f"{count} webhooks")
        return self.hits

    def take(self, hit: Hit) -> Answer:
        with self._lock:
            self.hits.append(hit)
            return self._answers.pop(0) if self._answers else self.usual

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("content-length", 0))
                body = self.rfile.read(size)
                if len(body) < size:
                    # The sender was killed while it sent the request, and no receiver accepts an incomplete request
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = receiver.take(Hit(self.path, headers, body))
                if answer.before:
                    answer.before()
                with contextlib.suppress(OSError):
                    self._answer(answer)

            def _answer(self, answer: Answer) -> None:
                if answer.raw is not None:
                    self.wfile.write(answer.raw)
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=patient(5))
