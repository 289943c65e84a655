"""Notifies waiters of changes of bulk runs: one task per process and watched run reads it for all its watchers.

No message announces a change of a run, since its counts change with each job.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from starlette.concurrency import run_in_threadpool

from api.notifications.jobs import Notifications
from redraft.errors import RedraftError
from redraft.operations.bulk import runs
from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services

# A slow read is followed by a pause of this many times its length: reads take a tenth of the time at most
_REST = 9


class RunWatch:
    """The state that all watchers of one run share: the run as it was last read, or that it cannot be read."""

    def __init__(self) -> None:
        self.latest: Run | None = None
        self.is_lost = False
        self.watchers = 0
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def publish(self, run: Run | None) -> None:
        """Show the run to all watchers; None: it cannot be read."""
        self.is_lost = run is None
        self.latest = run or self.latest
        self.notify()

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, known: Run | None, timeout_s: float) -> Run | None:
        """Return the run when it differs from the known one; the known one after the time, or when it is lost."""
        if self.latest is known and not self.is_lost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
        return self.latest


class RunWatches:
    """The runs that somebody watches."""

    def __init__(self, services: Services, notifications: Notifications) -> None:
        self._services = services
        self._notifications = notifications
        self._watches: dict[str, RunWatch] = {}

    @property
    def run_ids(self) -> frozenset[str]:
        return frozenset(self._watches)

    @contextlib.asynccontextmanager
    async def watch(self, run_id: str) -> AsyncGenerator[RunWatch]:
        watch = self._watches.setdefault(run_id, RunWatch())
        watch.watchers += 1
        watch.task = watch.task or asyncio.create_task(self._poll(run_id, watch))
        try:
            yield watch
        finally:
            # Without an await, which would raise in a cancelled watcher: the task would leak
            watch.watchers -= 1
            if not watch.watchers:
                watch.task.cancel()
                del self._watches[run_id]

    async def _poll(self, run_id: str, watch: RunWatch) -> None:
        clock, pace = asyncio.get_running_loop().time, self._notifications.pace
        # Nothing is published for a run: its subscription only ends the waits when the server stops
        async with self._notifications.watch(run_id) as subscription:
            while not watch.is_lost and not self._notifications.is_closing:
                subscription.rearm()
                started_at = clock()
                try:
                    found = await run_in_threadpool(runs.get_run, self._services, run_id)
                except RedraftError:
                    found = None
                if found is None or found != watch.latest:
                    watch.publish(found)
                await subscription.wait(max(pace.run_poll_s, _REST * (clock() - started_at)))
        watch.notify()
