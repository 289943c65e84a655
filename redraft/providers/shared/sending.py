"""Sends a request through the HTTP client of an SDK, and reads the raw answer. All wire formats use this code."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from redraft import __version__
from redraft.errors import ProviderError
from redraft.providers.shared.failures import Answer, Vendor
from redraft.providers.shared.replies import read_answer
from redraft.providers.shared.streams import Collector, DeltaEmitter, StreamReader, read_events
from redraft.providers.shared.transport import TimeLeft, Timeouts

if TYPE_CHECKING:
    import httpx2

log = structlog.get_logger()

# If a call has less time left than this, its time limit counts as reached
_NO_TIME_S = 0.01
# aiohttp names its TLS option in each connection error, which would confuse users of an address without TLS
_TLS_OPTION = re.compile(r" ssl:(?:<[^>]*>|\S+)")
# Error classes of aiohttp and httpx2, by name, because only the first call imports these libraries
_WRONG_ADDRESS = frozenset({"UnsupportedProtocol", "InvalidURL", "NonHttpUrlClientError", "InvalidUrlClientError"})
_LATE_CONNECTION = frozenset({"ConnectionTimeoutError"})
_NO_CONNECTION = ("ClientConnectorError", "ClientHttpProxyError", "ConnectError")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The target of a request.

    Attributes:
        path: the path below the base URL, without a slash at its start.
        vendor: the vendor of the API, for error messages.
        timeouts: the timeouts for the parts of a call.
        make_collector: creates the object that reads the events of this wire format.
    """

    path: str
    vendor: Vendor
    timeouts: Timeouts
    make_collector: Callable[[], Collector]


class SdkClient(Protocol):
    """The parts of an SDK's client that Redraft uses."""

    @property
    def default_headers(self) -> Mapping[str, Any]: ...

    @property
    def auth_headers(self) -> Mapping[str, str]: ...


def sdk_headers(client: SdkClient) -> dict[str, str]:
    """Return the headers of an SDK's client. Some come from environment variables for the vendor's account.

    They are read once. The SDKs build them again for each request, which takes longer than the rest of a call.
    """
    headers = {**client.auth_headers, **client.default_headers}
    # The SDKs set a header that must not be sent to an object that is no text
    return {name: value for name, value in headers.items() if isinstance(value, str)}


def endpoint_headers(key: str, own: Mapping[str, str], **of_format: str) -> dict[str, str]:
    """Return the headers for an endpoint of the settings. None of them comes from the vendors' variables.

    Args:
        key: the key of the endpoint.
        own: the headers of the endpoint in the settings. They can replace all others.
        of_format: further headers of the wire format, with `_` for `-`.
    """
    headers = {
        "accept": "application/json",
        "content-type": "application/json",
        "user-agent": f"Redraft/{__version__}",
        "authorization": f"Bearer {key}",
        **{name.replace("_", "-"): value for name, value in of_format.items()},
    }
    return headers | {name.lower(): value for name, value in own.items()}


class Connection:
    """The HTTP client of a server, with the address and the headers of its requests."""

    def __init__(self, base_url: str, headers: Mapping[str, str], http: "httpx2.AsyncClient") -> None:
        import httpx2

        self._base_url = base_url.rstrip("/")
        self.http = http
        self.headers = httpx2.Headers(http.headers)
        self.headers.update(headers)

    def url(self, path: str) -> "httpx2.URL":
        """Return the address of a path below the base URL, without a slash at its start."""
        import httpx2

        return httpx2.URL(f"{self._base_url}/{path}")

    async def close(self) -> None:
        await self.http.aclose()


class Sender:
    """Sends requests to one path of a server."""

    def __init__(self, connection: Connection, endpoint: Endpoint) -> None:
        self._connection = connection
        self._endpoint = endpoint
        self._url = connection.url(endpoint.path)

    async def send(self, body: Mapping[str, Any], left: TimeLeft, emitter: DeltaEmitter) -> Answer:
        """Send one request and read its answer, streamed or not.

        Args:
            body: the request.
            left: the remaining time of the whole call.
            emitter: receives the text deltas of a streamed answer.

        Raises:
            ProviderError: if the answer is incomplete or has an error status.
        """
        import aiohttp
        import httpx2

        vendor, timeouts = self._endpoint.vendor, self._endpoint.timeouts
        reader = StreamReader(vendor, self._endpoint.make_collector(), emitter)
        try:
            if (whole := await self._exchange(body, left, reader)) is not None:
                return whole
        except ProviderError:
            raise
        except (httpx2.HTTPError, httpx2.InvalidURL, aiohttp.ClientError, OSError) as error:
            if not reader.has_outcome:
                raise failure_of_connection(vendor, error, left, timeouts) from error
        # For an unusual response, the libraries may raise any exception
        except Exception as error:
            if error is emitter.error:
                raise
            kind = type(error).__name__
            # The traceback is not logged, because it may contain secrets
            log.error("model_request_failed", server=vendor.label, error=kind)  # noqa: TRY400
            if not reader.has_outcome:
                words = f"The request to {vendor.label} failed in this process: {kind}."
                raise ProviderError("provider_unavailable", words) from error
        return reader.answer()

    async def _exchange(self, body: Mapping[str, Any], left: TimeLeft, reader: StreamReader) -> Answer | None:
        """Send a request, and return its answer. A streamed answer goes to the reader."""
        first_byte_s = min(self._endpoint.timeouts.first_byte_s, left.seconds)
        async with asyncio.timeout(first_byte_s) as clock:
            response = await self._connection.http.send(self._request(body, left), stream=True)
            try:
                is_streamed = body.get("stream") is True and response.status_code < 300
                if not is_streamed or "json" in response.headers.get("content-type", "").lower():
                    # The headers have arrived: the rest of the call's time replaces the first-byte timeout
                    clock.reschedule(asyncio.get_running_loop().time() + left.seconds)
                    return await read_answer(self._endpoint.vendor, response)
                await read_events(response, reader, clock, left)
            finally:
                await response.aclose()
        return None

    def _request(self, body: Mapping[str, Any], left: TimeLeft) -> "httpx2.Request":
        import httpx2

        connect_s = min(self._endpoint.timeouts.connect_s, left.seconds)
        timeout = {"connect": connect_s, "pool": connect_s, "read": None, "write": None}
        headers = self._connection.headers
        return httpx2.Request(
            "POST", self._url, headers=headers, content=encoded(body), extensions={"timeout": timeout}
        )


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a body."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def failure_of_connection(vendor: Vendor, error: BaseException, left: TimeLeft, timeouts: Timeouts) -> ProviderError:
    """Return the error for a call whose answer is missing or incomplete. `error` is the error of the HTTP client."""
    # The error that aiohttp raised decides, because the SDKs' transport reports a broken connection as a timeout
    kinds = {kind.__name__: cause for cause in _causes(error) for kind in type(cause).__mro__}
    if not kinds.keys().isdisjoint(_WRONG_ADDRESS):
        return ProviderError(
            "provider_bad_request",
            f"{vendor.url_setting} is no address that begins with http:// or https://.",
        )
    if not kinds.keys().isdisjoint(_LATE_CONNECTION) or ("ConnectTimeout" in kinds and "ClientError" not in kinds):
        return ProviderError("provider_timeout", _timeout_message(vendor, left, timeouts, is_connecting=True))
    refused = next((kinds[name] for name in _NO_CONNECTION if name in kinds), None)
    if refused is not None:
        reason = vendor.redact(_TLS_OPTION.sub("", str(refused)))
        setting = "" if vendor.url_setting in vendor.label else f" (address: {vendor.url_setting})"
        return ProviderError("provider_unavailable", f"No connection to {vendor.label}: {reason}{setting}.")
    if "ClientError" not in kinds and not kinds.keys().isdisjoint({"TimeoutError", "TimeoutException"}):
        return ProviderError("provider_timeout", _timeout_message(vendor, left, timeouts, is_connecting=False))
    return ProviderError("provider_unavailable", f"The connection to {vendor.label} broke before the answer was whole.")


def _timeout_message(vendor: Vendor, left: TimeLeft, timeouts: Timeouts, *, is_connecting: bool) -> str:
    """Return a message that names the expired timeout and its setting."""
    if left.seconds <= _NO_TIME_S:
        return (
            f"{vendor.capital} gave no whole answer in {left.total_s:.4g} s, all that the call had:"
            " raise REDRAFT_CALL_TIMEOUT_S, or the job's deadline."
        )
    if is_connecting:
        return (
            f"{vendor.capital} could not be reached in {timeouts.connect_s:.4g} s:"
            f" check {vendor.url_setting}, or raise REDRAFT_CONNECT_TIMEOUT_S."
        )
    return (
        f"{vendor.capital} sent nothing of an answer in {timeouts.first_byte_s:.4g} s:"
        " raise REDRAFT_FIRST_BYTE_TIMEOUT_S if the model needs longer before its first word."
    )


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
