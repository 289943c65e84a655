"""The timers of a worker process, and its orderly shutdown within the grace period."""

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

import structlog

from redraft.errors import Unavailable
from redraft.operations.services import Services
from redraft.operations.steps import context
from redraft.operations.steps.leases import LeaseHolder

log = structlog.get_logger()

# The end of the grace period is reserved for releasing the leases: these seconds, or this share if it is shorter.
_RELEASE_S, _RELEASE_PART = 2.0, 0.25


# Longer than any heartbeat can take, because its waits for the database have timeouts
_HUNG_S = 300.0
# The time from the end of the grace period until the process is killed.
_HARD_END_S = 5.0


@dataclass(frozen=True, slots=True)
class Timer:
    """Periodic work in its own thread. The pauses have jitter, so that workers do not act at the same moment."""

    name: str
    every_s: float
    work: Callable[[], None]
    is_wanted: threading.Event = field(default_factory=threading.Event)
    """Ends the current pause."""


class Schedule:
    """Runs the heartbeat, which extends the leases, and further timers. Their threads end shortly after `stop`."""

    def __init__(
        self,
        services: Services,
        holder: LeaseHolder,
        timers: Sequence[Timer] = (),
        on_shutdown: Callable[[], None] = lambda: None,
    ) -> None:
        self._services = services
        self._holder = holder
        self._on_shutdown = on_shutdown
        self._shutdown_requested: SimpleQueue[None] = SimpleQueue()
        self._stopping = threading.Event()
        self._beat_at = time.monotonic()
        self._heartbeat = Timer("heartbeat", services.settings.heartbeat_s, self._beat)
        self._timers = [self._heartbeat, *timers]

    def start(self) -> None:
        for timer in self._timers:
            threading.Thread(target=self._every, args=(timer,), name=timer.name, daemon=True).start()
        threading.Thread(target=self._await_shutdown, name="grace", daemon=True).start()

    def begin_shutdown(self) -> None:
        """Take no new step. Steps in flight have the grace period to end.

        Signal handlers can call this. It takes no lock, because the interrupted code may hold that lock.
        """
        self._holder.close()
        self._shutdown_requested.put(None)

    def _await_shutdown(self) -> None:
        self._shutdown_requested.get()
        limit_s = self._services.settings.shutdown_grace_s + _HARD_END_S
        # The process is killed in any case, because a database or broker that hangs can block every thread
        hard_end = threading.Timer(limit_s, os._exit, (1,))
        hard_end.daemon = True
        hard_end.start()
        try:
            self._on_shutdown()
        finally:
            self._end_grace()

    def _end_grace(self) -> None:
        """Release the leases and end the process after the grace period. Celery would wait for its threads for ever."""
        grace_s = self._services.settings.shutdown_grace_s
        deadline = time.monotonic() + grace_s - min(_RELEASE_S, _RELEASE_PART * grace_s)
        # The check is repeated, because a step that is claimed while the signal arrives counts as in flight only later
        while not self._stopping.wait(0.05):
            if self._holder.in_flight and time.monotonic() >= deadline:
                log.warning("grace_is_over", in_flight=self._holder.in_flight)
                self.end_now(0)

    def end_now(self, code: int) -> None:
        """Release the leases and end the process, even if its threads still run."""
        self.stop()
        os._exit(code)

    def stop(self) -> None:
        """Release all leases, and notify other workers of the released steps."""
        self._stopping.set()
        for timer in self._timers:
            timer.is_wanted.set()
        try:
            released = self._holder.leave(self._services.database)
        except Unavailable as error:
            log.warning("leases_left_to_run_out", reason=error.message)
            return
        for message in released:
            context.notify(self._services, message)

    def _every(self, timer: Timer) -> None:
        while not self._stopping.is_set():
            try:
                timer.work()
            except Unavailable as error:
                self._holder.lose_contact()
                log.warning("timer_found_no_database", timer=timer.name, reason=error.message)
            except Exception:
                log.exception("timer_crashed", timer=timer.name)
            timer.is_wanted.wait(timer.every_s * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load, guards nothing
            # Cleared after the pause: a request during the work leads to another round, and `stop` ends the loop
            timer.is_wanted.clear()

    def beat_now(self) -> None:
        """Start a heartbeat now, without waiting for the end of the pause."""
        self._heartbeat.is_wanted.set()

    def is_beating(self) -> bool:
        """Whether the thread of the heartbeat makes progress. It does so during an outage of the database, too."""
        return time.monotonic() - self._beat_at < _HUNG_S + 2 * self._services.settings.heartbeat_s

    def _beat(self) -> None:
        try:
            self._holder.beat(self._services.database)
            self._holder.regain_contact()
        finally:
            self._beat_at = time.monotonic()
