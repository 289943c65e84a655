"""Lets a child of a stack notice any end of its parent: the standard input of the child is closed.

Only the parent has the other end of that pipe, so the kernel closes it with the parent.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

EMBEDDED = "--embedded"
BEGIN = b"begin\n"
_PULSE = "--pulse="
# How many times `frozen_after_s` the guard waits: a process that can end itself does so before, and logs its threads
SILENCE_TIMES = 1.5


def guarded(command: Sequence[str], grace_s: float, lock: Path | None = None, *, silent_s: float = 0) -> list[str]:
    """A command under a guard, which ends it when this process has ended.

    Args:
        command: the program and its arguments; its standard input is that of the guard.
        grace_s: the time between SIGTERM and SIGKILL.
        lock: a file that it locks while it runs.
        silent_s: kill it if it gives no sign of life for so long after its first one; 0: never.
    """
    guard = [sys.executable, "-I", "-m", "redraft.embedded.guard", str(lock or ""), str(grace_s), str(silent_s)]
    return [*guard, *command]


def pulse_of(arguments: Sequence[str]) -> int | None:
    """The file descriptor for the signs of life of a guarded command; None if none are expected."""
    found = [each.removeprefix(_PULSE) for each in arguments if each.startswith(_PULSE)]
    return int(found[0]) if found else None


def await_begin() -> bool:
    """Wait until the parent has upgraded the schema; False if it has ended before."""
    return bool(os.read(0, len(BEGIN)))


def end_with_parent(grace_s: float) -> None:
    """Watch the parent. When it ends, send SIGTERM to this process, and exit after the grace period."""

    def follow() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace_s)
        os._exit(1)  # pragma: no cover - coverage cannot write its data any more

    threading.Thread(target=follow, name="lifeline", daemon=True).start()
