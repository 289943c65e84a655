"""How a child of a stack knows that its parent is gone, whatever ended it: its standard input ends.

Only the parent holds the other end of that pipe, so the kernel closes it with the parent.
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


def guarded(command: Sequence[str], grace_s: float, lock: Path | None = None) -> list[str]:
    """A command as the child of a guard, which ends with us and then ends it, whatever it does.

    Args:
        command: the program and its arguments; its standard input is the guard's.
        grace_s: how long it has after SIGTERM.
        lock: a file that it holds while it runs.
    """
    guard = [sys.executable, "-I", "-m", "redraft.embedded.guard", str(lock or ""), str(grace_s)]
    return [*guard, *command]


def await_begin() -> bool:
    """Wait until the parent says that the schema is there; False when it has gone before."""
    return bool(os.read(0, len(BEGIN)))


def end_with_parent(grace_s: float) -> None:
    """From now on: when the parent is gone, SIGTERM to ourselves, and a hard end after the grace."""
    threading.Thread(target=_follow, args=(grace_s,), name="lifeline", daemon=True).start()


def _follow(grace_s: float) -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    os._exit(1)  # pragma: no cover - it writes nothing any more
