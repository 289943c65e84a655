"""Virtual time, and a seeded scheduler that runs all simulated processes in one thread.

Each activity is a greenlet. It runs until it pauses, so the random lengths of the pauses are the schedule.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from greenlet import getcurrent, greenlet

from redraft.clock import Clock

# Any date will do. In the future: rows of a test that forgot the virtual clock would be noticed
_EPOCH = datetime(2040, 1, 1, tzinfo=UTC).timestamp()
_STEPS_MAX = 60_000

NOTHING = object()
"""What a task gets that waited in vain."""


class Killed(BaseException):
    """The process of this task is gone: nothing that it would have done happens."""


class Stuck(Exception):  # noqa: N818 - a state
    """The schedule does not come to its end."""


@dataclass(slots=True, eq=False)
class Process:
    """A simulated process: what ends or suspends it does so to all its tasks."""

    name: str
    world: "World"
    is_dead: bool = False
    frozen_until: float = 0.0
    cut_off_until: float = 0.0
    """Until then it does not reach the database."""
    is_disturbed: bool = False
    """It may lose leases, and so calls, through no fault of the product."""
    tasks: set["Task"] = field(default_factory=set["Task"])
    stop: Callable[[], None] = lambda: None
    """What SIGTERM does."""

    def kill(self) -> None:
        self.is_dead = True
        for task in self.tasks:
            self.world.resume(task)

    def suspend(self, seconds: float) -> None:
        self.is_disturbed = True
        self.frozen_until = self.world.now + seconds

    def cut_off(self, seconds: float) -> None:
        self.is_disturbed = True
        self.cut_off_until = self.world.now + seconds


class Task:
    """An activity of a process."""

    __slots__ = ("entry", "process", "run")

    def __init__(self, process: Process, run: greenlet) -> None:
        self.process = process
        self.run = run
        self.entry = 0


class VirtualClock(Clock):
    """The clock of one process; another one's was started at another time."""

    def __init__(self, world: "World", offset: float) -> None:
        self._world = world
        self._offset = offset

    def monotonic(self) -> float:
        return self._world.now + self._offset

    def sleep(self, seconds: float) -> None:
        self._world.sleep(seconds)


class World:
    """All that happens in one schedule."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.clock_step = 0.0
        """By how much the database's clock was set."""
        self.broker_down_until = 0.0
        self.trace: list[str] = []
        self.problems: list[str] = []
        self._hub = getcurrent()
        self._queue: list[tuple[float, int, Task | Callable[[], None], Any]] = []
        self._entries = 0
        self._steps = 0
        self._current: Task | None = None
        self._processes: list[Process] = []

    @property
    def database_time(self) -> float:
        return _EPOCH + self.now + self.clock_step

    def note(self, who: str, what: str) -> None:
        self.trace.append(f"{self.now:9.3f} {who:<8} {what}")

    def spawn(self, process: Process, work: Callable[[], object], *, after: float = 0.0) -> Task:
        """Begin an activity of a process."""

        def run(_value: Any) -> None:
            try:
                if not process.is_dead:
                    work()
            except Killed:
                pass
            finally:
                process.tasks.discard(task)

        if not process.tasks:
            self._processes.append(process)
        task = Task(process, greenlet(run, self._hub))
        process.tasks.add(task)
        self.resume(task, after=after)
        return task

    def call_later(self, after: float, work: Callable[[], None]) -> None:
        """Do something that belongs to no process."""
        self._push(self.now + after, work, None)

    def resume(self, task: Task, value: Any = None, *, after: float = 0.0) -> None:
        """Continue a waiting task with a value; only the last such entry of a task counts."""
        task.entry = self._push(self.now + after, task, value)

    def _push(self, at: float, what: Any, value: Any) -> int:
        self._entries += 1
        heapq.heappush(self._queue, (at, self._entries, what, value))
        return self._entries

    @property
    def current(self) -> Task:
        assert self._current is not None, "only a task can wait"
        return self._current

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until somebody resumes this task; NOTHING after the timeout."""
        task = self.current
        if timeout is not None:
            self.resume(task, NOTHING, after=timeout)
        value = self._hub.switch()
        if task.process.is_dead:
            raise Killed
        return value

    def sleep(self, seconds: float) -> None:
        self.wait(seconds)

    def jitter(self) -> None:
        """A short pause, in which others go on; seldom a longer one."""
        chance = self.random.random()
        self.sleep(chance * 0.01 if chance < 0.7 else self.random.uniform(0.01, 0.2))

    def run(self, until: Callable[[], bool]) -> None:
        """Let things happen until the condition holds; False in the end if nothing more happens."""
        while not until():
            if not self._queue:
                raise Stuck("nothing more happens")
            self._steps += 1
            if self._steps > _STEPS_MAX:
                raise Stuck(f"there is no end after {_STEPS_MAX} steps")
            at, entry, what, value = heapq.heappop(self._queue)
            if not isinstance(what, Task):
                self.now = max(self.now, at)
                what()
            elif entry == what.entry and not what.run.dead:
                self._go_on(what, at, value)

    def end(self) -> None:
        """Kill all processes, so that no greenlet is left."""
        for process in self._processes:
            process.kill()
        while self._queue:
            _, entry, what, value = heapq.heappop(self._queue)
            if isinstance(what, Task) and entry == what.entry and not what.run.dead:
                self._go_on(what, self.now, value)

    def _go_on(self, task: Task, at: float, value: Any) -> None:
        if at < task.process.frozen_until and not task.process.is_dead:
            task.entry = self._push(task.process.frozen_until, task, value)
            return
        self.now = max(self.now, at)
        self._current = task
        try:
            task.run.switch(value)
        finally:
            self._current = None
