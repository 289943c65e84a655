"""The users' side of the local model server: find the one that runs, or start it; never two.

All by file locks, since they vanish with their process: no pid is trusted, nothing is left to clean up.
"""

import fcntl
import json
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from redraft.errors import ProviderError
from redraft.providers.local.files import LocalFiles
from redraft.providers.shared.transport import TimeLeft

_POLL_S = 0.05
_DYING_S = 1.0
_LOG_LINES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Serving:
    """Where the server listens."""

    url: str
    key: str
    model: str


class LocalServer:
    """This process's hold on the server of a data folder; safe to use from many threads."""

    def __init__(self, folder: Path, model: Path, context_tokens: int) -> None:
        self._files = LocalFiles(folder)
        self._model = str(model.absolute())
        self._context_tokens = context_tokens
        self._lock = threading.Lock()
        self._users: IO[str] | None = None
        self._serving: Serving | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def serving(self, left: TimeLeft) -> Serving:
        """Where the server listens; started, or waited for, where that is needed.

        Raises:
            ProviderError: it does not start (`unknown_model`), or not in time (`provider_timeout`).
        """
        known = self._serving
        if known is not None:
            return known
        if not self._lock.acquire(timeout=left.seconds):
            raise _too_slow()
        try:
            if self._serving is None:
                self._join_users(left)
                self._serving = self._found_or_started(left)
            return self._serving
        finally:
            self._lock.release()

    def is_lost(self, serving: Serving) -> bool:
        """Whether that server has ended; if so, the next `serving` looks for another."""
        with self._lock:
            if self._serving == serving and self._has_ended():
                self._serving = None
            return self._serving != serving

    def _has_ended(self) -> bool:
        # A process that exits closes its sockets shortly before it releases its locks.
        wait = TimeLeft(_DYING_S)
        while self._is_alive():
            if wait.is_over:
                return False
            time.sleep(_POLL_S)
        return True

    def close(self) -> None:
        """Stop using it. When no process uses it any more, it ends."""
        with self._lock:
            self._serving = None
            if self._users is not None:
                self._users.close()
                self._users = None

    def _join_users(self, left: TimeLeft) -> None:
        if self._users is not None:
            return
        self._files.folder.mkdir(parents=True, exist_ok=True)
        users = self._files.users_lock.open("a")
        try:
            _lock_in_time(users, fcntl.LOCK_SH, left)
        except ProviderError:
            users.close()
            raise
        self._users = users

    def _found_or_started(self, left: TimeLeft) -> Serving:
        with self._starting(left):
            while True:
                serving = self._read_state()
                if self._is_alive():
                    if serving is not None:
                        self._process = None
                        return self._checked(serving)
                elif not self._is_starting():
                    self._spawn()
                if left.is_over:
                    raise _too_slow()
                time.sleep(_POLL_S)

    def _is_starting(self) -> bool:
        """Whether a process of ours is on its way.

        Raises:
            ProviderError: it has given up.
        """
        if self._process is None:
            return False
        returncode = self._process.poll()
        if returncode is None:
            return True
        self._process = None
        # 0: it had no users, or another server took the lock first.
        if returncode != 0:
            raise self._did_not_start(returncode)
        return False

    @contextmanager
    def _starting(self, left: TimeLeft) -> Generator[None]:
        with self._files.start_lock.open("a") as lock:
            _lock_in_time(lock, fcntl.LOCK_EX, left)
            yield

    def _spawn(self) -> None:
        self._files.state.unlink(missing_ok=True)
        command = [sys.executable, "-m", "redraft.providers.local.server"]
        arguments = [str(self._files.folder), self._model, str(self._context_tokens)]
        with self._files.log.open("wb") as log:
            # Its own session: Ctrl-C in one terminal must not end the server of other processes.
            process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        # Wait for its exit code, or it stays a zombie for as long as this process lives.
        threading.Thread(target=process.wait, name="local-model-reaper", daemon=True).start()
        self._process = process

    def _is_alive(self) -> bool:
        """Whether a server holds its lock."""
        with self._files.server_lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _read_state(self) -> Serving | None:
        try:
            state = json.loads(self._files.state.read_text())
            return Serving(state["url"], state["key"], state["model"])
        except (OSError, ValueError, KeyError):
            return None

    def _checked(self, serving: Serving) -> Serving:
        if serving.model != self._model:
            raise ProviderError(
                "unknown_model",
                f"Another local model is being served from this data folder: {Path(serving.model).name}."
                " Stop the processes that use it, or set another REDRAFT_DATA_DIR.",
            )
        return serving

    def _did_not_start(self, returncode: int) -> ProviderError:
        lines = self._files.log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
        told = " | ".join(line.strip() for line in lines if line.strip())
        # Ended by a signal (out of memory, shutdown): transient. Any other exit means a wrong file: permanent.
        code = "provider_unavailable" if returncode < 0 else "unknown_model"
        words = f"The local model's server did not start with {self._model}. Check REDRAFT_LOCAL_MODEL."
        return ProviderError(code, f"{words} Its log ends: {told}")


def _lock_in_time(lock: IO[str], kind: int, left: TimeLeft) -> None:
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if left.is_over:
                raise _too_slow() from None
            time.sleep(_POLL_S)
        else:
            return


def _too_slow() -> ProviderError:
    return ProviderError("provider_timeout", "The local model's server was not ready in time.")
