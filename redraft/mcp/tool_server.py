"""The server of the MCP SDK: lists the tools, and runs them."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from redraft.domain.jobs.ids import read_traceparent
from redraft.mcp.api_client import ApiClient, ToolError
from redraft.mcp.tools import INSTRUCTIONS, TOOLS, Report, Tool

Context = ServerRequestContext[Any, Any]


def build(client: httpx2.AsyncClient, passed_on: Sequence[str] = ()) -> Server[Any]:
    """Build the server. Its tools send requests by `client`, with the caller's headers that `passed_on` names."""

    async def list_tools(_context: Context, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_described_tools())

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r}.")
        api = ApiClient(client, _headers_of(context, passed_on))
        try:
            result = await tool.run(api, params.arguments or {}, _report_of(context))
        except ToolError as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
        text = json.dumps(result, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=result)

    return Server(
        "redraft",
        version=version("redraft"),
        title="Redraft",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


@cache  # the SDK lists the tools for each tool call, and building their schemas takes 0.1 s
def _described_tools() -> list[types.Tool]:
    return [_described(tool) for tool in TOOLS.values()]


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.model_json_schema(),
        output_schema=tool.result.model_json_schema(mode="serialization"),
        annotations=types.ToolAnnotations(read_only_hint=not tool.changes, destructive_hint=False),
    )


def _headers_of(context: Context, passed_on: Sequence[str]) -> dict[str, str]:
    received: Mapping[str, str] = context.request.headers if context.request else {}
    headers = {name: received[name] for name in passed_on if name in received}
    # A host on stdio sends no headers, but may send a traceparent in the metadata of a call
    trace = (context.meta or {}).get("traceparent")
    parent = read_traceparent(trace) if isinstance(trace, str) else None
    return {**headers, "traceparent": str(parent)} if parent else headers


def _report_of(context: Context) -> Report | None:
    """Return the function that reports progress; None if the client did not ask for progress."""
    if not (context.meta and context.meta.get("progress_token") is not None):
        return None

    async def report(number: int, message: str) -> None:
        await context.session.report_progress(number, message=message)

    return report
