"""File locks of a data folder. The kernel releases a lock when its process ends, so no lock is stale."""

import fcntl
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from redraft.errors import Conflict


class FolderLock:
    """A file that one process at a time can lock. Child processes do not inherit the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    @property
    def is_held(self) -> bool:
        return self._file is not None

    def try_take(self) -> bool:
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    def write(self, text: str) -> None:
        """Write a text about the holder into the file, for other processes to read."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.write(text)
            self._file.flush()

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@contextmanager
def only_server(data_dir: Path) -> Generator[Callable[[str], None]]:
    """Make this process the only `redraft serve` of a data folder. Yields a function that publishes the URL.

    If another process already serves the folder, raises Conflict with the URL and the pid of that process.
    """
    path = data_dir / "serve.json"
    lock = FolderLock(path)
    if not lock.try_take():
        raise Conflict(f"Redraft already serves {data_dir}{_who(path)}.", code="already_serving")

    try:
        yield lambda url: lock.write(json.dumps({"url": url, "pid": os.getpid()}))
    finally:
        lock.write("")
        lock.release()


def _who(path: Path) -> str:
    try:
        state = json.loads(path.read_text())
        return f" at {state['url']} (pid {state['pid']})"
    except (OSError, ValueError, KeyError):
        return ""
