"""Serves the MCP server at `/mcp`: the tools send their requests to this API, with the API key of the caller.

`api/authentication.py` protects the path like the API, also against DNS rebinding. Each request of a
tool to the API is authenticated, too, so a tool needs the scopes of its requests.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.problems import HttpProblem
from redraft import mcp

PATH = "/mcp"
# A trace context is passed on, so that the jobs of an agent belong to its trace
_PASSED_ON = ("authorization", "traceparent")


class McpEndpoint:
    """The ASGI app of one path. It starts with the first request, because the import of the SDK takes a second."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._asked: asyncio.Event
        self._manager: asyncio.Future[Any]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not mcp.is_installed():
            raise HttpProblem(404, mcp.MISSING, code="mcp_not_installed")
        self._asked.set()
        manager = await asyncio.shield(self._manager)
        await manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def running(self, app: ASGIApp) -> AsyncGenerator[None]:
        self._asked, self._manager = asyncio.Event(), asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(app))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, app: ASGIApp) -> None:
        """Run the session manager. It must start and end in the same task, so it cannot start in a request."""
        await self._asked.wait()
        try:
            async with await run_in_threadpool(_load, app, self._max_body_bytes) as manager:
                self._manager.set_result(manager)
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001 - the request that waits raises it
            self._manager.set_exception(error)


def _load(app: ASGIApp, max_body_bytes: int) -> contextlib.AbstractAsyncContextManager[Any]:
    from redraft.mcp import session_manager

    return session_manager.manager(app, _PASSED_ON, max_body_bytes)
