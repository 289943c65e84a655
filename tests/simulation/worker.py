"""A worker process in virtual time: the product's executor, leases and sweeper, with tasks for their timers."""

from collections.abc import Callable
from dataclasses import replace

from redraft.errors import Unavailable
from redraft.messages import StepMessage
from redraft.operations.calls.step_work import Work
from redraft.operations.steps import context
from redraft.operations.steps.executor import run
from redraft.operations.steps.sweeper import sweep
from redraft.rate_limiter import RateLimiter
from tests.simulation.driver import StepDriver
from tests.simulation.site import Site
from tests.simulation.world import Process
from worker.step_exceptions import handle_failures


class Worker:
    """A worker, from its start until it is killed or stopped."""

    def __init__(self, site: Site, name: str, *, is_alone: bool = False) -> None:
        self._site = site
        self.process = Process(name, site.world)
        services = site.services_of(self.process)
        limiter = RateLimiter(services.settings, services.queue.notify, clock=services.clock)
        self._services = replace(services, limiter=limiter)
        self._driver = StepDriver(self.process, site.faults, site.server)
        self.holder = site.variant.holder_type(
            self._services.settings, is_alone=is_alone, abort=self._driver.abort, clock=self._services.clock
        )
        self.process.stop = lambda: self._spawn(self.leave)
        self._is_alone = is_alone
        self._steps = 0
        self._alone: list[Process] = []
        site.holders[self.holder.owner] = self.process
        self._spawn(self._beat_always)

    def start(self) -> "Worker":
        self._site.broker.consumers.append(self.consume)
        self._spawn(self._sweep_always)
        return self

    def _spawn(self, work: Callable[[], object]) -> None:
        self._site.world.spawn(self.process, work)

    @property
    def is_working(self) -> bool:
        """Also before it holds the lease of a step that it has claimed."""
        return not self.process.is_dead and self._steps > 0

    def consume(self, message: StepMessage) -> bool:
        """Take a message from the broker, if there is still somebody to take it."""
        if self.process.is_dead or self.holder.is_closing or self.process.frozen_until > self._site.world.now:
            return False
        self._begin(message)
        return True

    def _begin(self, message: StepMessage) -> None:
        self._spawn(lambda: self._run(message))

    def _run(self, message: StepMessage) -> None:
        self._steps += 1
        try:
            self._driver.run(message.job_id, self._work_on(message))
        finally:
            self._steps -= 1

    def _work_on(self, message: StepMessage) -> Work[None]:
        def goes_on() -> bool:
            return not (self.holder.is_closing or self._is_alone)

        with handle_failures(self._services, message.job_id):
            yield from run(self._services, self.holder, message, goes_on=goes_on)

    def _beat_always(self) -> None:
        self._every(self._services.settings.heartbeat_s, self._beat)

    def _beat(self) -> None:
        self.holder.beat(self._services.database)
        self.holder.regain_contact()

    def _sweep_always(self) -> None:
        self._every(self._services.settings.sweep_s, self._sweep)

    def _every(self, pause_s: float, work: Callable[[], None]) -> None:
        world = self._site.world
        while True:
            try:
                work()
            except Unavailable:
                self.holder.lose_contact()
            world.sleep(pause_s * world.random.uniform(0.8, 1.2))

    def _sweep(self) -> None:
        if self.holder.is_closing:
            return
        free = 0 if any(not each.is_dead for each in self._alone) else 1
        leftovers = sweep(self._services, with_expired=self.holder.is_in_steady_contact, suspects_max=free)
        for message in leftovers.undelivered:
            self._begin(message)
        for message in leftovers.suspects:
            self._isolate(message)

    def _isolate(self, message: StepMessage) -> None:
        """Do the step of a suspect in a process of its own, which ends with it."""
        alone = Worker(self._site, f"{self.process.name}/alone", is_alone=True)
        self._alone.append(alone.process)

        def work() -> None:
            alone._run(message)
            alone.leave()

        alone._spawn(work)

    def leave(self) -> None:
        """Stop in order: release the leases, notify workers of their steps, end."""
        world = self._site.world
        self.holder.close()
        give_up_at = world.now + self._services.settings.shutdown_grace_s
        while self._steps and world.now < give_up_at:
            world.sleep(0.05)
        self.process.is_disturbed |= self._steps > 0
        try:
            released = self.holder.leave(self._services.database)
        except Unavailable:
            released = []
        for message in released:
            context.notify(self._services, message)
        self.process.kill()
