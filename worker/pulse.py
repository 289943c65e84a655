"""Ends a worker process in which no thread runs any more, as when native code holds the interpreter's lock."""

import faulthandler
import threading
import time

_PULSES = 8


def end_when_frozen(after_s: float) -> None:
    """From now on: if no Python thread has run for so long, write where each thread stands to stderr, and exit with 1.

    The clock for it is a thread of faulthandler's, which needs no lock of the interpreter.
    """
    threading.Thread(target=_postpone, args=(after_s,), name="pulse", daemon=True).start()


def _postpone(after_s: float) -> None:
    while True:
        faulthandler.dump_traceback_later(after_s, exit=True)
        time.sleep(after_s / _PULSES)
