"""How a child of a stack knows that its parent is gone, whatever ended it: its standard input ends.

Only the parent holds the other end of that pipe, so the kernel closes it with the parent.
"""

import os
import signal
import threading
import time

EMBEDDED = "--embedded"
BEGIN = b"begin\n"


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
