"""The connections below the SDKs: sharded HTTP clients and a limit for a whole call.

httpx's pool scans its connections at every request, so a few hundred in one client cost more than the call
itself. Several clients of about `CONNECTIONS_PER_CLIENT`, picked by thread, keep the scan short.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from redraft.providers.shared.cancellation import note_connection, shut_down
from redraft.providers.shared.event_stream import StreamEvent, events_in
from redraft.settings import Settings

if TYPE_CHECKING:
    import ssl

    import httpx2

CONNECTIONS_PER_CLIENT = 8
_DEADLINE = "redraft_deadline"
_AFTER_THE_REASON_S = 5.0
_AFTER_THE_END_S = 0.5


class _Closable(Protocol):
    def close(self) -> None: ...


Client = TypeVar("Client", bound=_Closable)


class ClientShards(Generic[Client]):
    """Clients made on first use; a thread always gets the same one."""

    def __init__(self, make: Callable[[], Client], threads: int) -> None:
        self._make = make
        self._clients: list[Client | None] = [None] * max(1, -(-threads // CONNECTIONS_PER_CLIENT))
        self._lock = threading.Lock()
        self._turns = itertools.count()
        self._of_thread = threading.local()

    def pick(self) -> Client:
        index = getattr(self._of_thread, "index", None)
        if index is None:
            index = self._of_thread.index = next(self._turns) % len(self._clients)
        return self._clients[index] or self._made(index)

    def _made(self, index: int) -> Client:
        with self._lock:
            client = self._clients[index]
            if client is None:
                client = self._clients[index] = self._make()
            return client

    def close(self) -> None:
        """Close what was made; a later call makes new clients."""
        with self._lock:
            clients = [client for client in self._clients if client is not None]
            self._clients = [None] * len(self._clients)
        for client in clients:
            client.close()


@lru_cache(maxsize=1)
def _ssl_context() -> "ssl.SSLContext":
    # Reading the system's certificates takes tens of milliseconds: once for all clients.
    import httpx2

    return httpx2.create_ssl_context()


def http_client() -> "httpx2.Client":
    """One shard's client. Proxies come from the environment, as usual."""
    import httpx2

    # uvicorn and llama.cpp close a connection that is idle for 5 s: a request that meets the close would fail
    limits = httpx2.Limits(
        max_connections=None, max_keepalive_connections=2 * CONNECTIONS_PER_CLIENT, keepalive_expiry=4
    )
    return httpx2.Client(
        verify=_ssl_context(),
        limits=limits,
        follow_redirects=True,
        event_hooks={"request": [_prepare], "response": [_bound_body]},
    )


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the parts of a call may take, in seconds: the settings' values."""

    connect_s: float
    first_byte_s: float


def patience_of(settings: Settings) -> Patience:
    return Patience(settings.connect_timeout_s, settings.first_byte_timeout_s)


class TimeLeft:
    """What is left of one call's time when it takes several requests."""

    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self._ends_at = time.monotonic() + total_s

    @property
    def seconds(self) -> float:
        return max(0.001, self._ends_at - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at


def call_timeout(left: TimeLeft, patience: Patience) -> "httpx2.Timeout":
    """The SDK's timeout for one request; the whole call's time travels as the write timeout."""
    import httpx2

    total_s = left.seconds
    return httpx2.Timeout(total_s, connect=min(patience.connect_s, total_s), read=min(patience.first_byte_s, total_s))


def _prepare(request: "httpx2.Request") -> None:
    total_s = request.extensions["timeout"]["write"]
    request.extensions.setdefault(_DEADLINE, time.monotonic() + total_s)
    request.extensions["trace"] = note_connection


def _bound_body(response: "httpx2.Response") -> None:
    """A read timeout starts anew with each byte: hold the body to what is left of the whole call."""
    deadline = response.request.extensions[_DEADLINE]
    left_s = max(0.001, deadline - time.monotonic())
    response.request.extensions["timeout"]["read"] = left_s
    response.stream = _bounded_stream()(response.stream, deadline, response.request)


@lru_cache(maxsize=1)
def _bounded_stream() -> "Callable[[Any, float, httpx2.Request], httpx2.SyncByteStream]":
    import httpx2

    class Bounded(httpx2.SyncByteStream):
        def __init__(self, inner: httpx2.SyncByteStream, deadline: float, request: httpx2.Request) -> None:
            self._inner = inner
            self._deadline = deadline
            self._request = request

        def __iter__(self) -> Iterator[bytes]:
            for piece in self._inner:
                yield piece
                if time.monotonic() > self._deadline:
                    raise httpx2.ReadTimeout("the whole call took too long", request=self._request)

        def close(self) -> None:
            self._inner.close()

    return Bounded


class StreamDeadline:
    """Ends a streamed body that is late, from another thread.

    A read timeout is fixed when the reading of a body begins, and starts anew with each byte: it can hold a
    stream neither to its first byte nor to the end of the call.
    """

    def __init__(self, response: "httpx2.Response", first_byte: TimeLeft, call: TimeLeft) -> None:
        self._response = response
        self._first_byte = first_byte
        self._call = call
        self._lock = threading.Lock()
        self._has_begun = self._is_over = self._is_aborted = False
        self._timer = threading.Timer(min(first_byte.seconds, call.seconds), self._abort)

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
            self._timer.cancel()

    def events(self) -> Iterator[StreamEvent]:
        """The events as they come, and the lines that belong to none.

        Raises:
            httpx2.HTTPError: the stream broke; `ReadTimeout`: it was late.
        """
        import httpx2

        try:
            for event in events_in(self._response.iter_text()):
                self._has_begun = True
                yield event
        except httpx2.HTTPError as error:
            if not self._is_aborted:
                raise
            raise self._lateness() from error
        if self._is_aborted:
            raise self._lateness()

    def shorten(self, *, is_ended: bool) -> None:
        """The answer is whole: what may still come has a moment.

        Before the end that is the usage, behind it nothing, but read to its end a connection can be used again.
        """
        with self._lock:
            self._timer.cancel()
            self._call = TimeLeft(min(_AFTER_THE_END_S if is_ended else _AFTER_THE_REASON_S, self._call.seconds))
            self._timer = threading.Timer(self._call.seconds, self._abort)
            self._start()

    def _lateness(self) -> "httpx2.ReadTimeout":
        import httpx2

        return httpx2.ReadTimeout("the stream was late", request=self._response.request)

    def _start(self) -> None:
        self._timer.daemon = True
        self._timer.start()

    def _abort(self) -> None:
        with self._lock:
            if self._is_over:
                return
            if self._has_begun and not self._call.is_over:
                self._timer = threading.Timer(self._call.seconds, self._abort)
                self._start()
                return
            self._is_aborted = True
            shut_down(self._response.extensions["network_stream"])
