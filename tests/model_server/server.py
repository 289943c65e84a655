"""The server itself: a thread with an event loop; hundreds of waiting requests cost no threads."""

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from tests.model_server.batch_apis import BatchApis, Served
from tests.model_server.batch_store import Batch, BatchStore
from tests.model_server.bodies import body_of, error_body
from tests.model_server.events import Event, error_event, events_of
from tests.model_server.http import Connection, Exchange, Request
from tests.model_server.logbook import Entry, Logbook
from tests.model_server.quirks import refusal_of
from tests.model_server.requests import PATHS, Asked, read_body
from tests.model_server.scripts import Player, Reply, Rule, Script
from tests.model_server.validators import error_of
from tests.support.waiting import patient

Responder = Callable[[Asked], Reply | None]
_JSON = {"content-type": "application/json"}
_TRICKLE_S = 0.05
_OF_STREAMS = frozenset({None, "stream_cut", "stream_reset", "stream_end", "stream_error", "stream_hang"})


class ModelServer:
    """A context manager; `url` is the root, `openai_url` and `anthropic_url` are the settings' values."""

    def __init__(self, port: int = 0, script: Script | None = None) -> None:
        self._player = Player(script or Script())
        self._responder: Responder | None = None
        self._loop = asyncio.new_event_loop()
        self._connections: set[Connection] = set()
        self._stopping = asyncio.Event()
        self._released = asyncio.Event()
        self._socket = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)
        self.log = Logbook()
        self._batches = BatchApis(BatchStore(self._execute), lambda: self._player.script, self._is_released)

    @property
    def port(self) -> int:
        return self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        return self.url

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    def script(
        self,
        *,
        generate: Sequence[Any] = (),
        evaluate: Sequence[Any] = (),
        draft: Sequence[Any] = (),
        case: str | None = None,
        **rest: Any,
    ) -> None:
        """Play these replies from now on; with `case`, in front of the script that is there.

        Items are texts, scores, verdict mappings or `Reply`s; the last one stays. `rest`: fields of Script.
        """
        pairs = (("generate", generate), ("evaluate", evaluate), ("draft", draft))
        rules = tuple(Rule(tuple(items), role=role, case=case) for role, items in pairs if items)
        older = self._player.script.rules if case else ()
        self.play(Script(rules=rules + older, **rest))

    def play(self, script: Script) -> None:
        """Start a script from its beginning."""
        self._player = Player(script)
        self._released = asyncio.Event()

    def release(self) -> None:
        """Send the held replies of the current script, and hold no more of them."""
        self._loop.call_soon_threadsafe(self._released.set)

    def respond(self, responder: Responder | None) -> None:
        """Ask a function first; where it returns None, the script answers."""
        self._responder = responder

    def _is_released(self) -> bool:
        return self._released.is_set()

    def requests(self, role: str | None = None, case: str | None = None) -> list[Entry]:
        """The log, oldest first."""
        entries = self.log.entries()
        return [e for e in entries if role in {None, e.role} and case in {None, e.case}]

    def batches(self) -> list[Batch]:
        """All batches of the server, the oldest first, with the ids of their requests and what was answered."""
        return self._batches.store.list()

    def files(self) -> list[str]:
        """The ids of the files that the server keeps: uploaded ones and those with results."""
        return list(self._batches.store.files)

    def add_batch(self, batch: Batch) -> None:
        """Have a batch of somebody else."""
        self._batches.store.add(batch)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(timeout=patient(10))
        if self._thread.is_alive():
            raise RuntimeError("The model server does not stop")

    def wait(self) -> None:
        """Serve until another thread or a signal ends it."""
        self._thread.join()

    __enter__ = start

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        def connect() -> Connection:
            return Connection(self._handle, self._connections)

        server = await self._loop.create_server(connect, sock=self._socket)
        await self._stopping.wait()
        # asyncio leaks a connection that it accepted but has not opened when its server is closed
        self._loop.remove_reader(self._socket.fileno())
        while self._connections or asyncio.all_tasks() - {asyncio.current_task()}:
            for connection in list(self._connections):
                if connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(0)
        server.close()

    async def _handle(self, request: Request, exchange: Exchange) -> None:
        if request.path.startswith("/_"):
            self._control(request, exchange)
            return
        if (served := self._batches.serve(request)) is not None:
            if served.reply is not None and served.reply.is_held:
                await self._released.wait()
            await _deliver_batch(served, exchange)
            return
        dialect, body = PATHS.get(request.path), read_body(request.body)
        if dialect is None or request.method != "POST":
            exchange.send(404, {"content-type": "text/plain"}, b"404 page not found")
        elif body is None:
            exchange.send(400, _JSON, b'{"error": {"message": "We could not parse the JSON body"}}')
        else:
            await self._answer(Asked(dialect, body, request.headers, request.path), exchange)

    def _control(self, request: Request, exchange: Exchange) -> None:
        answer: Any = {"ok": True}
        match request.method, request.path:
            case "PUT", "/_script":
                self.play(Script.from_json(json.loads(request.body)))
            case "GET", "/_log":
                answer = self.log.to_json()
            case "GET", "/_batches":
                answer = [batch.to_json() for batch in self.batches()]
            case "DELETE", "/_log":
                self.log.clear()
            case _:
                exchange.send(404, _JSON, b"{}")
                return
        exchange.send(200, _JSON, json.dumps(answer).encode())

    async def _answer(self, asked: Asked, exchange: Exchange) -> None:
        entry = self.log.begin(asked, keep=self._player.script.keep_log)
        try:
            reply = self._reply_to(asked)
            latency = self._player.script.latency_s if reply.latency_s is None else reply.latency_s
            if latency:
                await asyncio.sleep(latency)
            if reply.is_held:
                await self._released.wait()
            entry.status = reply.status
            await _deliver(asked, reply, exchange, self._player.script)
            entry.answered = reply.fault in {None, "trickle"}
        finally:
            self.log.end(entry)

    def _execute(self, asked: Asked, batch_id: str, custom_id: str) -> Reply:
        """Answer a request of a batch at once, without latency."""
        entry = self.log.begin(asked, keep=self._player.script.keep_log)
        entry.batch_id, entry.custom_id = batch_id, custom_id
        try:
            error = "stream: not available in a batch" if asked.is_streamed else None
            reply = Reply(status=400, raw=error_body(asked, 400, error)) if error else self._reply_to(asked)
            entry.status, entry.answered = reply.status, True
            return reply
        finally:
            self.log.end(entry)

    def _reply_to(self, asked: Asked) -> Reply:
        if not (asked.headers.get("authorization") or asked.headers.get("x-api-key")):
            return Reply(status=401, raw=error_body(asked, 401, "You didn't provide an API key."))
        if error := error_of(asked):
            return Reply(status=400, raw=error_body(asked, 400, error))
        script = self._player.script
        if (refused := refusal_of(asked, script.quirks, script.flavour)) is not None:
            return Reply(status=refused[0], raw=refused[1])
        answer = self._responder(asked) if self._responder else None
        return answer or self._player.next_reply(asked)


async def _deliver(asked: Asked, reply: Reply, exchange: Exchange, script: Script) -> None:
    body = body_of(asked, reply, script) if reply.raw is None else reply.raw
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    headers = {**_JSON, "x-request-id": "req_test", **reply.headers}
    if not _is_stream(asked, reply, body, script):
        await _send(reply, exchange, headers, raw)
        return
    headers["content-type"] = reply.headers.get("content-type", "text/event-stream; charset=utf-8")
    events = events_of(asked, reply, body)
    if reply.fault in _OF_STREAMS:
        await _stream(asked, reply, exchange, headers, events, script)
    else:
        await _send(reply, exchange, headers, "".join(event.wire for event in events).encode())


def _is_stream(asked: Asked, reply: Reply, body: Any, script: Script) -> bool:
    is_wanted = asked.is_streamed and "ignores_stream" not in script.quirks
    return is_wanted and reply.status == 200 and (isinstance(body, dict) or reply.events is not None)


async def _deliver_batch(served: Served, exchange: Exchange) -> None:
    reply = served.reply or Reply()
    if reply.latency_s:
        await asyncio.sleep(reply.latency_s)
    await _send(reply, exchange, {"content-type": served.content_type, **reply.headers}, served.body, served.status)


async def _send(
    reply: Reply, exchange: Exchange, headers: dict[str, str], raw: bytes, status: int | None = None
) -> None:
    status = status or reply.status
    match reply.fault:
        case None:
            exchange.send(status, headers, raw)
        case "stream_cut" | "stream_reset" | "stream_end" | "stream_error" | "stream_hang":
            raise ValueError(f"{reply.fault} needs a stream")
        case "hang":
            await asyncio.Event().wait()
        case "reset":
            _reset(exchange)
        case "garbage":
            exchange.write(b"\x00\x15\x03garbage\r\n\r\n")
            exchange.close()
        case "trickle":
            await _trickle(exchange, exchange.head(status, headers, len(raw)), raw)
        case "cut_body" | "reset_mid_body":
            exchange.write(exchange.head(status, headers, len(raw)) + raw[: len(raw) // 2])
            await asyncio.sleep(0.02)
            exchange.close() if reply.fault == "cut_body" else _reset(exchange)
        case _:
            raise ValueError(f"{reply.fault} needs a batch")


async def _stream(
    asked: Asked, reply: Reply, exchange: Exchange, headers: dict[str, str], events: list[Event], script: Script
) -> None:
    pause_s = script.pause_s if reply.pause_s is None else reply.pause_s
    exchange.begin_stream(reply.status, headers)
    for event in events:
        if pause_s and event.is_text:
            await asyncio.sleep(pause_s)
        exchange.send_chunk(event.wire.encode())
    match reply.fault:
        case "stream_cut":
            await asyncio.sleep(0.02)
            exchange.close()
            return
        case "stream_reset":
            await asyncio.sleep(0.02)
            _reset(exchange)
            return
        case "stream_hang":
            await asyncio.Event().wait()
        case "stream_error":
            exchange.send_chunk(error_event(asked, reply).encode())
        case _:
            pass
    exchange.send_chunk(b"")


async def _trickle(exchange: Exchange, head: bytes, raw: bytes) -> None:
    exchange.write(head)
    for byte in raw:
        exchange.write(bytes([byte]))
        await asyncio.sleep(_TRICKLE_S)


def _reset(exchange: Exchange) -> None:
    raw = exchange.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.reset()
