"""A process between us and Valkey: `python -m redraft.embedded.guard LOCK VALKEY ARGUMENTS…`.

Valkey cannot notice that the process that wanted it has gone; this one can: its standard input ends.
Only the standard library, so that it starts in a few milliseconds.
"""

import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import IO

_KILL_AFTER_S = 5.0
_PR_SET_PDEATHSIG = 1


def main(lock_path: str, *command: str) -> int:
    """Run Valkey until it ends, or until our parent is gone, or until a signal."""
    lock = _lock(Path(lock_path))
    if lock is None:
        return 0
    with lock:
        # Valkey holds the lock too, so it is free only when both have ended.
        valkey = subprocess.Popen(  # noqa: S603 - our own arguments, no shell
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=(lock.fileno(),),
            preexec_fn=_death_wish(),  # noqa: PLW1509 - no threads yet
        )

    # A handler may interrupt another one: it takes no lock
    signals: SimpleQueue[int] = SimpleQueue()

    def hear(number: int, _frame: FrameType | None) -> None:
        signals.put(number)

    def end_on_signal() -> None:
        signals.get()
        _end(valkey)

    threading.Thread(target=end_on_signal, daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, hear)
    threading.Thread(target=_follow_parent, args=(valkey,), daemon=True).start()
    return valkey.wait()


def _lock(path: Path) -> IO[str] | None:
    """Wait for an earlier Valkey of this folder to end: it would remove our socket, and shares our files."""
    lock = path.open("a")
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if select.select([0], [], [], 0.02)[0]:
                lock.close()
                return None
        else:
            return lock


def _death_wish() -> Callable[[], object] | None:
    """On Linux, what makes Valkey end when this process is killed; loaded before the fork."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _follow_parent(valkey: "subprocess.Popen[bytes]") -> None:
    os.read(0, 1)
    _end(valkey)


def _end(valkey: "subprocess.Popen[bytes]") -> None:
    valkey.terminate()
    try:
        valkey.wait(_KILL_AFTER_S)
    except subprocess.TimeoutExpired:
        valkey.kill()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
