"""Runs the sweeper in a worker: executes undelivered steps itself, and isolates suspects."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from redraft.jobs import StepMessage
from redraft.operations.admin import retention
from redraft.operations.services import Services
from redraft.operations.steps.leases import LeaseHolder
from redraft.operations.steps.sweeper import sweep
from worker.quarantine import Quarantine


class Sweeper:
    """Sweeps on a timer of the worker.

    Args:
        services: the parts.
        holder: this process's leases.
        run_step: executes a step in the calling thread.
    """

    def __init__(self, services: Services, holder: LeaseHolder, run_step: Callable[[StepMessage], None]) -> None:
        self._services = services
        self._holder = holder
        self._run_step = run_step
        self._quarantine = Quarantine(services.settings.shutdown_grace_s, services.settings.frozen_after_s)
        self._spare = ThreadPoolExecutor(max_workers=8, thread_name_prefix="undelivered")

    def sweep(self) -> None:
        if self._holder.is_closing:
            return
        leftovers = sweep(
            self._services,
            with_expired=self._holder.is_in_steady_contact,
            suspects_max=self._quarantine.free_places,
        )
        retention.forget_some(self._services)
        # Without a broker jobs still progress, only slower
        for message in leftovers.undelivered:
            self._spare.submit(self._run_step, message)
        for message in leftovers.suspects:
            self._quarantine.admit(message)

    def begin_shutdown(self) -> None:
        self._spare.shutdown(wait=False, cancel_futures=True)
        self._quarantine.close()

    def stop(self) -> None:
        self.begin_shutdown()
        self._quarantine.wait_closed()
