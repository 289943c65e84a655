"""The faults of a schedule: each happens to the process that reaches a point, such as the end of a unit of work."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from redraft.errors import Unavailable
from tests.simulation.world import Killed, Process, World


@dataclass(slots=True)
class Faults:
    """What happens at which point, by the number of the point; `is_calm`: nothing happens to processes at all."""

    world: World
    at: dict[int, str]
    points: int = 0

    def reach(self, process: Process, point: str, *, may_pause: bool = True) -> None:
        """A process has got to a point where it may be interrupted.

        `may_pause` is false within a unit of work: other processes would wait for it, and with them this thread.
        """
        self.points += 1
        fault = self.at.pop(self.points, None)
        if fault is not None and not process.is_dead:
            self.world.note(process.name, f"{fault} at {point}")
            _FAULTS[fault](self.world, process)
        if process.is_dead:
            raise Killed
        if may_pause:
            self.world.jitter()
        if fault == "commit unknown" and point in {"commit", "committed"}:
            raise unreachable()


def unreachable() -> Unavailable:
    return Unavailable("The database cannot be used now: simulated", code="database_unavailable")


def _kill(_world: World, process: Process) -> None:
    process.is_disturbed = True
    process.kill()


def _suspend_long(world: World, process: Process) -> None:
    # Mostly for longer than a lease and the next sweep
    process.suspend(world.random.choice([world.random.uniform(2.5, 30.0), *(world.random.uniform(45.0, 100.0),) * 3]))


def _cut_off(world: World, process: Process) -> None:
    process.cut_off(world.random.choice([world.random.uniform(0.1, 5.0), world.random.uniform(5.0, 100.0)]))


def _step_clock(world: World, process: Process) -> None:
    world.clock_step += world.random.choice([-1, 1]) * world.random.choice([1.0, 40.0, 3600.0, 100_000.0])


def _stop_broker(world: World, _process: Process) -> None:
    world.broker_down_until = world.now + world.random.uniform(1.0, 100.0)


def _disturb(_world: World, process: Process) -> None:
    process.is_disturbed = True


_FAULTS: Mapping[str, Callable[[World, Process], None]] = MappingProxyType(
    {
        "kill": _kill,
        "suspend": _suspend_long,
        "cut off": _cut_off,
        "commit unknown": _disturb,
        "stop": lambda _world, process: process.stop(),
        "broker down": _stop_broker,
        "clock step": _step_clock,
    }
)


def draw(rng: random.Random) -> dict[int, str]:
    """None to four faults, at the first points of a schedule more often than at its last."""
    count = rng.choice([0, 0, 1, 1, 1, 2, 2, 3, 4])
    # If the clock was set back, the lease of a killed worker lasts longer by as much
    weights = (5, 8, 3, 2, 2, 1, 0) if rng.random() < 0.8 else (0, 4, 3, 2, 2, 1, 4)
    return {int(rng.triangular(1, 160, 20)): kind for kind in rng.choices(tuple(_FAULTS), weights=weights, k=count)}
