"""Who runs what in a data folder: file locks, which vanish with their process. No pid is trusted."""

import fcntl
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from redraft.errors import Conflict


class FolderLock:
    """One file, locked by one process at a time. Not inherited by children."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    @property
    def is_held(self) -> bool:
        return self._file is not None

    def try_take(self) -> bool:
        """Take it if nobody has it."""
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    def write(self, text: str) -> None:
        """Tell others who the holder is; read by `Path.read_text`."""
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
    """Be the one `serve` of a data folder.

    Yields:
        What to call with the URL, for others to read.

    Raises:
        Conflict: another one is; the message says where it listens and its pid.
    """
    path = data_dir / "serve.json"
    lock = FolderLock(path)
    if not lock.try_take():
        raise Conflict(f"Redraft already serves {data_dir}{_who(path)}.", code="already_serving")

    def tell(url: str) -> None:
        lock.write(json.dumps({"url": url, "pid": os.getpid()}))

    try:
        yield tell
    finally:
        lock.write("")
        lock.release()


def _who(path: Path) -> str:
    try:
        state = json.loads(path.read_text())
        return f" at {state['url']} (pid {state['pid']})"
    except (OSError, ValueError, KeyError):
        return ""
