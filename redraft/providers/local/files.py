"""The files by which local model servers and their users find each other."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """One folder, one server.

    `start.lock` is held while starting one; `server.lock` by the server as long as it lives;
    `users.lock`, shared, by every process that uses it; `state` says where it listens.
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
