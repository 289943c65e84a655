"""Opens the backend of a command: this installation, or the server that REDRAFT_SERVER or --server names."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from redraft.cli import output, sessions
from redraft.errors import Invalid

if TYPE_CHECKING:
    from redraft.cli.backends.local import Local
    from redraft.cli.backends.remote import Remote

    # Both have the same methods, with the same resources. So commands and views are the same for both
    Backend: TypeAlias = Local | Remote

Noun = Literal["job", "run", "dataset"]

server: ContextVar[str | None] = ContextVar("server", default=None)
"""The URL of the remote server; None for this installation."""


# These commands read and change the installation itself. The API has no routes for most of their actions
_LOCAL_ONLY = frozenset({"db", "doctor", "keys", "models", "observations", "profiles", "serve", "templates", "worker"})


def choose(url: str | None, command: str) -> None:
    """Set the server of this process. Raises Invalid if the command works only on its own installation."""
    server.set(url or None)
    if url and command in _LOCAL_ONLY:
        words = f"`redraft {command}` works only on its own installation, not at the server {url}. Unset REDRAFT_SERVER"
        raise Invalid(f"{words}, or omit --server. Or run the command on the server's machine.", code="not_remote")


@contextmanager
def opened() -> "Generator[Backend]":
    """Yield the backend. On this installation, first upgrade the schema of a database in the data folder."""
    if url := server.get():
        if find_spec("redraft_client") is None:
            words = "Commands with a remote server need the package redraft-client: pip install 'redraft[remote]'"
            raise Invalid(f"{words}, or in a checkout: make setup.", code="client_not_installed")
        from redraft.cli.backends import remote

        with remote.connected(url) as backend:
            yield backend
        return
    from redraft.cli.backends.local import Local

    with sessions.opened() as services:
        yield Local(services)


@contextmanager
def opened_for(noun: Noun, text: str) -> "Generator[tuple[Backend, str]]":
    """Yield the backend, and the id of the resource that a text names.

    Raises NotFound if the text names no resource, and Conflict if it names several.
    """
    with opened() as backend:
        yield backend, backend.find(noun, text)


def print_detached(backend: "Backend", noun: Literal["job", "run"], new_id: str, *, as_json: bool) -> None:
    """Print the id or the data of a detached job or run, and the command that watches it on stderr."""
    if as_json:
        resource = backend.get_job(new_id) if noun == "job" else backend.get_run(new_id)
        output.write_json(resource.model_dump(mode="json", exclude={"iterations"}))
    else:
        output.write_data(new_id)
    watch = f"redraft {noun}s watch {new_id}"
    if backend.is_worker_alive():
        output.say(f"A worker executes the {noun}. Watch it with: {watch}", "dim")
    else:
        output.say(f"No worker is alive. Start a worker with {backend.starters(watch)}", "yellow")
