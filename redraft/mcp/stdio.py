"""Serves the MCP server on stdin and stdout, for a host that starts it as a process."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp.server.stdio import stdio_server
from uvicorn.importer import import_from_string

from redraft.mcp.tool_server import build
from redraft.settings import Settings

# The longest request is a draft, which takes as long as a model call
_TIMEOUT = httpx2.Timeout(300, connect=10)


def serve_here(settings: Settings) -> None:
    """Serve until the host closes stdin, with the API in this process.

    The tools need no API key, because a user who can start this process can also read its settings and its database.
    """
    anyio.run(_serve_here, settings.model_copy(update={"host": "127.0.0.1", "require_auth": False}))


def serve_elsewhere(server: str, api_key: str | None) -> None:
    """Serve until the host closes stdin, with the API of another server."""
    anyio.run(_serve_elsewhere, server, {"Authorization": f"Bearer {api_key}"} if api_key else {})


async def _serve_here(settings: Settings) -> None:
    async with _app(settings) as app, in_process_client(app) as client:
        await _serve(client)


async def _serve_elsewhere(server: str, headers: dict[str, str]) -> None:
    async with httpx2.AsyncClient(base_url=server, headers=headers, timeout=_TIMEOUT) as client:
        await _serve(client)


def in_process_client(app: Any) -> httpx2.AsyncClient:
    """Return a client whose requests go to an ASGI app without a connection."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=None)


@asynccontextmanager
async def _app(settings: Settings) -> AsyncGenerator[Any]:
    # Imported by name, because entry points do not import each other
    app: Any = import_from_string("api.app:create_app")(settings)
    async with app.router.lifespan_context(app):
        yield app


async def _serve(client: httpx2.AsyncClient) -> None:
    server = build(client)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
