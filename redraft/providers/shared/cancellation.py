"""Abort the model calls of a job from another thread: their sockets are shut down, whatever is read from them.

An HTTP client tells nobody which connection a request uses before its answer begins, which is too late for a model
that writes for minutes. So each connection notes who writes to it: the transport reports new ones by its trace.
"""

import contextlib
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")


class Cancellation:
    """Covers the calls that are made within `covering()`, in this thread and with copies of its context."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[int, _Connection] = {}
        self.is_canceled = False

    def cancel(self) -> None:
        """Abort the calls in flight, and those that begin later."""
        with self._lock:
            self.is_canceled = True
            for connection in self._connections.values():
                connection.shut_for(self)

    @contextmanager
    def covering(self) -> Generator[None]:
        """Cover the calls of this context."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def use(self, connection: "_Connection") -> None:
        with self._lock:
            self._connections[threading.get_ident()] = connection
            if self.is_canceled:
                connection.shut_for(self)

    def leave(self) -> None:
        """Stop covering the call of this thread: another call may use its connection now."""
        with self._lock:
            self._connections.pop(threading.get_ident(), None)


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


@contextmanager
def abortable_call() -> Generator[Cancellation | None]:
    """Make one call; yields what covers it."""
    cancellation = _current.get()
    try:
        yield cancellation
    finally:
        if cancellation is not None:
            cancellation.leave()


def note_connection(event: str, info: Mapping[str, Any]) -> None:
    """A transport's trace: note who writes to the connection that it has opened."""
    if event.endswith(_OPENED):
        _Connection(info["return_value"])


class _Connection:
    """A connection's stream, which from now on notes for whom it is written to."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._write = stream.write
        self._user: Cancellation | None = None
        stream.write = self._noted_write

    def _noted_write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._user = _current.get()
        if self._user is not None:
            self._user.use(self)
        self._write(buffer, timeout)

    def shut_for(self, user: Cancellation) -> None:
        if self._user is user:
            shut_down(self._stream)


def shut_down(stream: Any) -> None:
    """Wake whoever reads from a transport's stream: closing alone would not."""
    with contextlib.suppress(OSError):
        # Not SSLSocket.shutdown, which would change the TLS state under a reader
        socket.socket.shutdown(stream.get_extra_info("socket"), socket.SHUT_RDWR)
