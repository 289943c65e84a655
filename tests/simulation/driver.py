"""Drives the work of steps in virtual time, as `redraft/operations/steps/engine.py` does in real time."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from redraft.errors import ProviderError
from redraft.operations.calls.step_work import ModelCall, Pace, Together, WithSpeculation, Work
from tests.simulation.faults import Faults
from tests.simulation.models import ModelServer
from tests.simulation.world import Killed, Process, Task

_ABORTED = object()


@dataclass(slots=True, eq=False)
class _Turn:
    """Whose turn it is among the parts of a step."""

    is_busy: bool = False
    waiting: list[Task] = field(default_factory=list[Task])


@dataclass(slots=True, eq=False)
class _Job:
    """A job that is worked on: its calls in flight, and the parts of it that can be aborted alone."""

    turn: _Turn = field(default_factory=_Turn)
    calls: set[Task] = field(default_factory=set[Task])
    is_aborted: bool = False
    parts: "list[_Job]" = field(default_factory=list["_Job"])


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
            self._abort(job)

    def _abort(self, job: _Job) -> None:
        job.is_aborted = True
        for call in job.calls:
            self._world.resume(call, _ABORTED)
        for part in job.parts:
            self._abort(part)

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
        turn = job.turn
        while turn.is_busy:
            turn.waiting.append(self._world.current)
            self._world.wait()
        turn.is_busy = True
        try:
            return work.throw(error) if error is not None else work.send(reply)
        finally:
            turn.is_busy = False
            if turn.waiting:
                self._world.resume(turn.waiting.pop(0))

    def _do(self, job: _Job, wanted: Any) -> Any:
        if isinstance(wanted, Pace):
            return None
        if isinstance(wanted, Together):
            return self._do_all([partial(self._drive, job, part) for part in wanted.parts], wanted.width)
        if isinstance(wanted, WithSpeculation):
            return self._do_both(job, wanted)
        assert isinstance(wanted, ModelCall)
        if job.is_aborted:
            raise ProviderError("canceled", "The call was aborted, because its job was canceled.")
        try:
            return self._server.call(self._process.name, wanted, job.calls)
        finally:
            self._faults.reach(self._process, "reply")

    def _do_both(self, job: _Job, wanted: WithSpeculation) -> list[Any]:
        speculative = _Job(turn=job.turn, is_aborted=job.is_aborted)
        job.parts.append(speculative)

        def drive_main() -> Any:
            result = self._drive(job, wanted.main)
            if not wanted.is_needed(result):
                self._abort(speculative)
            return result

        return self._do_all([drive_main, partial(self._drive, speculative, wanted.speculative)], 2)

    def _do_all(self, parts: Sequence[Callable[[], Any]], width: int) -> list[Any]:
        waiting = self._world.current
        left = list(enumerate(parts))
        ended: dict[int, Any] = {}
        failed: list[BaseException] = []

        def run(index: int, part: Callable[[], Any]) -> None:
            try:
                ended[index] = part()
            except Killed:
                raise
            except BaseException as raised:  # noqa: BLE001 - all parts end, then one of the errors is passed on
                ended[index] = None
                failed.append(raised)
            if left:
                self._spawn(run, *left.pop(0))
            self._world.resume(waiting)

        for _ in range(min(width, len(left))):
            self._spawn(run, *left.pop(0))
        while len(ended) < len(parts):
            self._world.wait()
        if failed:
            raise failed[0]
        return [ended[index] for index in range(len(parts))]

    def _spawn(self, run: Callable[[int, Callable[[], Any]], None], index: int, part: Callable[[], Any]) -> None:
        self._world.spawn(self._process, lambda: run(index, part))
