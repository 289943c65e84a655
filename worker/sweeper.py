"""Runs the sweeper in a worker. The worker executes undelivered steps itself, and isolates suspects."""

from collections.abc import Callable
from concurrent.futures import Future

from redraft.messages import StepMessage
from redraft.operations.admin import retention
from redraft.operations.services import Services
from redraft.operations.steps.leases import LeaseHolder
from redraft.operations.steps.sweeper import sweep
from worker.quarantine import Quarantine


class Sweeper:
    """Sweeps on a timer of the worker.

    Args:
        services: the services of this process.
        holder: the leases of this process.
        begin_step: begins a step in this worker.
    """

    def __init__(
        self, services: Services, holder: LeaseHolder, begin_step: Callable[[StepMessage], Future[None]]
    ) -> None:
        self._services = services
        self._holder = holder
        self._begin_step = begin_step
        self._quarantine = Quarantine(services.settings.shutdown_grace_s, services.settings.frozen_after_s)

    def sweep(self) -> None:
        if self._holder.is_closing:
            return
        leftovers = sweep(
            self._services,
            with_expired=self._holder.is_in_steady_contact,
            suspects_max=self._quarantine.free_places,
        )
        retention.forget_some(self._services)
        # Executed here, so that jobs make progress without a broker, but more slowly
        room = self._services.settings.worker_concurrency - self._holder.in_flight
        for message in leftovers.undelivered[: max(0, room)]:
            self._begin_step(message)
        for message in leftovers.suspects:
            self._quarantine.admit(message)

    def begin_shutdown(self) -> None:
        self._quarantine.close()

    def stop(self) -> None:
        self.begin_shutdown()
        self._quarantine.wait_closed()
