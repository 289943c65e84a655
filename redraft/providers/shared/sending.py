"""One request of a call through an SDK's client, and its raw answer: the same for every wire format."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from redraft.providers.shared.failures import Answer, Vendor, failure_of_connection
from redraft.providers.shared.replies import read_answer
from redraft.providers.shared.streams import Collector, DeltaEmitter, read_stream
from redraft.providers.shared.transport import Patience, StreamDeadline, TimeLeft, call_timeout

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a request goes, and how its answer is read.

    Attributes:
        path: below the base URL.
        vendor: who is asked, for messages.
        patience: how long the parts of a call may take.
        make_collector: makes what reads the events of this wire format.
    """

    path: str
    vendor: Vendor
    patience: Patience
    make_collector: Callable[[], Collector]


def send_request(
    sdk: ModuleType, client: Any, endpoint: Endpoint, body: Mapping[str, Any], left: TimeLeft, emitter: DeltaEmitter
) -> Answer:
    """Make one request and read its answer, streamed or whole.

    Args:
        sdk: the module with the client's error classes.
        client: the SDK's client.
        endpoint: where the request goes.
        body: the request.
        left: the time of the whole call.
        emitter: gets the pieces of a streamed answer.

    Raises:
        ProviderError: no whole answer came, or its status is an error.
    """
    import httpx2

    vendor, patience = endpoint.vendor, endpoint.patience
    is_stream = body.get("stream") is True
    first_byte = TimeLeft(patience.first_byte_s)
    try:
        # For this type the SDKs hand back the response as it is, streamed or not
        response = cast(
            "httpx2.Response",
            client.post(
                endpoint.path,
                cast_to=httpx2.Response,
                body=dict(body),
                options={"timeout": call_timeout(left, patience)},
                stream=is_stream,
                stream_cls=sdk.Stream[Any],
            ),
        )
        if not is_stream:
            return read_answer(vendor, response)
        with contextlib.closing(response):
            deadline = StreamDeadline(response, first_byte, left)
            return read_stream(vendor, response, endpoint.make_collector(), emitter, deadline)
    except sdk.APIStatusError as error:
        return read_answer(vendor, error.response)
    except (sdk.APIError, httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise failure_of_connection(vendor, error, left, patience) from error
