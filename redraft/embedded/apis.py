"""The API in this process: uvicorn around the app.

The app is named by its import string: entry points do not import one another.
"""

import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.importer import import_from_string

from redraft.embedded.connections import KEEP_ALIVE_S, BoundedHeads
from redraft.settings import Settings

_APP = "api.app:create_app"
# Streams end by themselves when the server stops; whatever else is open is cut then.
_SHUTDOWN_S = 5


class Api(uvicorn.Server):
    """`run` serves until a signal, or until `should_exit` is set from another thread."""

    def __init__(self, settings: Settings, listener: socket.socket, on_ready: Callable[[], None]) -> None:
        app: Any = import_from_string(_APP)(settings)
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_SHUTDOWN_S,
                timeout_keep_alive=KEEP_ALIVE_S,
                http=BoundedHeads,
            )
        )
        self._listener = listener
        self._on_ready = on_ready
        self._end_streams: Callable[[], None] = app.state.end_streams

    def serve_until_stopped(self) -> None:
        self.run(sockets=[self._listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)
