"""The event loop of all model calls of a process, and the HTTP clients that the SDKs use on it.

The HTTP clients use aiohttp. With hundreds of calls in flight, aiohttp needs about half as much CPU time as the
default transport of the SDKs, which scans all its connections for each request.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from redraft.settings import Settings

if TYPE_CHECKING:
    import ssl

    import httpx2

T = TypeVar("T")

# uvicorn and llama.cpp close an idle connection after 5 s. A request at that moment would fail, so this is shorter
_KEEPALIVE_S = 4


class EventLoop:
    """An event loop in a thread of its own. The first call of a method starts the thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the event loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, and block the calling thread until the coroutine ends."""
        return self.submit(work).result()

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function on the event loop, from any thread."""
        self._running().call_soon_threadsafe(function, *args)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="calls", daemon=True).start()
            return self._loop


CALLS_LOOP = EventLoop()
"""The event loop of all model calls of this process."""


@lru_cache(maxsize=1)
def _ssl_context() -> "ssl.SSLContext":
    # All clients share the context, because reading the system's certificates takes tens of milliseconds
    import httpx2

    return httpx2.create_ssl_context()


def http_client(aiohttp_client: "type[httpx2.AsyncClient]") -> "httpx2.AsyncClient":
    """Return a client of the SDK's class for aiohttp. Environment variables such as HTTPS_PROXY set its proxy."""
    import httpx2

    class Client(aiohttp_client):
        def _init_proxy_transport(  # pyright: ignore[reportIncompatibleMethodOverride] - by name, as httpx2 calls it
            self, proxy: httpx2.Proxy, **options: Any
        ) -> httpx2.AsyncBaseTransport:
            if not proxy.url.scheme.startswith("socks"):
                return super()._init_proxy_transport(proxy, **options)
            # aiohttp does not support SOCKS proxies
            limits = httpx2.Limits(max_connections=None, keepalive_expiry=_KEEPALIVE_S)
            return httpx2.AsyncHTTPTransport(verify=_ssl_context(), proxy=proxy, limits=limits)

    # For aiohttp, 0 means no limit. With its default of 100 connections, further calls would wait
    limits = httpx2.Limits(max_connections=0, keepalive_expiry=_KEEPALIVE_S)
    return Client(verify=_ssl_context(), limits=limits, follow_redirects=False, timeout=None)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts for the parts of a call, from the settings."""

    connect_s: float
    first_byte_s: float


def timeouts_of(settings: Settings) -> Timeouts:
    return Timeouts(settings.connect_timeout_s, settings.first_byte_timeout_s)


class TimeLeft:
    """The remaining time of a call, which may need several requests."""

    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self._ends_at = time.monotonic() + total_s

    @property
    def seconds(self) -> float:
        return max(0.001, self._ends_at - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at
