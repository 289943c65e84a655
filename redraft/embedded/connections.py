"""Connections of clients: how long they may be idle, and how long the head of a request may take."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

KEEP_ALIVE_S = 75
"""Longer than proxies keep idle connections (nginx and most load balancers: 60 s), so that it is they who close them:
a request on a connection that the server is just closing is lost."""


class BoundedHeads(H11Protocol):
    """Closes a connection whose request's head does not arrive within `head_s`: open sockets are few."""

    head_s = 20.0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """A timer runs from the first byte of a head, or the connection's beginning, to the head's end."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self._unwatch()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_s, self.transport.close)

    def _unwatch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
