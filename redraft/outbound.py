"""Sends requests to URLs of users, which could point into the private network of the server (SSRF).

Each request resolves the host name once. All addresses of the name must be allowed, and the connection is made to one
of these addresses, so that a later answer of the resolver has no effect (DNS rebinding). TLS checks the certificate for
the host name of the URL. There are no redirects, proxies or cookies. One timeout covers the whole request, so that a
slow receiver cannot extend it.
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

# Returns the addresses of a name as texts; raises OSError or UnicodeError if the name cannot be resolved
Resolver = Callable[[str, int], Sequence[str]]

TOTAL_S = 15.0
_CONNECT_S = 5.0
# A name with many unreachable addresses must not use up the timeout
_ADDRESSES_TRIED_MAX = 4
_BODY_BYTES_MAX = 4 * 1024
_FAILURES = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, httpcore2.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class Reply:
    """The status of a response, its header `Retry-After`, and its body. `is_whole`: whether the body is complete."""

    status: int
    retry_after: str | None
    body: bytes = b""
    is_whole: bool = True


def resolve(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


class Sender:
    """Posts to URLs of users, from any number of threads.

    Args:
        allowed: the addresses and names that may be reached in addition to public addresses.
        resolver: resolves names to addresses.
        total_s: the timeout of a request and its response, after the name is resolved.
        body_bytes_max: the number of bytes after which the rest of a body is not read.
    """

    def __init__(
        self,
        allowed: Allowed,
        *,
        resolver: Resolver = resolve,
        total_s: float = TOTAL_S,
        body_bytes_max: int = _BODY_BYTES_MAX,
    ) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._total_s = total_s
        self._body_bytes_max = body_bytes_max

    def why_not_host(self, host: str) -> str | None:
        """Return a sentence that says why the host is refused, or None. The check does not resolve the name."""
        return self._allowed.why_not_host(host)

    def post(self, target: RequestTarget, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send one request.

        Raises Forbidden if the target has an address that must not be reached, and Unavailable if no response comes.
        """
        clock = _Clock(self._total_s)
        backend = _CheckedBackend(self._addresses(target), clock)
        try:
            with httpcore2.ConnectionPool(ssl_context=_ssl_context(), network_backend=backend) as pool:
                return _exchange(pool, target, headers, body, self._body_bytes_max)
        except _FAILURES as error:
            raise Unavailable(_words(error, clock), code="receiver_unavailable") from error

    def _addresses(self, target: RequestTarget) -> list[Address]:
        literal = as_address(target.host)
        addresses = [literal] if literal else self._resolved(target)
        if any(self._allowed.why_not(target.host, address) for address in addresses):
            words = "The receiver's name has an address that is not public (REDRAFT_WEBHOOK_ALLOW_PRIVATE)."
            raise Forbidden(words, code="address_not_allowed")
        return addresses

    def _resolved(self, target: RequestTarget) -> list[Address]:
        try:
            addresses = all_addresses(self._resolver(target.host, target.port))
        except (OSError, UnicodeError) as error:
            raise Unavailable("The receiver's name cannot be resolved.", code="receiver_unavailable") from error
        except ValueError as error:
            raise Forbidden(
                "The receiver's name has no address that can be read.", code="address_not_allowed"
            ) from error
        if not addresses:
            raise Unavailable("The receiver's name has no address.", code="receiver_unavailable")
        return addresses


def _exchange(
    pool: httpcore2.ConnectionPool, target: RequestTarget, headers: Mapping[str, str], body: bytes, bytes_max: int
) -> Reply:
    url = httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.target)
    with pool.stream("POST", url, headers=list(headers.items()), content=body) as response:
        found = {name.lower(): value.decode("latin-1") for name, value in response.headers}
        # Only the status decides whether a webhook is delivered, so a failure in the body raises nothing. A short body
        # is read to its end, because a receiver may fail if the connection is closed earlier
        received, is_whole = bytearray(), False
        with contextlib.suppress(*_FAILURES):
            for piece in response.iter_stream():
                received += piece
                if len(received) >= bytes_max:
                    break
            else:
                is_whole = True
        return Reply(response.status, found.get(b"retry-after"), bytes(received), is_whole)


def _words(error: Exception, clock: "_Clock") -> str:
    if isinstance(error, httpcore2.TimeoutException) or clock.is_over:
        return f"The server took longer than {clock.total_s:g} s."
    if isinstance(error, httpcore2.ConnectError):
        is_tls = isinstance(error.__cause__, ssl.SSLError)
        return f"The server's {'certificate or TLS failed' if is_tls else 'port cannot be connected'}: {error}."[:300]
    return f"The server broke the connection or answered no HTTP: {type(error).__name__}."


@lru_cache(maxsize=1)
def _ssl_context() -> ssl.SSLContext:
    # The context is cached, since reading the certificates of the system takes tens of milliseconds
    import httpx2

    return httpx2.create_ssl_context()


class _Clock:
    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self._ends_at = time.monotonic() + total_s

    @property
    def left_s(self) -> float:
        return max(0.001, self._ends_at - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at


class _CheckedBackend(httpcore2.SyncBackend):
    """Connects to the checked addresses, and never resolves the name again."""

    def __init__(self, addresses: Sequence[Address], clock: _Clock) -> None:
        self._addresses = addresses[:_ADDRESSES_TRIED_MAX]
        self._clock = clock

    def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - the name is not resolved again
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the clock covers the whole request
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
        stream = super().connect_tcp(str(address), port, timeout, local_address, socket_options)
        return _TimedStream(stream, self._clock)


class _TimedStream(httpcore2.NetworkStream):
    """A stream with one timeout for all reads and writes. The timeout of a socket would begin again with each byte."""

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
