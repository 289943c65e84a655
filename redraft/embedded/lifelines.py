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
_PULSE = "--pulse="
SILENCE_TIMES = 1.5
"""So many times `frozen_after_s`: a process that can still end itself says where it stands, which is worth more."""


def guarded(command: Sequence[str], grace_s: float, lock: Path | None = None, *, silent_s: float = 0) -> list[str]:
    """A command as the child of a guard, which ends with us and then ends it, whatever it does.

    Args:
        command: the program and its arguments; its standard input is the guard's.
        grace_s: how long it has after SIGTERM.
        lock: a file that it holds while it runs.
        silent_s: it is killed when it gives no sign of life for so long after its first one; 0: it gives none.
    """
    guard = [sys.executable, "-I", "-m", "redraft.embedded.guard", str(lock or ""), str(grace_s), str(silent_s)]
    return [*guard, *command]


def pulse_of(arguments: Sequence[str]) -> int | None:
    """Where a guarded command writes its signs of life; None: nobody waits for any."""
    found = [each.removeprefix(_PULSE) for each in arguments if each.startswith(_PULSE)]
    return int(found[0]) if found else None


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
