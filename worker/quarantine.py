"""Runs each suspect in a process of its own. A suspect is a step whose worker was lost several times.

If the step crashes its process, it harms no other step. Otherwise the step ends as usual.
"""

import subprocess
import sys
import threading

import structlog

from redraft.embedded.parent_death import SILENCE_TIMES, guarded
from redraft.messages import StepMessage

log = structlog.get_logger()

_PLACES = 4
_SLACK_S = 3.0


class Quarantine:
    """The processes for the suspects of one worker, a few at a time. They end when the worker ends."""

    def __init__(self, grace_s: float, frozen_after_s: float) -> None:
        self._grace_s = grace_s
        self._silent_s = SILENCE_TIMES * frozen_after_s
        self._lock = threading.Lock()
        self._is_closed = False
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def free_places(self) -> int:
        with self._lock:
            self._processes = {job_id: each for job_id, each in self._processes.items() if each.poll() is None}
            return 0 if self._is_closed else _PLACES - len(self._processes)

    def admit(self, message: StepMessage) -> None:
        """Start `python -m worker.single_step` for this step. The process executes the step only if it can claim it."""
        step = [message.step.value, message.job_id, str(message.step_no)]
        with self._lock:
            running = self._processes.get(message.job_id)
            if self._is_closed or (running is not None and running.poll() is None):
                return
            log.warning("suspect_runs_alone", job_id=message.job_id, step=message.step)
            # In its own session, so that Ctrl-C reaches only the worker, which then ends the process in order
            process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                guarded(
                    [sys.executable, "-m", "worker.single_step", *step],
                    self._grace_s + _SLACK_S,
                    silent_s=self._silent_s,
                ),
                stdin=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
            self._processes[message.job_id] = process

    def close(self) -> None:
        """Send SIGTERM to all processes. Each process has the grace period of a worker."""
        with self._lock:
            self._is_closed = True
            for process in self._processes.values():
                process.terminate()

    def wait_closed(self) -> None:
        for process in self._processes.values():
            try:
                process.wait(self._grace_s + _SLACK_S)
            except subprocess.TimeoutExpired:
                process.kill()
