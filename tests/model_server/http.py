"""HTTP/1.1 on asyncio, as small as it can be, with full control over what goes on the wire.

A framework would hide the transport, and the faults (reset, cut body, garbage) need it.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    409: "Conflict",
    429: "Too Many Requests",
}


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    query: str = ""


class Exchange:
    """One request's way back to its client."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def head(self, status: int, headers: Mapping[str, str], length: int) -> bytes:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append(f"content-length: {length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.transport.write(self.head(status, headers, len(body)) + body)

    def begin_stream(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write(("\r\n".join([*lines, "transfer-encoding: chunked"]) + "\r\n\r\n").encode())

    def send_chunk(self, piece: bytes) -> None:
        """A piece of a streamed body; the empty one ends it."""
        self.transport.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

    def write(self, piece: bytes) -> None:
        self.transport.write(piece)

    def close(self) -> None:
        self.transport.close()

    def reset(self) -> None:
        """Drop the connection without a goodbye (RST)."""
        self.transport.abort()


Handler = Callable[[Request, Exchange], Awaitable[None]]


class Connection(asyncio.Protocol):
    """Keep-alive, one request at a time, content-length only: what the SDKs speak."""

    def __init__(self, handler: Handler, connections: set["Connection"]) -> None:
        self.handler = handler
        self.connections = connections
        self.buffer = bytearray()
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # What is written is on its way at once: a reset must not take it back
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._serve_next()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        if self.task is not None:
            self.task.cancel()

    def _serve_next(self) -> None:
        if self.task is not None or self.transport is None or self.transport.is_closing():
            return
        request = self._take_request()
        if request is None:
            return
        self.task = asyncio.get_running_loop().create_task(self._serve(request, self.transport))

    async def _serve(self, request: Request, transport: asyncio.Transport) -> None:
        await self.handler(request, Exchange(transport))
        self.task = None
        self._serve_next()

    def _take_request(self) -> Request | None:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = (line.split(":", 1) for line in lines)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        length = int(headers.get("content-length", "0"))
        start = end + 4
        if len(self.buffer) < start + length:
            return None
        body = bytes(self.buffer[start : start + length])
        del self.buffer[: start + length]
        path, _, query = path.partition("?")
        return Request(method, path, headers, body, query)
