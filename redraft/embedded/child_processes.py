"""Runs one child process of a stack, and restarts it when it ends."""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import structlog

from redraft.embedded.parent_death import BEGIN
from redraft.embedded.stop_signals import StopSignals

log = structlog.get_logger()

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
# If a child has run for this time, its failure was not a failed start, so the next pause is short again
_STEADY_AFTER_S = 30.0
_STOP_POLL_S = 0.02
_LOG_BYTES_MAX = 5_000_000
# Only the owner may read the logs, which contain answers and messages
_PRIVATE = 0o077


class Part:
    """A command that runs as a child. It notices the parent's end at its standard input, a pipe (`parent_death.py`).

    The output of the command goes to the file `log_path`, or to the standard error of this process.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log_path: Path | None
    ) -> None:
        self.name = name
        self.failures = 0
        self._command = list(command)
        self._environment = dict(environment)
        self._log_path = log_path
        self._may_begin = False
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process = self._spawn()
        self._keeper = threading.Thread(target=self._keep, name=f"keep-{name}", daemon=True)
        self._keeper.start()

    def begin(self) -> None:
        with self._lock:
            self._may_begin = True
            self._send_begin()

    def stop(self, grace_s: float, signals: StopSignals) -> None:
        """Send SIGTERM. Send SIGKILL after the grace period, or earlier at a second signal or if the wait raises."""
        with self._lock:
            self._stopping.set()
        process = self._process
        try:
            process.terminate()
            give_up_at = time.monotonic() + grace_s
            while process.poll() is None and not signals.is_urgent and time.monotonic() < give_up_at:
                time.sleep(_STOP_POLL_S)
        finally:
            process.kill()
            process.wait()
            self._keeper.join()
            _close_pipe(process)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        with contextlib.ExitStack() as files:
            output = 2 if self._log_path is None else files.enter_context(_open_log(self._log_path))
            # The child has its own session: Ctrl-C reaches only the parent, which ends the children in order
            return subprocess.Popen(  # noqa: S603 - our own command, no shell
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                bufsize=0,
                start_new_session=True,
                umask=_PRIVATE,
            )

    def _keep(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            started_at = time.monotonic()
            returncode = self._process.wait()
            if time.monotonic() - started_at > _STEADY_AFTER_S:
                pause_s = _FIRST_PAUSE_S
            if self._stopping.wait(pause_s):
                return
            self.failures += 1
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            log.warning("embedded_part_ended", part=self.name, returncode=returncode)
            if not self._restart():
                return

    def _restart(self) -> bool:
        with self._lock:
            if self._stopping.is_set():
                return False
            _close_pipe(self._process)
            self._process = self._spawn()
            if self._may_begin:
                self._send_begin()
        return True

    def _send_begin(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(BEGIN)


def _open_log(path: Path) -> IO[bytes]:
    """Open the log for appending. If the log is large, empty it first."""
    is_large = path.exists() and path.stat().st_size > _LOG_BYTES_MAX
    return open(path, "wb" if is_large else "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


def _close_pipe(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()
