"""Serves the API in this process with uvicorn. The app is imported by name: entry points do not import each other."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator
from typing import Any

import uvicorn
from uvicorn.importer import import_from_string
from uvicorn.protocols.http.h11_impl import H11Protocol

from redraft.settings import Settings

_APP = "api.app:create_app"
# Streams end when the server stops; other requests are aborted after this time
_SHUTDOWN_S = 5
# Longer than proxies keep idle connections (nginx and most load balancers: 60 s), so that the proxies close them first.
# A request on a connection that the server closes at the same moment would be lost
_KEEP_ALIVE_S = 75


class Api(uvicorn.Server):
    """Serves until `handle_exit` gets a signal, or until `should_exit` is set from another thread."""

    def __init__(self, settings: Settings, listener: socket.socket, on_ready: Callable[[], None]) -> None:
        app: Any = import_from_string(_APP)(settings)
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_SHUTDOWN_S,
                timeout_keep_alive=_KEEP_ALIVE_S,
                http=BoundedHeads,
            )
        )
        self._listener = listener
        self._on_ready = on_ready
        self._end_streams: Callable[[], None] = app.state.end_streams

    def serve_until_stopped(self) -> None:
        self.run(sockets=[self._listener])

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Install no signal handlers. The command has its own, which also work before and after the server runs."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)


class BoundedHeads(H11Protocol):
    """Closes a connection if the head of a request takes longer than `head_s`: slow clients must not keep it open."""

    head_s = 20.0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        """Run a timer from the start of the connection, or from the start of a head, to the end of the head."""
        cycle: Any = self.cycle  # uvicorn's current request and response; None before the first request
        if cycle is not None and not cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
