"""The clock by which a process measures deadlines, leases and pauses."""

import time

# Linux stops the monotonic clock while the machine is suspended, but leases and deadlines expire meanwhile
_IDENTIFIER = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """The real clock. The simulation in `tests/simulation` passes a virtual clock."""

    def monotonic(self) -> float:
        """Return seconds that never decrease. They include the time in which the machine is suspended."""
        return time.clock_gettime(_IDENTIFIER)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


CLOCK = Clock()
