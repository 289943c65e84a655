"""Intervals of the API: pings of event streams (SSE), database reads while a client waits, and the end of a stream."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals in seconds. Tests use shorter or longer intervals."""

    # Between reads of a job for which a client waits, in case a wake-up message is lost
    poll_s: float = 5.0
    # The same while the broker is unreachable
    poll_offline_s: float = 2.0
    # Between pings in an event stream
    ping_s: float = 10.0
    # The longest time of an event stream
    stream_s: float = 300.0
    # Between reads of a run that clients watch
    run_poll_s: float = 0.5
