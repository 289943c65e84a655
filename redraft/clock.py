"""The clock that decides about deadlines, leases and pauses of a process."""

import time

# Linux stops the monotonic clock while the machine is suspended, but leases and deadlines expire meanwhile
_IDENTIFIER = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """The real time. The simulation in `tests/simulation` passes a virtual one."""

    def monotonic(self) -> float:
        """Return seconds that never go back, with suspended time."""
        return time.clock_gettime(_IDENTIFIER)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


CLOCK = Clock()
