"""The files by which a process finds the local model server, and by which the server sees that it is used."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files of a folder, which has at most one server.

    A process locks `start.lock` while it starts a server. The server locks `server.lock` while it lives. Each process
    that uses the server has a shared lock on `users.lock`. `state` has the server's address and key.
    """

    folder: Path

    @property
    def start_lock(self) -> Path:
        return self.folder / "start.lock"

    @property
    def server_lock(self) -> Path:
        return self.folder / "server.lock"

    @property
    def users_lock(self) -> Path:
        return self.folder / "users.lock"

    @property
    def state(self) -> Path:
        return self.folder / "server.json"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"
