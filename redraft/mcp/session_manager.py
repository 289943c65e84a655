"""The session manager of the MCP SDK for streamable HTTP, without sessions: any API process can serve any request."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from redraft.mcp.stdio import in_process_client
from redraft.mcp.tool_server import build


@asynccontextmanager
async def manager(
    app: Any, passed_on: Sequence[str], max_body_bytes: int
) -> AsyncGenerator[StreamableHTTPSessionManager]:
    """Run a session manager. Its tools send requests to `app`, with the caller's headers that `passed_on` names."""
    async with in_process_client(app) as client:
        server = build(client, passed_on)
        served = StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=max_body_bytes)
        async with served.run():
            yield served
