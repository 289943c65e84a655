"""Holds the leases of one worker process, and decides whether a step may start a call.

The setting `lease_s` in `redraft/settings.py` is the length of a lease.
"""

import math
import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import structlog
from sqlalchemy import Connection

from redraft import __version__
from redraft.clock import CLOCK, Clock
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.states import Step
from redraft.messages import StepMessage
from redraft.operations.services import Services
from redraft.settings import Settings
from redraft.storage.admin import workers
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import calls, transitions
from redraft.storage.jobs.transitions import DueStep

log = structlog.get_logger()

# Near the end of a lease no call starts, because the lease could expire before the call is sent
_SAFETY_S = 5.0
# An older check of a lease does not count, because the process may have been suspended since then
_FRESH_S = 2.0
# `worker/timers_and_shutdown.py` reserves this part of the grace period for releasing the leases
_LEAVE_S = 2.0


def message_for(due: DueStep) -> StepMessage:
    """The message that notifies workers of a due step."""
    return StepMessage(Step(due.step), due.job_id, due.step_no, due.run_id is not None)


def take_over(services: Services) -> None:
    """Expire all leases. The only worker of a database calls this when it starts: no other worker can hold a lease."""
    with services.database.write() as connection:
        count = transitions.expire_leases(connection)
    if count:
        log.info("leases_taken_over", count=count)


class LeaseHolder:
    """Holds the leases of one process. Its heartbeat extends all leases in one statement.

    Args:
        settings: the length of a lease, and the facts about this worker.
        is_alone: whether this process executes only one step, which may have killed its earlier workers.
        abort: aborts the calls of a job that has ended.
        clock: the clock of this process.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        is_alone: bool = False,
        abort: Callable[[str], None] = lambda _job_id: None,
        clock: Clock = CLOCK,
    ) -> None:
        self.owner = new_id("worker")
        self.lease_s = settings.lease_s
        self._abort = abort
        self._clock = clock
        self.losses_max = transitions.ALONE_LOSSES_MAX if is_alone else transitions.SHARED_LOSSES_MAX
        self._lock = threading.Lock()
        self._in_flight = set[tuple[str, int]]()
        self._tokens: dict[str, int] = {}
        self._good_since: dict[str, float] = {}
        self._is_closing = False
        self._in_contact_since = -math.inf
        self._facts = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "concurrency": 1 if is_alone else settings.worker_concurrency,
            "version": __version__,
        }

    @contextmanager
    def holding(self, job_id: str, token: int, since: float) -> Generator[Callable[[int, float], None]]:
        """Hold the lease of a job with a token. Yields a function that takes the token of the next lease.

        `since` is the time by the clock of this process when the lease was requested. The lease began no earlier.
        """
        held = 0

        def renew(token: int, since: float) -> None:
            nonlocal held
            with self._lock:
                self._in_flight.discard((job_id, held))
                self._in_flight.add((job_id, token))
                self._tokens[job_id] = token
                self._good_since[job_id] = since
            held = token

        renew(token, since)
        try:
            yield renew
        finally:
            with self._lock:
                self._in_flight.discard((job_id, held))
                if self._tokens.get(job_id) == held:
                    self._forget(job_id)

    def _forget(self, job_id: str) -> None:
        del self._tokens[job_id]
        del self._good_since[job_id]

    def may_call(self, job_id: str, token: int) -> bool:
        """Whether the lease of this step is valid for long enough to start a call."""
        # At most half of a short lease is reserved, because otherwise no call could start
        return self._is_younger(job_id, token, max(self.lease_s - _SAFETY_S, self.lease_s / 2))

    def _is_younger(self, job_id: str, token: int, age_s: float) -> bool:
        with self._lock:
            return self._tokens.get(job_id) == token and self._clock.monotonic() - self._good_since[job_id] < age_s

    def ensure(self, connection: Connection, job_id: str, token: int) -> bool:
        """Extend the lease of a step before a call is sent. False if the lease was lost or the job has ended.

        The process may have been suspended since the call was reserved, or the job may have been canceled.
        """
        started_at = self._clock.monotonic()
        held = transitions.extend_leases(connection, self.owner, [job_id], self.lease_s)
        if held.get(job_id) != token:
            return False
        with self._lock:
            self._tokens[job_id], self._good_since[job_id] = token, started_at
        return True

    def is_fresh(self, job_id: str, token: int) -> bool:
        """Whether the database has confirmed the lease of this step recently."""
        return self._is_younger(job_id, token, min(_FRESH_S, self.lease_s / 2))

    def lose_contact(self) -> None:
        """Note that the database did not answer. Leases of live workers may have expired for this reason."""
        self._in_contact_since = math.inf

    def regain_contact(self) -> None:
        self._in_contact_since = min(self._in_contact_since, self._clock.monotonic())

    @property
    def is_in_steady_contact(self) -> bool:
        """Whether an expired lease proves that its worker is lost."""
        return self._clock.monotonic() - self._in_contact_since >= self.lease_s

    def beat(self, database: Database) -> None:
        """Make a heartbeat: extend the leases, remove lost leases, and record that this worker is alive."""
        self._extend(database)
        with database.write() as connection:
            workers.record_heartbeat(connection, {"id": self.owner, **self._facts})

    def leave(self, database: Database) -> list[StepMessage]:
        """Release all leases, and close open calls as lost. Return the messages of the released steps."""
        return [message_for(each) for each in database.persist(self._leave, for_s=_LEAVE_S)]

    def _leave(self, connection: Connection) -> list[DueStep]:
        with self._lock:
            in_flight = list(self._in_flight)
        # Jobs are locked before calls, as in all units of work, because another order can cause a deadlock
        transitions.lock(connection, {job_id for job_id, _ in in_flight})
        released = transitions.release_leases(connection, self.owner)
        for job_id, usage in calls.close_stopped(connection, in_flight).items():
            transitions.add_usage(connection, job_id, usage)
        workers.remove(connection, self.owner)
        return released

    def _extend(self, database: Database) -> None:
        # Measured before the statement, because the lease begins no earlier
        started_at = self._clock.monotonic()
        with self._lock:
            before = dict(self._tokens)
        held: dict[str, int] = {}
        live: set[str] = set()
        if before:
            with database.write() as connection:
                held = transitions.extend_leases(connection, self.owner, before, self.lease_s)
                lost = before.keys() - held.keys()
                live = transitions.open_among(connection, lost) if lost else live
        with self._lock:
            for job_id, token in before.items():
                if self._tokens.get(job_id) != token:
                    continue
                if held.get(job_id) == token:
                    self._good_since[job_id] = started_at
                else:
                    self._forget(job_id)
                    # Abort only the calls of ended jobs. The next lease holder of a live job can use the reply
                    if job_id not in held and job_id not in live:
                        self._abort(job_id)

    def close(self) -> None:
        """Take no new step from now on."""
        self._is_closing = True

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    @property
    def in_flight(self) -> int:
        """The number of steps in flight. Steps without a lease count too, because their paid calls must be recorded."""
        with self._lock:
            return len(self._in_flight)
