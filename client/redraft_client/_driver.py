"""The blocking driver: carries out the steps of `_protocol.py`. `make docs` generates this file."""

import time
from collections.abc import Generator
from contextlib import closing
from typing import TypeVar

import httpx2

from redraft_client._address import Address, response_of
from redraft_client._events import Follower
from redraft_client._protocol import Failure, Reply, Request, Response, Sleep, Steps
from redraft_client.results import StreamedEvent

T = TypeVar("T")


class Driver:
    """Sends the requests and sleeps. No other part of the client does so."""

    def __init__(self, address: Address, http_client: httpx2.Client | None) -> None:
        self._address = address
        self._http = http_client or httpx2.Client()
        self._is_own = http_client is None

    def run(self, steps: Steps[T]) -> T:
        reply: Reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = None
            if isinstance(step, Sleep):
                time.sleep(step.seconds)
            else:
                reply = self._send(step)

    def _send(self, request: Request) -> Response | Failure:
        try:
            return response_of(self._http.request(**self._address.arguments(request)))
        except httpx2.RequestError as error:
            return self._address.failure(error)

    def follow(self, follower: Follower) -> Generator[StreamedEvent]:
        """Yield events until the stream is over. The stream is opened again after each interruption."""
        while not follower.is_over:
            try:
                with closing(self._stream(follower)) as events:
                    for event in events:
                        yield event
            except httpx2.RequestError as error:
                follower.interrupted(self._address.failure(error))
            if not follower.is_over:
                time.sleep(follower.pause_s)

    def _stream(self, follower: Follower) -> Generator[StreamedEvent]:
        arguments = self._address.arguments(follower.request())
        with self._http.stream(**arguments) as response:
            if response.status_code != 200:
                response.read()
                follower.answered(response_of(response))
                return
            follower.opened()
            for line in response.iter_lines():
                if event := follower.feed(line):
                    yield event

    def close(self) -> None:
        if self._is_own:
            self._http.close()
