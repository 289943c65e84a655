"""Fail points: what shall happen when a process gets to a named boundary of a step's moves.

Written `boundary=deed@nth` (the nth time that the boundary is met) or `boundary=deed%chance`:
`called=kill@1`, `storing=fail%0.05`, `claimed=pause:4@1`.
"""

import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

from sqlalchemy.exc import OperationalError

from redraft.operations import fault_points
from redraft.operations.fault_points import FaultPoint
from redraft.storage.engine.unit_of_work import Database
from tests.support.waiting import let_pass

Deed = Literal["kill", "stop", "pause", "fail"]


class DatabaseGone(Exception):  # noqa: N818 - what a driver would have said
    """Stands for the words of a driver whose server went away."""


_OTHERS = ("seed=", "port=", "mutant=")
_IN_UNIT_OF_WORK = {FaultPoint.CLAIMING, FaultPoint.STORING}

# A signal to the whole process may reach another thread first, and this one would go on for a moment.
_DELIVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class FailPoint:
    """At `fault_point` the process kills itself, stops itself, lets the thread pause, or loses its database."""

    fault_point: FaultPoint
    deed: Deed
    nth: int = 1
    chance: float | None = None
    seconds: float = 0.0

    @classmethod
    def parse(cls, words: str) -> "FailPoint":
        name, _, rest = words.partition("=")
        how, _, nth = rest.partition("@")
        how, _, chance = how.partition("%")
        deed, _, seconds = how.partition(":")
        if deed not in get_args(Deed):
            raise ValueError(f"{deed!r} is no deed: {', '.join(get_args(Deed))}")
        return cls(FaultPoint(name), deed, int(nth or 1), float(chance) if chance else None, float(seconds or 0))

    def __str__(self) -> str:
        when = f"%{self.chance:g}" if self.chance is not None else f"@{self.nth}"
        seconds = f":{self.seconds:g}" if self.seconds else ""
        return f"{self.fault_point}={self.deed}{seconds}{when}"


class Saboteur:
    """Watches the boundaries of its own process, and does what its fail points say."""

    def __init__(self, points: Sequence[FailPoint], seed: int, database: Database | None = None) -> None:
        self._points = points
        self._turn = database._write_turn if database else nullcontext()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._met: dict[FaultPoint, int] = dict.fromkeys(FaultPoint, 0)

    def watch(self) -> None:
        fault_points.watch(self._at)

    def _at(self, fault_point: FaultPoint, _job_id: str) -> None:
        with self._lock:
            self._met[fault_point] += 1
            due = [point for point in self._points if point.fault_point is fault_point and self._is_due(point)]
        for point in due:
            if point.deed == "stop" and fault_point not in _IN_UNIT_OF_WORK:
                self._stop_between_writes(point)
            else:
                _DEEDS[point.deed](point)

    def _stop_between_writes(self, point: FailPoint) -> None:
        """A process that stops while a timer of its own writes holds SQLite's lock, and nobody does anything."""
        with self._turn:
            _stop(point)

    def _is_due(self, point: FailPoint) -> bool:
        if point.chance is not None:
            return self._random.random() < point.chance
        return self._met[point.fault_point] == point.nth


def _kill(_point: FailPoint) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    _wait(_DELIVERY_S)


def _stop(_point: FailPoint) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    _wait(_DELIVERY_S)


def _wait(seconds: float) -> None:
    let_pass(seconds)


def _pause(point: FailPoint) -> None:
    _wait(point.seconds)


def _fail(_point: FailPoint) -> None:
    raise OperationalError("chaos", None, DatabaseGone("server closed the connection unexpectedly"))


_DEEDS: dict[str, Callable[[FailPoint], None]] = {"kill": _kill, "stop": _stop, "pause": _pause, "fail": _fail}


def sabotage(arguments: Sequence[str], database: Database | None = None) -> None:
    """Watch this process by the fail points in `arguments`; `seed=N` among them makes chances repeatable.

    Args:
        arguments: what the process was started with.
        database: the one that it writes to beside the steps, if it does.
    """
    seeds = [int(word.removeprefix("seed=")) for word in arguments if word.startswith("seed=")]
    points = [FailPoint.parse(word) for word in arguments if "=" in word and not word.startswith(_OTHERS)]
    if points:
        Saboteur(points, seeds[0] if seeds else 0, database).watch()
