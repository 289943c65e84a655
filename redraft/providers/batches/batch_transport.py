"""The requests to a batch API, through the HTTP client of the provider of live calls."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import structlog

from redraft.errors import ProviderError
from redraft.providers.shared.failures import Answer, Vendor
from redraft.providers.shared.protocol import ChatReply
from redraft.providers.shared.replies import read_answer
from redraft.providers.shared.response_bodies import bytes_of, parts_of
from redraft.providers.shared.sending import Connection, failure_of_connection
from redraft.providers.shared.transport import TimeLeft, Timeouts

if TYPE_CHECKING:
    import httpx2

log = structlog.get_logger()

TRANSFER_S = 3600.0
"""The time limit of an upload or a download."""
_REQUEST_S = 60.0
ANY_TYPE = {"accept": "*/*"}
"""The header for a body that is no JSON."""
# A connection that transfers nothing for this time counts as broken. The time is long, because a provider checks the
# whole file after an upload
_SILENCE_S = 300.0


class BatchProvider(Protocol):
    """The parts of a provider of live calls that its batch API uses."""

    name: str

    def connection(self) -> Connection: ...

    def reply_in(self, body: Mapping[str, Any], answer: Answer) -> ChatReply: ...


@dataclass(frozen=True, slots=True)
class BatchCall:
    """A request to a batch API.

    Attributes:
        path: the path below the base URL, without a slash at its start.
        content: the arguments for `httpx2.Request` that set the body.
        headers: further headers.
        transfer_s: the time limit of an upload or a download; None for a request without a file.
    """

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict[str, str | int])
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    transfer_s: float | None = None


class BatchTransport:
    """Makes each request once, and translates each failure to a `ProviderError`."""

    def __init__(self, provider: BatchProvider, vendor: Vendor, timeouts: Timeouts) -> None:
        self._provider = provider
        self._vendor = vendor
        self._timeouts = timeouts

    async def send(self, call: BatchCall) -> Answer:
        """Return the answer, whose body is an object.

        Raises:
            ProviderError: if the answer is incomplete or has an error status.
        """
        async with self._response(call) as response:
            return await read_answer(self._vendor, response)

    async def download(self, call: BatchCall, file: BinaryIO) -> None:
        """Write the body of the answer into a file while it arrives.

        Raises:
            ProviderError: if the answer is incomplete or has an error status.
        """
        async with self._response(call) as response:
            if response.status_code >= 300:
                await read_answer(self._vendor, response)
            async for part in parts_of(self._vendor, response):
                file.write(part)

    async def first_line(self, call: BatchCall) -> bytes:
        """Return the first line of the body of the answer, and leave the rest at the provider.

        Raises:
            ProviderError: if the answer is incomplete or has an error status.
        """
        async with self._response(call) as response:
            if response.status_code >= 300:
                await read_answer(self._vendor, response)
            line = bytearray()
            async for part in bytes_of(self._vendor, response):
                line += part
                if b"\n" in part:
                    break
            return bytes(line.partition(b"\n")[0])

    @asynccontextmanager
    async def _response(self, call: BatchCall) -> AsyncGenerator["httpx2.Response"]:
        left = TimeLeft(self._timeout_s(call))
        connection = self._provider.connection()
        with self._translated(call, left):
            async with asyncio.timeout(left.seconds):
                response = await connection.http.send(self._request(call), stream=True)
                try:
                    yield response
                finally:
                    await response.aclose()

    def _request(self, call: BatchCall) -> "httpx2.Request":
        import httpx2

        connection = self._provider.connection()
        headers = connection.headers.copy()
        # httpx2 or the call sets the type that fits the body
        headers.pop("content-type", None)
        headers.update(call.headers)
        connect_s = self._timeouts.connect_s
        silence_s = min(_SILENCE_S, self._timeout_s(call))
        timeout = {"connect": connect_s, "pool": connect_s, "read": silence_s, "write": silence_s}
        return httpx2.Request(
            call.method,
            connection.url(call.path),
            params=call.params or None,
            headers=headers,
            extensions={"timeout": timeout},
            **call.content,
        )

    def _timeout_s(self, call: BatchCall) -> float:
        return call.transfer_s or min(_REQUEST_S, self._timeouts.first_byte_s)

    @contextmanager
    def _translated(self, call: BatchCall, left: TimeLeft) -> Generator[None]:
        import aiohttp
        import httpx2

        try:
            yield
        except ProviderError:
            raise
        except (httpx2.HTTPError, httpx2.InvalidURL, aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            failure = failure_of_connection(self._vendor, error, left, self._timeouts)
            if failure.code == "provider_timeout" and not isinstance(error, httpx2.ConnectTimeout):
                failure.reword(f"{self._vendor.capital} did not complete {call.method} {call.path} in time.")
            raise failure from error
        except OSError:  # an error of this machine's disk is no failure of the provider
            raise
        # For an unusual response, the libraries may raise any exception
        except Exception as error:
            kind = type(error).__name__
            # The traceback is not logged, because it may contain secrets
            log.error("batch_request_failed", server=self._vendor.label, error=kind)  # noqa: TRY400
            words = f"The request to {self._vendor.label} failed in this process: {kind}."
            raise ProviderError("provider_unavailable", words) from error


async def lines_as_array(path: Path, start: bytes, end: bytes, confirm: Callable[[], None]) -> AsyncIterator[bytes]:
    """Yield the lines of a file as a JSON array, one line at a time. `confirm` is called before the array ends."""
    yield start
    # Reading blocks the event loop only shortly: this process has just written the file, so it is in the page cache
    with path.open("rb") as file:
        for number, line in enumerate(file):
            yield b"," + line if number else line
    await asyncio.to_thread(confirm)
    yield end
