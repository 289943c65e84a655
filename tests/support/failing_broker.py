"""A broker that answers errors: it passes all on to a Valkey, or refuses each command as one in some state does."""

import contextlib
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Self

_BLOCKING = frozenset({b"BRPOP", b"BLPOP"})


class FailingBroker:
    """A context manager.

    Attributes:
        upstream: the socket of the Valkey behind it.
        refused: how many commands were answered with an error.
        waits: how many commands that wait for a message were passed on.
    """

    def __init__(self) -> None:
        self.upstream = Path()
        self.refused = 0
        self.waits = 0
        self._folder = Path(tempfile.mkdtemp(prefix="fb-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / "s"))
        self._listener.listen(100)
        self._lock = threading.Lock()
        self._error: bytes | None = None
        self._connections = set[_Connection]()

    @property
    def url(self) -> str:
        return f"unix://{self._folder / 's'}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        with self._lock:
            for each in self._connections:
                each.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.contextmanager
    def answering(self, error: str) -> Iterator[None]:
        """Within the block each command gets this error, those first that wait for a message."""
        with self._lock:
            self._error = f"-{error}\r\n".encode()
            self.refused = 0
            for each in self._connections:
                self.refused += each.unblock(self._error)
        yield
        with self._lock:
            self._error = None
            self.waits = 0

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = _Connection(self, self._listener.accept()[0])
                with self._lock:
                    self._connections.add(connection)
                threading.Thread(target=connection.serve, daemon=True).start()

    def take(self, connection: "_Connection", name: bytes, command: bytes) -> None:
        with self._lock:
            if self._error:
                self.refused += 1
                connection.client.sendall(self._error)
                return
            self.waits += name in _BLOCKING
            connection.forward(name, command)


class _Connection:
    def __init__(self, broker: FailingBroker, client: socket.socket) -> None:
        self.client = client
        self._broker = broker
        self._server = socket.socket(socket.AF_UNIX)
        self._is_blocked = False

    def serve(self) -> None:
        with contextlib.suppress(OSError), self.client, self._server, self.client.makefile("rb") as commands:
            self._server.connect(str(self._broker.upstream))
            threading.Thread(target=self._relay, daemon=True).start()
            while read := _read(commands):
                self._broker.take(self, *read)

    def forward(self, name: bytes, command: bytes) -> None:
        self._is_blocked = name in _BLOCKING
        self._server.sendall(command)

    def _relay(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(65536):
                self._is_blocked = False
                self.client.sendall(data)

    def unblock(self, error: bytes) -> bool:
        """Answer the command that waits; whether one does. Its late answer must not come, so the Valkey is left."""
        is_blocked, self._is_blocked = self._is_blocked, False
        if is_blocked:
            with contextlib.suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)
                self.client.sendall(error)
        return is_blocked

    def end(self) -> None:
        for each in (self.client, self._server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _read(commands: BufferedReader) -> tuple[bytes, bytes] | None:
    """The next command's name, and its bytes; None at the end."""
    head = commands.readline()
    if not head.startswith(b"*"):
        return None
    words: list[bytes] = []
    raw = [head]
    for _ in range(int(head[1:])):
        size = commands.readline()
        words.append(commands.read(int(size[1:]) + 2))
        raw += [size, words[-1]]
    return words[0].strip().upper(), b"".join(raw)
