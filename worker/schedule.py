"""What a worker does on a timer: heartbeat (extend leases, say that it is alive) and sweep."""

import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from redraft.errors import Unavailable
from redraft.jobs import StepMessage
from redraft.operations import steps
from redraft.operations.leases import LeaseHolder
from redraft.operations.services import Services
from redraft.operations.sweep import sweep

log = structlog.get_logger()


class Schedule:
    """Two threads per worker process; both end within a moment of `stop`."""

    def __init__(self, services: Services, holder: LeaseHolder) -> None:
        self._services = services
        self._holder = holder
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._every, args=(services.settings.heartbeat_s, self._beat), name="heartbeat"),
            threading.Thread(target=self._every, args=(services.settings.sweep_s, self._sweep), name="sweeper"),
        ]
        self._spare = ThreadPoolExecutor(max_workers=8, thread_name_prefix="unrung")

    def start(self) -> None:
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def begin_shutdown(self) -> None:
        """Take no new step; what is in flight has the grace period."""
        self._holder.close()
        threading.Thread(target=self._end_grace, name="grace", daemon=True).start()

    def _end_grace(self) -> None:
        """Celery waits for its threads for ever: after the grace the leases go back and the process ends."""
        deadline = time.monotonic() + self._services.settings.shutdown_grace_s
        while self._holder.in_flight and time.monotonic() < deadline:
            self._stopping.wait(0.05)
        if self._holder.in_flight:
            log.warning("grace_is_over", in_flight=self._holder.in_flight)
            self.stop()
            os._exit(0)

    def stop(self) -> None:
        self._stopping.set()
        self._spare.shutdown(wait=False, cancel_futures=True)
        try:
            released = self._holder.leave(self._services.database)
        except Unavailable as error:
            log.warning("leases_left_to_run_out", reason=error.message)
            return
        for message in released:
            steps.ring(self._services, message)

    def _every(self, pause_s: float, work: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                work()
                self._holder.regain_contact()
            except Unavailable as error:
                self._holder.lose_contact()
                log.warning("timer_found_no_database", timer=threading.current_thread().name, reason=error.message)
            except Exception:
                log.exception("timer_crashed", timer=threading.current_thread().name)
            self._stopping.wait(pause_s * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load, guards nothing

    def _beat(self) -> None:
        self._holder.beat(self._services.database)

    def _sweep(self) -> None:
        if self._holder.is_closing:
            return
        for message in sweep(self._services, with_expired=self._holder.is_in_steady_contact):
            self._spare.submit(_run, message)


def _run(message: StepMessage) -> None:
    """A dead broker costs latency, not progress: the worker does the step itself."""
    from worker.tasks import run_step

    run_step(message)
