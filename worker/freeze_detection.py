"""Ends a worker process in which no Python thread runs, because native code holds the interpreter's lock."""

import contextlib
import faulthandler
import os
import threading
import time
from collections.abc import Callable

from redraft.embedded.parent_death import pulse_of

_PULSES = 8


def end_when_frozen(after_s: float, arguments: list[str], is_alive: Callable[[], bool] = lambda: True) -> None:
    """Exit with 1 and a traceback of each thread if no Python thread runs for `after_s`.

    The timer is a thread of faulthandler, which does not need the interpreter's lock. If this process has a guard, this
    function also sends signs of life to the guard. When they stop, the guard kills the process: a process that SIGSTOP
    has stopped cannot end itself.

    Args:
        after_s: the time without a running Python thread, in seconds.
        arguments: the arguments of this process, which name the file descriptor for the signs of life.
        is_alive: this process also counts as frozen while `is_alive` returns false.
    """
    threading.Thread(target=_postpone, args=(after_s, pulse_of(arguments), is_alive), name="pulse", daemon=True).start()


def _postpone(after_s: float, pulse: int | None, is_alive: Callable[[], bool]) -> None:
    while True:
        if is_alive():
            faulthandler.dump_traceback_later(after_s, exit=True)
        if pulse is not None:
            with contextlib.suppress(OSError):
                os.write(pulse, b".")
        time.sleep(after_s / _PULSES)
