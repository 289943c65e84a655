"""Finds or starts the local model server, which all processes of a data folder share.

File locks show which processes are alive. The kernel releases the locks of a process when it ends, so a crash leaves
no stale pid behind.
"""

import ctypes
import fcntl
import json
import os
import subprocess
import sys
import sysconfig
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
_EXIT_WAIT_S = 1.0
_LOG_LINES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of the server, with its key and the file of its model."""

    url: str
    key: str
    model: str


def server_environment(library: str = "libgomp.so.1") -> dict[str, str] | None:
    """Return the environment of the server with the folder of a library that slim systems lack.

    Return None if the system has the library.
    """
    try:
        ctypes.CDLL(library)
    except OSError:
        # The package cmeel-libomp contains the library
        folders = [str(Path(sysconfig.get_path("platlib"), "cmeel.prefix", "lib")), os.environ.get("LD_LIBRARY_PATH")]
        return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders))}
    return None


class LocalServer:
    """Lets this process use the server of a data folder. Thread-safe."""

    def __init__(self, folder: Path, model: Path, context_tokens: int) -> None:
        self._files = LocalFiles(folder)
        self._model = str(model.absolute())
        self._context_tokens = context_tokens
        self._lock = threading.Lock()
        self._users: IO[str] | None = None
        self._serving: ServerAddress | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def serving(self, left: TimeLeft) -> ServerAddress:
        """Return the address of the server. If no server runs, start one and wait until it is ready.

        Raises:
            ProviderError: if the server does not start (code `unknown_model`, or `provider_unavailable` after a
                signal), or is not ready in time (`provider_timeout`).
        """
        known = self._serving
        if known is not None:
            return known
        if not self._lock.acquire(timeout=left.seconds):
            raise _start_timeout()
        try:
            if self._serving is None:
                self._join_users(left)
                self._serving = self._found_or_started(left)
            return self._serving
        finally:
            self._lock.release()

    def is_lost(self, serving: ServerAddress) -> bool:
        """Whether the server has ended. If so, the next `serving` finds or starts another server."""
        with self._lock:
            if self._serving == serving and self._has_ended():
                self._serving = None
            return self._serving != serving

    def _has_ended(self) -> bool:
        # When a process exits, the kernel closes its sockets shortly before it releases its locks
        wait = TimeLeft(_EXIT_WAIT_S)
        while self._is_alive():
            if wait.is_over:
                return False
            time.sleep(_POLL_S)
        return True

    def close(self) -> None:
        """Stop using the server. The server ends when no process uses it."""
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

    def _found_or_started(self, left: TimeLeft) -> ServerAddress:
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
                    raise _start_timeout()
                time.sleep(_POLL_S)

    def _is_starting(self) -> bool:
        """Whether the server that this process has started is not yet ready.

        Raises:
            ProviderError: if this server has ended with an error.
        """
        if self._process is None:
            return False
        returncode = self._process.poll()
        if returncode is None:
            return True
        self._process = None
        # A server exits with 0 if it has no users, or if another server has the lock
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
            # The server has its own session, so that Ctrl-C in a terminal does not end it for other processes
            process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=server_environment(),
            )
        # A thread waits for the exit code. Otherwise the ended server remains a zombie until this process ends
        threading.Thread(target=process.wait, name="local-model-reaper", daemon=True).start()
        self._process = process

    def _is_alive(self) -> bool:
        """Whether a server has locked `server.lock`."""
        with self._files.server_lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _read_state(self) -> ServerAddress | None:
        try:
            state = json.loads(self._files.state.read_text())
            return ServerAddress(state["url"], state["key"], state["model"])
        except (OSError, ValueError, KeyError):
            return None

    def _checked(self, serving: ServerAddress) -> ServerAddress:
        if serving.model != self._model:
            raise ProviderError(
                "unknown_model",
                f"The server of this data folder serves another local model: {Path(serving.model).name}."
                " Stop the processes that use it, or set another REDRAFT_DATA_DIR.",
            )
        return serving

    def _did_not_start(self, returncode: int) -> ProviderError:
        lines = self._files.log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
        log_end = " | ".join(line.strip() for line in lines if line.strip())
        # A signal ends the server if memory is short or the machine shuts down, which is transient. Any other exit
        # means a wrong file
        code = "provider_unavailable" if returncode < 0 else "unknown_model"
        message = f"The local model's server did not start with {self._model}. Check REDRAFT_LOCAL_MODEL."
        return ProviderError(code, f"{message} Its log ends: {log_end}")


def _lock_in_time(lock: IO[str], kind: int, left: TimeLeft) -> None:
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if left.is_over:
                raise _start_timeout() from None
            time.sleep(_POLL_S)
        else:
            return


def _start_timeout() -> ProviderError:
    return ProviderError("provider_timeout", "The local model's server was not ready in time.")
