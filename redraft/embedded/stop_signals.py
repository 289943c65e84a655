"""Records the signals that stop a server, and decides about its exit code."""

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

_INTERRUPTED = 130


class StopSignals:
    """SIGTERM and SIGINT in the order of their arrival. The first one stops the server, the second one ends its wait.

    The handler raises nothing. Python runs it between any two instructions. An exception there could leave a lock
    held, and a callback of a library could ignore the exception or turn it into another error.
    """

    def __init__(self) -> None:
        self._received: list[int] = []
        self.on_signal: Callable[[int, FrameType | None], None] | None = None

    @property
    def is_stopping(self) -> bool:
        return bool(self._received)

    @property
    def is_urgent(self) -> bool:
        """Whether a second signal has come. If so, calls in flight get no more time."""
        return len(self._received) > 1

    @property
    def exit_code(self) -> int:
        return _INTERRUPTED if self._received[-1:] == [signal.SIGINT] else 0

    def receive(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)
        if len(self._received) > 2:
            # The stop itself may hang. When this process exits, the kernel closes its pipes, and the children end
            os._exit(self.exit_code)
        if self.on_signal is not None:
            self.on_signal(number, frame)


@contextmanager
def stop_signals() -> Generator[StopSignals]:
    """Record the signals within the block. Only the main thread can do so.

    After a signal the process is about to exit, so the handlers stay. A further signal would otherwise raise
    KeyboardInterrupt between the end of the block and the end of the process, and change the exit code.
    """
    signals = StopSignals()
    before = {number: signal.signal(number, signals.receive) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals
    finally:
        if not signals.is_stopping:
            for number, handler in before.items():
                signal.signal(number, handler)
