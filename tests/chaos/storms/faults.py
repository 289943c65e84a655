"""What is broken, when and how: drawn from a seed, so that a seed replays.

What the machine makes of it in which order is not drawn: a replay breaks the same things at the same moments of the
load, and usually finds the same.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType

import redis

from redraft.operations.fault_points import FaultPoint
from tests.chaos.members import Member
from tests.chaos.points import FailPoint
from tests.chaos.stage import Kind, Stage
from tests.chaos.storms.databases import lock_for
from tests.chaos.storms.messages import Repeater, Withholder
from tests.support.waiting import patient

_GAP_S = (0.2, 1.2)
_RECOVERY_S = 30.0
_API_POINTS = (FaultPoint.SUBMITTED, FaultPoint.NOTIFIED)
# No storm has runs that are delivered by batches
_BATCH_POINTS = (FaultPoint.PARKED, FaultPoint.SUBMITTING, FaultPoint.SENT, FaultPoint.IMPORTING)
_WORKER_POINTS = tuple(each for each in FaultPoint if each not in (*_API_POINTS, *_BATCH_POINTS))
# A database fails where it is asked something
_DATABASE_POINTS = (FaultPoint.CLAIMING, FaultPoint.STORING)
# With SQLite the processes' own clock is the database's, and on one machine it is the same for all of them
_OF_POSTGRESQL = frozenset({"database crash", "database outage", "clock jump"})
_OF_SQLITE = frozenset({"database locked"})


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that breaks, `gap_s` after the one before."""

    kind: str
    gap_s: float
    worker: int
    seconds: float
    point: FailPoint
    api_point: FailPoint

    def __str__(self) -> str:
        told = {"fail point": f" {self.point}", "api fail point": f" {self.api_point}"}
        return f"{self.kind}{told.get(self.kind, '')}"


def kinds_for(kind: Kind, *, with_clock: bool = True) -> list[str]:
    """What can break on that database; fail points thrice, for there are so many of them."""
    absent = _OF_SQLITE if kind == "postgresql" else _OF_POSTGRESQL
    found = [name for name in DEEDS if name not in absent and (with_clock or name != "clock jump")]
    return [*found, "fail point", "fail point"]


def draw(seed: int, count: int, workers: int, kinds: Sequence[str]) -> list[Fault]:
    """Every kind as often as any other, in random order; workers and their fail points as they come."""
    rng = random.Random(f"{seed}:faults")
    drawn: list[Fault] = []
    points = cycle(_points(rng))
    while len(drawn) < count:
        for kind in rng.sample(kinds, len(kinds)):
            point = next(points) if kind == "fail point" else FailPoint(FaultPoint.CALLED, "kill")
            at_api = FailPoint(rng.choice(_API_POINTS), "kill", nth=rng.randint(1, 3))
            gap_s, seconds = rng.uniform(*_GAP_S), rng.uniform(0.5, 3.0)
            drawn.append(Fault(kind, gap_s, rng.randrange(workers), seconds, point, at_api))
    return drawn[:count]


def _points(rng: random.Random) -> list[FailPoint]:
    all_of_them = [
        *(FailPoint(fault_point, "kill", nth=rng.randint(1, 8)) for fault_point in _WORKER_POINTS),
        *(FailPoint(fault_point, "pause", nth=rng.randint(1, 8), seconds=2.0) for fault_point in _WORKER_POINTS),
        *(FailPoint(fault_point, "fail", chance=0.2) for fault_point in _DATABASE_POINTS),
    ]
    return rng.sample(all_of_them, len(all_of_them))


class Trouble:
    """Does faults to a stage, one after the other; what lasts is undone later, while others happen."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = random.Random(f"{seed}:trouble")
        self.done: Counter[str] = Counter()
        self._pause = threading.Event()
        self._pending: list[threading.Thread] = []

    def do(self, fault: Fault) -> None:
        self._recover()
        self.wait(fault.gap_s)
        DEEDS[fault.kind](self, fault)
        self.done[fault.kind] += 1

    def _recover(self) -> None:
        """Let the stage stand up again, all but one worker: who is never up cannot be brought down."""
        give_up_at = time.monotonic() + _RECOVERY_S
        while not self.stage.is_up(but=1) and time.monotonic() < give_up_at:
            self.wait(0.1)

    def wait(self, seconds: float) -> None:
        self._pause.wait(seconds)

    def later(self, seconds: float, undo: Callable[[], object]) -> None:
        def work() -> None:
            self.wait(seconds)
            undo()

        thread = threading.Thread(target=work, name="undo", daemon=True)
        thread.start()
        self._pending.append(thread)

    def end(self) -> None:
        """Wait until all is undone."""
        for thread in self._pending:
            thread.join(patient(60))
        self.stage.calm()

    @property
    def api(self) -> Member:
        assert self.stage.api is not None
        return self.stage.api

    def worker(self, fault: Fault) -> Member:
        return self.stage.workers[fault.worker]


def _kill_worker(trouble: Trouble, fault: Fault) -> None:
    trouble.worker(fault).signal(signal.SIGKILL)


def _end_worker(trouble: Trouble, fault: Fault) -> None:
    trouble.worker(fault).signal(signal.SIGTERM)


def _kill_all_workers(trouble: Trouble, _fault: Fault) -> None:
    for worker in trouble.stage.workers:
        worker.signal(signal.SIGKILL)


def _stop_worker(trouble: Trouble, fault: Fault) -> None:
    """Past its lease: it wakes up when others have its jobs."""
    member = trouble.worker(fault)
    process = member.process
    member.signal(signal.SIGSTOP)
    past_lease_s = trouble.stage.settings.lease_s + fault.seconds
    trouble.later(past_lease_s, lambda: member.signal_process(process, signal.SIGCONT))


def _stop_worker_before_its_call(trouble: Trouble, fault: Fault) -> None:
    """What it has reserved is done by others when it wakes up: it must not make the call."""
    member = trouble.worker(fault)
    member.replace(f"{FaultPoint.CLAIMED}=stop@{fault.point.nth}")

    def wake() -> None:
        # It may have stopped, or may not have come to its fail point
        member.signal(signal.SIGCONT)

    trouble.later(2 * trouble.stage.settings.lease_s + 4.0 + fault.seconds, wake)


def _sabotage_worker(trouble: Trouble, fault: Fault) -> None:
    trouble.worker(fault).replace(str(fault.point))


def _sabotage_api(trouble: Trouble, fault: Fault) -> None:
    trouble.api.replace(str(fault.api_point))


def _set_clock_wrong(trouble: Trouble, fault: Fault) -> None:
    """A worker starts with a right clock, which jumps by an hour or more while it works."""
    clock = trouble.stage.clock
    assert clock is not None
    clock.jump(0)
    trouble.worker(fault).replace(**clock.environment)
    hours = trouble.random.choice([-30, -1, 1, 30])
    trouble.later(3.0 + fault.seconds, lambda: clock.jump(3600 * hours))


def _kill_api(trouble: Trouble, _fault: Fault) -> None:
    trouble.api.signal(signal.SIGKILL)


def _end_api(trouble: Trouble, _fault: Fault) -> None:
    trouble.api.signal(signal.SIGTERM)


def _kill_broker(trouble: Trouble, fault: Fault) -> None:
    trouble.stage.valkey.stop(kill=True)
    trouble.wait(fault.seconds)
    trouble.stage.start_broker()


def _empty_broker(trouble: Trouble, fault: Fault) -> None:
    trouble.stage.valkey.stop(kill=True)
    trouble.wait(fault.seconds / 2)
    trouble.stage.start_broker(without_data=True)


def _flush_broker(trouble: Trouble, _fault: Fault) -> None:
    with trouble.stage.valkey.client() as client:
        client.flushall()


def _stop_broker(trouble: Trouble, fault: Fault) -> None:
    """It takes connections and says nothing."""
    os.kill(trouble.stage.valkey.pid, signal.SIGSTOP)
    trouble.wait(fault.seconds)
    os.kill(trouble.stage.valkey.pid, signal.SIGCONT)


def _cut_connections(trouble: Trouble, _fault: Fault) -> None:
    with trouble.stage.valkey.client() as client:
        for kind in ("normal", "pubsub"):
            try:
                client.client_kill_filter(_type=kind, skipme=True)
            except redis.RedisError:
                return


def _repeat_messages(trouble: Trouble, fault: Fault) -> None:
    repeater = Repeater(trouble.stage.valkey, trouble.random).start()
    trouble.later(3.0 + fault.seconds, repeater.stop)


def _hold_messages(trouble: Trouble, fault: Fault) -> None:
    holder = Withholder(trouble.stage.valkey, trouble.random).start()
    trouble.later(fault.seconds, holder.stop)


def _crash_database(trouble: Trouble, _fault: Fault) -> None:
    postgres = trouble.stage.postgres
    assert postgres is not None
    postgres.crash()
    postgres.start()


def _take_database_away(trouble: Trouble, fault: Fault) -> None:
    postgres = trouble.stage.postgres
    assert postgres is not None
    postgres.crash()
    trouble.wait(fault.seconds)
    postgres.start()


def _lock_database(trouble: Trouble, fault: Fault) -> None:
    lock_for(trouble.stage.sqlite_file, fault.seconds)


DEEDS: Mapping[str, Callable[[Trouble, Fault], None]] = MappingProxyType(
    {
        "worker kill -9": _kill_worker,
        "worker SIGTERM": _end_worker,
        "all workers kill -9": _kill_all_workers,
        "worker SIGSTOP past its lease": _stop_worker,
        "worker stopped before its call": _stop_worker_before_its_call,
        "fail point": _sabotage_worker,
        "clock jump": _set_clock_wrong,
        "api kill -9": _kill_api,
        "api SIGTERM": _end_api,
        "api fail point": _sabotage_api,
        "broker kill -9": _kill_broker,
        "broker loses its data": _empty_broker,
        "broker FLUSHALL": _flush_broker,
        "broker SIGSTOP": _stop_broker,
        "broker connections cut": _cut_connections,
        "messages thrice": _repeat_messages,
        "messages late": _hold_messages,
        "database crash": _crash_database,
        "database outage": _take_database_away,
        "database locked": _lock_database,
    }
)
