"""The asynchronous driver: carries out the steps of `_protocol.py`, and leaves the event loop free while it waits."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

import httpx2

from redraft_client._address import Address, response_of
from redraft_client._events import Follower
from redraft_client._protocol import Failure, Reply, Request, Response, Sleep, Steps
from redraft_client.results import StreamedEvent

T = TypeVar("T")


class AsyncDriver:
    """Sends the requests and sleeps. No other part of the client does so."""

    def __init__(self, address: Address, http_client: httpx2.AsyncClient | None) -> None:
        self._address = address
        self._http = http_client or httpx2.AsyncClient()
        self._is_own = http_client is None

    async def run(self, steps: Steps[T]) -> T:
        reply: Reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = None
            if isinstance(step, Sleep):
                await asyncio.sleep(step.seconds)
            else:
                reply = await self._send(step)

    async def _send(self, request: Request) -> Response | Failure:
        try:
            return response_of(await self._http.request(**self._address.arguments(request)))
        except httpx2.RequestError as error:
            return self._address.failure(error)

    async def follow(self, follower: Follower) -> AsyncGenerator[StreamedEvent]:
        """Yield events until the stream is over. The stream is opened again after each interruption."""
        while not follower.is_over:
            try:
                async with aclosing(self._stream(follower)) as events:
                    async for event in events:
                        yield event
            except httpx2.RequestError as error:
                follower.interrupted(self._address.failure(error))
            if not follower.is_over:
                await asyncio.sleep(follower.pause_s)

    async def _stream(self, follower: Follower) -> AsyncGenerator[StreamedEvent]:
        arguments = self._address.arguments(follower.request())
        async with self._http.stream(**arguments) as response:
            if response.status_code != 200:
                await response.aread()
                follower.answered(response_of(response))
                return
            follower.opened()
            async for line in response.aiter_lines():
                if event := follower.feed(line):
                    yield event

    async def aclose(self) -> None:
        if self._is_own:
            await self._http.aclose()
