"""Notifies watchers, which are open event streams, when a bulk run changes.

Each process has one task per watched run, which reads the run for all watchers. The task polls the database, because
each job changes the counts of its run, and a message for each change would be too many.
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

# The pause after a read, as a multiple of the read's duration. So reads take at most a tenth of the time
_REST = 9


class RunWatch:
    """The state that all watchers of one run share: its latest version, and whether it can no longer be read."""

    def __init__(self) -> None:
        self.latest: Run | None = None
        self.is_lost = False
        self.watchers = 0
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def publish(self, run: Run | None) -> None:
        """Store the latest version, and notify all watchers. None means that the run cannot be read."""
        self.is_lost = run is None
        self.latest = run or self.latest
        self.notify()

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, known: Run | None, timeout_s: float) -> Run | None:
        """Return the run when it differs from `known`.

        After the timeout or a failed read, return the latest version.
        """
        if self.latest is known and not self.is_lost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
        return self.latest


class RunWatches:
    """The watched runs of this process, each with its task."""

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
            # An await here would raise in a cancelled watcher, and the task would leak
            watch.watchers -= 1
            if not watch.watchers:
                watch.task.cancel()
                del self._watches[run_id]

    async def _poll(self, run_id: str, watch: RunWatch) -> None:
        clock, intervals = asyncio.get_running_loop().time, self._notifications.intervals
        # No messages arrive for a run. The subscription only serves to end the waits when the server stops
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
                await subscription.wait(max(intervals.run_poll_s, _REST * (clock() - started_at)))
        watch.notify()
