"""Drives the work of steps in virtual time, as `redraft/operations/steps/engine.py` does in real time."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from redraft.errors import ProviderError
from redraft.operations.calls.step_work import ModelCall, Pace, Together, Work
from tests.simulation.faults import Faults
from tests.simulation.models import ModelServer
from tests.simulation.world import Killed, Process, Task

_ABORTED = object()


@dataclass(slots=True, eq=False)
class _Job:
    """A job that is worked on: its calls in flight, and whose turn it is among the parts of its step."""

    calls: set[Task] = field(default_factory=set[Task])
    is_aborted: bool = False
    is_busy: bool = False
    waiting: list[Task] = field(default_factory=list[Task])


class StepDriver:
    """One per process."""

    def __init__(self, process: Process, faults: Faults, server: ModelServer) -> None:
        self._process = process
        self._world = process.world
        self._faults = faults
        self._server = server
        self._jobs: dict[str, set[_Job]] = {}

    def run(self, job_id: str, work: Work[Any]) -> None:
        """Do the work on a job in the current task."""
        job = _Job()
        self._jobs.setdefault(job_id, set()).add(job)
        try:
            self._drive(job, work)
        finally:
            self._jobs[job_id].discard(job)

    def abort(self, job_id: str) -> None:
        for job in self._jobs.get(job_id, ()):
            job.is_aborted = True
            for call in job.calls:
                self._world.resume(call, _ABORTED)

    def _drive(self, job: _Job, work: Work[Any]) -> Any:
        reply: Any = None
        error: BaseException | None = None
        try:
            while True:
                try:
                    wanted = self._resume(job, work, reply, error)
                except StopIteration as end:
                    return end.value
                reply = error = None
                try:
                    reply = self._do(job, wanted)
                except Killed:
                    raise
                except BaseException as raised:  # noqa: BLE001 - the step decides what it means
                    error = raised
        finally:
            # A killed process would not even do this; all that it does then meets a dead process
            with suppress(Killed):
                work.close()

    def _resume(self, job: _Job, work: Work[Any], reply: Any, error: BaseException | None) -> Any:
        """Let one part of the step go on until its next call.

        A step's parts take turns here, for they share a lock, on which this thread would wait for itself.
        """
        while job.is_busy:
            job.waiting.append(self._world.current)
            self._world.wait()
        job.is_busy = True
        try:
            return work.throw(error) if error is not None else work.send(reply)
        finally:
            job.is_busy = False
            if job.waiting:
                self._world.resume(job.waiting.pop(0))

    def _do(self, job: _Job, wanted: Any) -> Any:
        if isinstance(wanted, Pace):
            return None
        if isinstance(wanted, Together):
            return self._do_all(job, wanted)
        assert isinstance(wanted, ModelCall)
        if job.is_aborted:
            raise ProviderError("canceled", "The call was aborted, because its job was canceled.")
        try:
            return self._server.call(self._process.name, wanted, job.calls)
        finally:
            self._faults.reach(self._process, "reply")

    def _do_all(self, job: _Job, wanted: Together) -> list[Any]:
        waiting = self._world.current
        left = list(enumerate(wanted.parts))
        ended: dict[int, Any] = {}
        failed: list[BaseException] = []

        def run(index: int, part: Work[Any]) -> None:
            try:
                ended[index] = self._drive(job, part)
            except Killed:
                raise
            except BaseException as raised:  # noqa: BLE001 - all parts end, then one of the errors is passed on
                ended[index] = None
                failed.append(raised)
            if left:
                self._spawn(run, *left.pop(0))
            self._world.resume(waiting)

        for _ in range(min(wanted.width, len(left))):
            self._spawn(run, *left.pop(0))
        while len(ended) < len(wanted.parts):
            self._world.wait()
        if failed:
            raise failed[0]
        return [ended[index] for index in range(len(wanted.parts))]

    def _spawn(self, run: Callable[[int, Work[Any]], None], index: int, part: Work[Any]) -> None:
        self._world.spawn(self._process, lambda: run(index, part))
