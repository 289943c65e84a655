"""Lets the child processes of a stack notice the end of their parent, even if SIGKILL ends the parent.

A child's standard input is a pipe. Only the parent has the other end, so the kernel closes it when the parent ends.
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
# The guard waits for `frozen_after_s` multiplied by this. If a frozen process can still log its threads and exit by
# itself, it does so before
SILENCE_TIMES = 1.5


def guarded(command: Sequence[str], grace_s: float, lock: Path | None = None, *, silent_s: float = 0) -> list[str]:
    """Return the command line of a guard, which runs the command, and ends it when this process has ended.

    Args:
        command: the program and its arguments. It shares the standard input of the guard.
        grace_s: the time between SIGTERM and SIGKILL.
        lock: a file that stays locked while the command runs.
        silent_s: the command is killed after this time without a sign of life; 0: never. Before the first sign of
            life, the command is not killed.
    """
    guard = [sys.executable, "-I", "-m", "redraft.embedded.guard", str(lock or ""), str(grace_s), str(silent_s)]
    return [*guard, *command]


def pulse_of(arguments: Sequence[str]) -> int | None:
    """Return the file descriptor for the signs of life of a guarded command; None if the guard expects none."""
    found = [each.removeprefix(_PULSE) for each in arguments if each.startswith(_PULSE)]
    return int(found[0]) if found else None


def await_begin() -> bool:
    """Wait until the parent has upgraded the schema. Return False if the parent ends first."""
    return bool(os.read(0, len(BEGIN)))


def end_with_parent(grace_s: float) -> None:
    """Watch the parent. When it ends, send SIGTERM to this process, and exit after the grace period."""

    def follow() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace_s)
        os._exit(1)  # pragma: no cover - coverage cannot write its data any more

    threading.Thread(target=follow, name="parent-death", daemon=True).start()
