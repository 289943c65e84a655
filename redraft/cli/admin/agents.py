"""The command `redraft mcp`, which offers the tools of Redraft to agents."""

from typing import Annotated

import typer

from redraft.cli import sessions
from redraft.cli.admin.serving import serve
from redraft.cli.backends import opening
from redraft.errors import Invalid


def mcp(
    *,
    http: Annotated[
        bool,
        typer.Option(
            "--http",
            help="Serve over HTTP instead, with the API and the pages: the same as `redraft serve`. The tools are at "
            "/mcp.",
        ),
    ] = False,
    api_key: Annotated[
        str | None, typer.Option(envvar="REDRAFT_API_KEY", hidden=True, help="The API key of a remote server.")
    ] = None,
) -> None:
    """Run an MCP server on stdin and stdout.

    A host, such as an editor, starts this command (docs/mcp.md).

    Unless REDRAFT_SERVER or REDRAFT_BROKER_URL is set, the command also runs a broker and a worker.
    """
    from redraft.mcp import MISSING, is_installed

    if not is_installed():
        raise Invalid(MISSING, code="mcp_not_installed")
    server = opening.server.get()
    if http and server:
        raise Invalid(f"--http serves this installation, not {server}. Use {server}/mcp.", code="not_remote")
    if http:
        serve()
        return
    from redraft.mcp import stdio

    if server:
        stdio.serve_elsewhere(server, api_key)
        return
    from redraft.cli.views.waiting import interrupted_by_sigterm

    # A host sends SIGTERM, and soon kills the process. The broker and the worker must have ended before the kill
    with sessions.opened() as services, sessions.worker_beside(services), interrupted_by_sigterm():
        stdio.serve_here(services.settings)
