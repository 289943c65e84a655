"""The API in this process: its socket, its URL, and uvicorn around the app.

The app is named by its import string: entry points do not import one another.
"""

import errno
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.importer import import_from_string

from redraft.errors import Conflict, Invalid
from redraft.settings import Settings

_APP = "api.app:create_app"
# Streams end by themselves when the server stops; whatever else is open is cut then.
_SHUTDOWN_S = 5
_PORTS_TRIED = 50


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one.

    Raises:
        Conflict: the port is in use; the message names a free one.
        Invalid: the host is no address of this machine, or the port is not ours to take.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Invalid(f"REDRAFT_HOST {host!r} is no address: {error.strerror}.", code="bad_host") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(f"Port {port} of {host} is in use.{_advice(host, port)}", code="port_in_use") from error
        raise Invalid(f"Cannot listen on port {port} of {host}: {error.strerror}.", code="bad_address") from error
    return listener


def _advice(host: str, port: int) -> str:
    for other in range(port + 1, min(port + 1 + _PORTS_TRIED, 65536)):
        try:
            listen_once = socket.create_server((host, other))
        except OSError:
            continue
        listen_once.close()
        return f" Port {other} is free: redraft serve --port {other}"
    return " Choose another with --port."


def url_of(listener: socket.socket, host: str) -> str:
    """Where a person or a client on this machine reaches it."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listener.getsockname()[1]}"


class Api(uvicorn.Server):
    """`run` serves until a signal, or until `should_exit` is set from another thread."""

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
            )
        )
        self._listener = listener
        self._on_ready = on_ready
        self._end_streams: Callable[[], None] = app.state.end_streams

    def serve_until_stopped(self) -> None:
        self.run(sockets=[self._listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)
