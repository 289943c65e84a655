"""The MCP server: tools that send requests to the HTTP API of Redraft.

The API serves the MCP server at `/mcp`, and `redraft mcp` serves it on stdin and stdout. `tool_server.py` and the
modules that use it import the SDK of the extra `mcp`. This import takes a second, so other modules import them only
when a client needs a tool.
"""

from importlib.util import find_spec

MISSING = "The MCP server needs the extra 'mcp': pip install 'redraft[mcp]'."


def is_installed() -> bool:
    return find_spec("mcp") is not None
