"""Opens the listening socket of the API, and builds its URL."""

import contextlib
import errno
import socket

from redraft.errors import Conflict, Invalid

_PORTS_TRIED = 50


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Port 0 chooses a free port.

    Raises Conflict, with a free port, if the port is in use. Raises Invalid if host or port cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Invalid(f"REDRAFT_HOST {host!r} is no address: {error.strerror}.", code="bad_host") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # uvicorn uses the same backlog for its own sockets
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(f"Port {port} of {host} is in use.{_advice(host, port)}", code="port_in_use") from error
        raise Invalid(f"Cannot listen on port {port} of {host}: {error.strerror}.", code="bad_address") from error
    return listener


def _advice(host: str, port: int) -> str:
    for other in range(port + 1, min(port + 1 + _PORTS_TRIED, 65536)):
        with contextlib.suppress(OSError), socket.create_server((host, other)):
            return f" Port {other} is free: redraft serve --port {other}"
    return " Choose another with --port."


def url_of(listener: socket.socket, host: str) -> str:
    """Return the URL of the API for clients on this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listener.getsockname()[1]}"
