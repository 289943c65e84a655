"""`python -m worker`: one worker process; `redraft worker` starts it.

With `--embedded` it is a child of `redraft.embedded`: it starts on a message from its parent, and ends with the parent.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import structlog

from redraft.embedded.parent_death import EMBEDDED, await_begin, end_with_parent
from redraft.operations.steps.leases import take_over
from redraft.redaction import redact
from worker.app import celery_app, engine, monitor, schedule, services, settings, start
from worker.consumer import EnginePool
from worker.freeze_detection import end_when_frozen
from worker.open_files import allow_descriptors

log = structlog.get_logger()

# If the parent was killed, the worker ends soon, so that the next worker gets its leases.
_ORPHAN_GRACE_S = 4.0
# Waiting threads request the interpreter's lock at this interval. With Python's default of 5 ms, the requests took a
# twelfth of the CPU time
_SWITCH_S = 0.02


def _is_wanted() -> bool:
    if EMBEDDED not in sys.argv[1:]:
        return True
    if not await_begin():
        return False
    end_with_parent(min(settings.shutdown_grace_s, _ORPHAN_GRACE_S))
    if settings.is_embedded_database:
        # Our guard holds the lock of the database's folder, so no other worker of this database is alive
        take_over(services)
    return True


def _ignore(_number: int, _frame: FrameType | None) -> None:
    pass


class Worker(celery_app.Worker):
    """Celery's worker. It handles SIGTERM once, because a second handler would wait for the locks of the first one."""

    def install_platform_tweaks(self, worker: Any) -> None:
        super().install_platform_tweaks(worker)
        stop = cast("Callable[[int, FrameType | None], None]", signal.getsignal(signal.SIGTERM))

        def stop_once(number: int, frame: FrameType | None) -> None:
            # Not SIG_IGN, because child processes would inherit it
            signal.signal(signal.SIGTERM, _ignore)
            stop(number, frame)

        signal.signal(signal.SIGTERM, stop_once)


def main() -> int:
    sys.setswitchinterval(_SWITCH_S)
    allow_descriptors(settings.worker_concurrency)
    end_when_frozen(settings.frozen_after_s, sys.argv, lambda: schedule.is_beating() and engine.is_responding())
    worker = Worker(
        hostname=f"redraft-{os.getpid()}@{socket.gethostname()}",
        pool_cls=EnginePool,
        concurrency=settings.worker_concurrency,
        loglevel=settings.log_level,
        task_events=settings.task_events,
        quiet=True,
        without_gossip=True,
        without_mingle=True,
    )
    monitor.attach(worker)
    if not _start():
        return 1
    worker.start()
    return int(worker.exitcode or 0)


def _start() -> bool:
    """Start the timers, and return True. If this fails, log the reason in one line, and return False."""
    try:
        start()
    except Exception as error:  # noqa: BLE001 - after an exception, a partly started worker would keep jobs
        words = redact(str(error)).strip().partition("\n")[0]
        log.critical("worker_cannot_start", error=f"{type(error).__name__}: {words}", advice="Run `redraft doctor`.")
        return False
    return True


if __name__ == "__main__" and _is_wanted():
    # The class is used without Celery's command line, which imports many modules that a worker does not need
    code = main()
    # Python restores the default action of handled signals before it ends: another SIGTERM would change the exit code
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(code)
