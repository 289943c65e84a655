"""The server of the MCP SDK: lists the tools, and runs them."""

import json
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from redraft.mcp.api_client import ApiClient, ToolError
from redraft.mcp.tools import INSTRUCTIONS, TOOLS, Report, Tool

Context = ServerRequestContext[Any, Any]


def build(api_of: Callable[[Context], ApiClient]) -> Server[Any]:
    """Build the server. `api_of` returns the API with the credentials of the caller of a request."""

    async def list_tools(_context: Context, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_described_tools())

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r}.")
        try:
            result = await tool.run(api_of(context), params.arguments or {}, _report_of(context))
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


@cache  # the SDK lists the tools for each call of a tool, and to build the schemas takes 0.1 s
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


def _report_of(context: Context) -> Report | None:
    """Return the function that reports progress; None if the client did not ask for progress."""
    if not (context.meta and context.meta.get("progress_token") is not None):
        return None

    async def report(number: int, message: str) -> None:
        await context.session.report_progress(number, message=message)

    return report
