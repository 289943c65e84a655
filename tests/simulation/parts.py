"""What a simulated process has in place of database connection, broker and model server."""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from redraft.clock import Clock
from redraft.messages import StepMessage
from redraft.storage.engine.unit_of_work import Database
from tests.simulation.faults import Faults, unreachable
from tests.simulation.observer import Observer
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from tests.simulation.site import Site


class ProcessDatabase(Database):
    """The one database, as a process reaches it: the product's own units of work, with points around each."""

    def __init__(self, site: "Site", process: Process, clock: Clock) -> None:
        self.__dict__.update(site.services.database.__dict__)
        self._write_turn = nullcontext()
        self._clock = clock
        self._process = process
        self._site = site

    @contextmanager
    def read(self) -> Generator[Connection]:
        self._enter("read")
        with super().read() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        self._enter("begin")
        with super().write() as connection:
            yield connection
            # Whoever is killed here, or fails, has changed nothing
            self._site.faults.reach(self._process, "commit", may_pause=False)
        self._site.observer.look(self._process)
        self._site.faults.reach(self._process, "committed")

    def _enter(self, point: str) -> None:
        self._site.faults.reach(self._process, point)
        if self._process.world.now < self._process.cut_off_until:
            raise unreachable()


@dataclass(slots=True)
class Broker:
    """Takes messages to workers: now and then twice, late or never."""

    world: World
    observer: Observer
    is_calm: bool
    consumers: list[Callable[[StepMessage], bool]] = field(default_factory=list[Callable[[StepMessage], bool]])

    def put(self, who: str, message: StepMessage) -> bool:
        if self.world.now < self.world.broker_down_until:
            return False
        self.observer.check_message(who, message)
        for after in self._fates():
            self.world.call_later(after, lambda: self._deliver(message, tries=0))
        return True

    def _fates(self) -> list[float]:
        rng = self.world.random
        soon, chance = rng.uniform(0.001, 0.05), rng.random()
        if self.is_calm or chance > 0.3:
            return [soon]
        if chance < 0.1:
            return []
        if chance < 0.2:
            return [soon, *(rng.uniform(0.0, 30.0) for _ in range(rng.randint(1, 2)))]
        return [rng.uniform(1.0, 60.0)]

    def _deliver(self, message: StepMessage, tries: int) -> None:
        consumers = self.world.random.sample(self.consumers, len(self.consumers))
        if any(consume(message) for consume in consumers) or tries > 120:
            return
        self.world.call_later(1.0, lambda: self._deliver(message, tries + 1))


class ProcessQueue:
    """The product's `Queue`, as far as operations use it, on the simulated broker."""

    def __init__(self, broker: Broker, process: Process, faults: Faults) -> None:
        self._broker = broker
        self._process = process
        self._faults = faults

    def notify(self, message: StepMessage) -> bool:
        self._faults.reach(self._process, "notify")
        is_taken = self._broker.put(self._process.name, message)
        self._faults.reach(self._process, "notified")
        return is_taken

    def wake(self, job_id: str) -> None:
        """Clients do not wait here."""

    def request_heartbeats(self) -> None:
        """The request is lost: heartbeats come at their own times."""

    def publish_delta(self, job_id: str, delta: Any) -> None:
        """Nobody watches."""

    def close(self) -> None:
        """Nothing is open."""


def virtual_strftime(world_of: Callable[[], World]) -> Callable[..., str]:
    """SQLite's `strftime` as `DbNow` uses it, by the virtual clock of the database."""

    def strftime(_form: str, moment: str, shift: str = "0 seconds") -> str:
        if moment != "now":
            raise ValueError(f"The simulation knows no other time than now: {moment!r}")
        seconds = world_of().database_time + float(shift.partition(" ")[0])
        milliseconds = math.floor(seconds * 1000 + 0.5)
        at = datetime.fromtimestamp(milliseconds // 1000, UTC)
        return f"{at:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"

    return strftime
