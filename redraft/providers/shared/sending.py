"""Sends one request of a call through an SDK's client, and reads the raw answer, for every wire format."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from redraft.providers.shared.failures import Answer, Vendor, failure_of_connection
from redraft.providers.shared.replies import read_answer
from redraft.providers.shared.streams import Collector, DeltaEmitter, StreamReader, read_events
from redraft.providers.shared.transport import TimeLeft, Timeouts

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The target of a request.

    Attributes:
        path: the path below the base URL.
        vendor: the vendor of the API, for error messages.
        timeouts: the timeouts for the parts of a call.
        make_collector: creates the object that reads the events of this wire format.
    """

    path: str
    vendor: Vendor
    timeouts: Timeouts
    make_collector: Callable[[], Collector]


async def send_request(
    sdk: ModuleType, client: Any, endpoint: Endpoint, body: Mapping[str, Any], left: TimeLeft, emitter: DeltaEmitter
) -> Answer:
    """Send one request and read its answer, streamed or not.

    Args:
        sdk: the module with the client's error classes.
        client: the SDK's client.
        endpoint: the target of the request.
        body: the request.
        left: the remaining time of the whole call.
        emitter: receives the text deltas of a streamed answer.

    Raises:
        ProviderError: if the answer is incomplete or has an error status.
    """
    import aiohttp
    import httpx2

    reader = StreamReader(endpoint.vendor, endpoint.make_collector(), emitter)
    first_byte_s = min(endpoint.timeouts.first_byte_s, left.seconds)
    try:
        async with asyncio.timeout(first_byte_s) as clock:
            response = await _response(sdk, client, endpoint, body, left)
            try:
                if body.get("stream") is not True or "json" in response.headers.get("content-type", "").lower():
                    # The headers have arrived: the rest of the call's time replaces the first-byte timeout
                    clock.reschedule(asyncio.get_running_loop().time() + left.seconds)
                    await response.aread()
                    return read_answer(endpoint.vendor, response)
                await read_events(response, reader, clock, left)
            finally:
                await response.aclose()
    except sdk.APIStatusError as error:
        return read_answer(endpoint.vendor, error.response)
    except (sdk.APIError, httpx2.HTTPError, httpx2.InvalidURL, aiohttp.ClientError, OSError) as error:
        if not reader.has_outcome:
            raise failure_of_connection(endpoint.vendor, error, left, endpoint.timeouts) from error
    return reader.answer()


async def _response(
    sdk: ModuleType, client: Any, endpoint: Endpoint, body: Mapping[str, Any], left: TimeLeft
) -> "httpx2.Response":
    import httpx2

    connect_s = min(endpoint.timeouts.connect_s, left.seconds)
    timeout = httpx2.Timeout(None, connect=connect_s, pool=connect_s)
    # With `cast_to=httpx2.Response`, the SDKs return the raw response. The response is always streamed: otherwise the
    # SDK would read the whole body, before the first-byte timeout can be replaced
    response = await client.post(
        endpoint.path,
        cast_to=httpx2.Response,
        body=dict(body),
        options={"timeout": timeout},
        stream=True,
        stream_cls=sdk.AsyncStream[Any],
    )
    return cast("httpx2.Response", response)
