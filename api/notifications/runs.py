"""Waiting for bulk runs: each run that somebody watches is looked at by one task per process, for all who watch it.

No message announces a change of a run: its counts change with each job. The subscription of each task ends its wait
when the server stops.
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

_REST = 9
"""A look that took long is followed by a pause of so many times its length."""


class RunWatch:
    """What all who watch one run know of it.

    Attributes:
        latest: the run as it was last seen.
        is_lost: it is gone, or cannot be looked at.
    """

    def __init__(self) -> None:
        self.latest: Run | None = None
        self.is_lost = False
        self.watchers = 0
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def publish(self, run: Run | None) -> None:
        """Show the run to all who wait; None: it is lost."""
        self.is_lost = run is None
        self.latest = run or self.latest
        self.notify()

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, known: Run | None, timeout_s: float) -> Run | None:
        """The run once it differs from the one that is known; the known one after the time, or when it is lost."""
        if self.latest is known and not self.is_lost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
        return self.latest


class RunWatches:
    """Those runs that somebody watches."""

    def __init__(self, services: Services, notifications: Notifications) -> None:
        self._services = services
        self._notifications = notifications
        self._watches: dict[str, RunWatch] = {}

    @property
    def run_ids(self) -> frozenset[str]:
        """What is watched now."""
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
        clock, pace = asyncio.get_running_loop().time, self._notifications.pace
        async with self._notifications.watch(run_id) as subscription:
            while not watch.is_lost and not self._notifications.is_closing:
                subscription.rearm()
                started_at = clock()
                found = await self._read(run_id)
                if found is None or found != watch.latest:
                    watch.publish(found)
                await subscription.wait(max(pace.run_poll_s, _REST * (clock() - started_at)))
        watch.notify()

    async def _read(self, run_id: str) -> Run | None:
        try:
            return await run_in_threadpool(runs.get_run, self._services, run_id)
        except RedraftError:
            return None
