"""The real API on a real socket: uvicorn in a thread of this process, or in a process of its own."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import uvicorn
from fastapi import FastAPI

from redraft.settings import Settings
from tests.support.forks import Fork
from tests.support.processes import environment_of
from tests.support.waiting import patient, wait_until


@contextmanager
def api_process(settings: Settings, log_file: Path) -> Iterator[tuple[Fork, str]]:
    """The API in a process of its own, and its address."""
    arguments = ("--factory", "api.app:create_app", "--port", "0")
    with log_file.open("ab") as log:
        process = Fork("uvicorn", *arguments, environment=environment_of(settings), out=log.fileno())
    try:
        found = wait_until(lambda: re.search(r"running on (http://\S+:\d+)", log_file.read_text()), within_s=60)
        yield process, found.group(1)
    finally:
        process.kill()
        process.wait(timeout=patient(10))


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # asyncio leaks a connection that it accepted but has not opened when its server is closed
        for server in self.servers:
            for listening in server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(3):
            await asyncio.sleep(0)
        await super().shutdown(sockets)


class ApiServer:
    """A context manager; `client` is connected to it."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        config = uvicorn.Config(
            app, port=0, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=5
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._server.run, name="api-server", daemon=True)
        self._clients: list[httpx2.Client] = []

    @property
    def port(self) -> int:
        return self._server.servers[0].sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_requests(self) -> int:
        return len(self._server.server_state.tasks)

    def client(self, **options: Any) -> httpx2.Client:
        """A client of its own connections; it is closed with the server."""
        limits = httpx2.Limits(max_connections=200)
        # No certificate is looked at, and reading the system's takes as long as many a test
        usual = {"base_url": self.url, "timeout": 30, "limits": limits, "verify": False}
        client = httpx2.Client(**{**usual, **options})
        self._clients.append(client)
        return client

    def start(self) -> Self:
        self._thread.start()
        wait_until(lambda: self._server.started or not self._thread.is_alive(), every_s=0.005, what="the API")
        assert self._server.started, "the API did not start"
        return self

    def stop(self) -> None:
        self.app.state.end_streams()
        self._server.should_exit = True
        self._thread.join(timeout=patient(15))
        assert not self._thread.is_alive(), "the API did not stop"

    def close(self) -> None:
        """Stop, and close its clients."""
        self.stop()
        for client in self._clients:
            client.close()

    __enter__ = start

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
