"""Requests to addresses that users name, and that may therefore lead anywhere: into our own network, too.

A name is resolved once per request; every address that it has must be one we may use, and the connection goes to such
an address itself, so that no second answer of the resolver can lead it elsewhere. Name and certificate stay the URL's.
No redirect is followed, no proxy is taken from the environment, no cookie is kept. One clock runs for the whole
request, however slowly the other side sends.
"""

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import httpcore2

from redraft.domain.admin.address_rules import Address, Allowed, all_addresses, as_address
from redraft.domain.admin.urls import RequestTarget
from redraft.errors import Forbidden, Unavailable

Resolver = Callable[[str, int], Sequence[str]]
"""The addresses of a name, as texts; raises OSError or UnicodeError when there are none."""

TOTAL_S = 15.0
_CONNECT_S = 5.0
_ADDRESSES_TRIED_MAX = 4
_BODY_BYTES_MAX = 4 * 1024
_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the status alone matters, and when to come again."""

    status: int
    retry_after: str | None


def resolve(host: str, port: int) -> Sequence[str]:
    """The system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


class Sender:
    """Posts to users' URLs; for any number of threads.

    Args:
        allowed: what may be reached beside public addresses.
        resolver: how names become addresses.
        total_s: the longest request, from the resolved name to the end of the answer.
    """

    def __init__(self, allowed: Allowed, *, resolver: Resolver = resolve, total_s: float = TOTAL_S) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._total_s = total_s

    def why_not_host(self, host: str) -> str | None:
        """What can be said against a goal's host before its name is resolved, as a sentence; None: nothing."""
        return self._allowed.why_not_host(host)

    def post(self, target: RequestTarget, headers: Mapping[str, str], body: bytes) -> Reply:
        """One request.

        Raises:
            Forbidden: the goal is, or resolves to, an address that must not be reached.
            Unavailable: no answer came; the message says why.
        """
        clock = _Clock(self._total_s)
        backend = _CheckedBackend(self._addresses(target), clock)
        try:
            with httpcore2.ConnectionPool(ssl_context=_ssl_context(), network_backend=backend) as pool:
                return _exchange(pool, target, headers, body)
        except _FAILURES as error:
            raise Unavailable(_words(error, clock), code="receiver_unavailable") from error

    def _addresses(self, target: RequestTarget) -> list[Address]:
        literal = as_address(target.host)
        addresses = [literal] if literal else self._resolved(target)
        if any(self._allowed.why_not(target.host, address) for address in addresses):
            words = "The receiver's name leads to an address that is not public (REDRAFT_WEBHOOK_ALLOW_PRIVATE)."
            raise Forbidden(words, code="address_not_allowed")
        return addresses

    def _resolved(self, target: RequestTarget) -> list[Address]:
        try:
            addresses = all_addresses(self._resolver(target.host, target.port))
        except (OSError, UnicodeError) as error:
            raise Unavailable("The receiver's name cannot be resolved.", code="receiver_unavailable") from error
        except ValueError as error:
            raise Forbidden("The receiver's name leads to no address.", code="address_not_allowed") from error
        if not addresses:
            raise Unavailable("The receiver's name has no address.", code="receiver_unavailable")
        return addresses


def _exchange(pool: httpcore2.ConnectionPool, target: RequestTarget, headers: Mapping[str, str], body: bytes) -> Reply:
    url = httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.target)
    with pool.stream("POST", url, headers=list(headers.items()), content=body) as response:
        found = {name.lower(): value.decode("latin-1") for name, value in response.headers}
        # The status is here: what becomes of the rest changes nothing
        with contextlib.suppress(*_FAILURES):
            _drop_body(response.iter_stream())
        return Reply(response.status, found.get(b"retry-after"))


def _drop_body(pieces: Iterable[bytes]) -> None:
    """Read a short answer to its end, so that the other side sees it taken; leave a long one."""
    count = 0
    for piece in pieces:
        count += len(piece)
        if count >= _BODY_BYTES_MAX:
            return


def _words(error: Exception, clock: "_Clock") -> str:
    if isinstance(error, httpcore2.TimeoutException) or clock.is_over:
        return f"The receiver took longer than {clock.total_s:g} s."
    if isinstance(error, httpcore2.ConnectError):
        is_tls = isinstance(error.__cause__, ssl.SSLError)
        return f"The receiver's {'certificate or TLS failed' if is_tls else 'port cannot be connected'}: {error}."[:300]
    return f"The receiver broke the connection or answered no HTTP: {type(error).__name__}."


@lru_cache(maxsize=1)
def _ssl_context() -> ssl.SSLContext:
    # Reading the system's certificates takes tens of milliseconds
    import httpx2

    return httpx2.create_ssl_context()


class _Clock:
    """What is left of one request's time."""

    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self._ends_at = time.monotonic() + total_s

    @property
    def left_s(self) -> float:
        return max(0.001, self._ends_at - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at


class _CheckedBackend(httpcore2.NetworkBackend):
    """Connects to the addresses that were checked, whatever name is asked for."""

    def __init__(self, addresses: Sequence[Address], clock: _Clock) -> None:
        self._addresses = addresses[:_ADDRESSES_TRIED_MAX]
        self._clock = clock
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - the name, which is not asked for again
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the clock runs for the whole request
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        *others, last = self._addresses
        for address in others:
            with contextlib.suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return self._connect(address, port, local_address, socket_options)
        return self._connect(last, port, local_address, socket_options)

    def _connect(
        self, address: Address, port: int, local_address: str | None, socket_options: Iterable[Any] | None
    ) -> httpcore2.NetworkStream:
        timeout = min(_CONNECT_S, self._clock.left_s)
        stream = self._inner.connect_tcp(str(address), port, timeout, local_address, socket_options)
        return _TimedStream(stream, self._clock)


class _TimedStream(httpcore2.NetworkStream):
    """A timeout of sockets starts anew with each byte; the clock does not."""

    def __init__(self, inner: httpcore2.NetworkStream, clock: _Clock) -> None:
        self._inner = inner
        self._clock = clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        if self._clock.is_over:
            raise httpcore2.ReadTimeout
        return self._inner.read(max_bytes, self._clock.left_s)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._inner.write(buffer, self._clock.left_s)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        stream = self._inner.start_tls(ssl_context, server_hostname, self._clock.left_s)
        return _TimedStream(stream, self._clock)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
