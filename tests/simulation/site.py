"""What all processes of a schedule share, and how each gets its services."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.operations.steps.leases import LeaseHolder
from tests.simulation.faults import Faults
from tests.simulation.models import ModelServer
from tests.simulation.observer import Observer
from tests.simulation.parts import Broker, ProcessDatabase, ProcessQueue
from tests.simulation.world import Process, VirtualClock, World


@dataclass(frozen=True, slots=True)
class Variant:
    """The parts of the product that a schedule uses; a mutant has another one somewhere."""

    holder_type: type[LeaseHolder] = LeaseHolder
    database_type: type[ProcessDatabase] = ProcessDatabase
    cancel: Callable[[Services, str], object] = lifecycle.cancel
    rewrite: Callable[[str], str] | None = None
    """Rewrites each statement before the database gets it."""


@dataclass(frozen=True, slots=True)
class Site:
    """What all processes of a schedule share."""

    world: World
    services: Services
    faults: Faults
    broker: Broker
    server: ModelServer
    observer: Observer
    variant: Variant
    holders: dict[str, Process] = field(default_factory=dict[str, Process])
    """Workers by the name with which they own leases."""

    def services_of(self, process: Process) -> Services:
        """The services of a process of its own. The limiter is of workers only: nobody else makes calls."""
        clock = VirtualClock(self.world, self.world.random.uniform(0.0, 1e6))
        queue: Any = ProcessQueue(self.broker, process, self.faults)
        return replace(
            self.services,
            database=self.variant.database_type(self, process, clock),
            queue=queue,
            clock=clock,
        )
