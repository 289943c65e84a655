"""A reverse proxy that shows a server under a path of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx2

from tests.support.waiting import patient


@contextmanager
def proxied(upstream: str, prefix: str, *, strips: bool) -> Iterator[str]:
    """The address of the proxy, without the prefix: it answers 404 to whatever is not beneath it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            if not self.path.startswith(prefix):
                self.send_error(404)
                return
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = self.path.removeprefix(prefix) if strips else self.path
            headers = [(name, value) for name, value in self.headers.items() if name.lower() != "accept-encoding"]
            answer = httpx2.request(
                self.command, upstream + (path or "/"), headers=[*headers, ("accept-encoding", "identity")],
                content=content, timeout=patient(30),
            )  # fmt: skip
            self.send_response(answer.status_code)
            for name, value in answer.headers.multi_items():
                if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = forward  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
