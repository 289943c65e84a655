"""Commits statements of several threads in one transaction, on PostgreSQL.

Each commit waits for the disk, and costs the server more than the small statement that it commits. While one thread
commits a group, the statements of the other threads wait, and form the next group.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy import URL, Connection

from redraft.clock import Clock
from redraft.storage.engine import driver, postgresql

log = structlog.get_logger()

# A group that waits longer for a locked row is rolled back, so that one row cannot delay the other jobs. PostgreSQL
# looks for deadlocks after 1 s, so a deadlock with a group does not end the other transaction
_LOCK_TIMEOUT_MS = 500


@dataclass(slots=True, eq=False)
class _Entry:
    """A statement that waits for its commit.

    Attributes:
        key: the order of the statements in a group.
        build: returns the statement, for the dialect of the connection.
        row: the first row of the result, after the commit.
        statement: the statement that returned the row.
        wake: set when the group of the entry has ended, or when its thread must commit the next group.
        leads: whether its thread must commit the next group.
    """

    key: str
    build: Callable[[Connection], driver.Statement]
    row: tuple[Any, ...] | None = None
    statement: driver.Statement | None = None
    wake: threading.Event = field(default_factory=threading.Event)
    leads: bool = False


class GroupCommit:
    """Executes statements in groups, each group in one transaction on one connection."""

    def __init__(self, url: URL, after_commit: Callable[[Connection], None], clock: Clock) -> None:
        self._after_commit = after_commit
        self._clock = clock
        self._engine = postgresql.make_engine(url, 1, plans_once=True, lock_timeout_ms=_LOCK_TIMEOUT_MS)
        self._lock = threading.Lock()
        self._waiting: list[_Entry] = []
        self._is_busy = False
        # Used by the thread that commits a group
        self._connection: Connection | None = None
        self._used_at = 0.0

    def execute(self, key: str, build: Callable[[Connection], driver.Statement]) -> tuple[Any, ...] | None:
        """Execute a statement that changes one job, and return its first row after the commit.

        Use it for a statement that changes nothing if it is executed again, such as one with a condition on a lease
        token. Returns None if the statement found no row, if it was rolled back with its group, or if the outcome is
        unknown: then execute it in a transaction of its own. Raises nothing.

        Args:
            key: the id of the job. A group locks its jobs in the order of their ids.
            build: returns the statement. If `build` executes statements itself, the whole group is rolled back.
        """
        return self._execute(key, build).row

    def fetch(self, key: str, build: Callable[[Connection], driver.Statement]) -> dict[str, Any] | None:
        """Execute a statement as `execute` does, and return its first row by column name."""
        entry = self._execute(key, build)
        return None if entry.row is None or entry.statement is None else entry.statement.read(entry.row)

    def _execute(self, key: str, build: Callable[[Connection], driver.Statement]) -> _Entry:
        entry = _Entry(key, build)
        with self._lock:
            self._waiting.append(entry)
            leads, self._is_busy = not self._is_busy, True
        if not leads:
            entry.wake.wait()
        if leads or entry.leads:
            self._commit_next()
        return entry

    @property
    def waiting(self) -> int:
        """The number of statements that wait for the next group."""
        return len(self._waiting)

    def _commit_next(self) -> None:
        with self._lock:
            group, self._waiting = self._waiting, []
        try:
            self._commit(sorted(group, key=lambda entry: entry.key))
        finally:
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._is_busy = following is not None
            if following is not None:
                following.leads = True
                following.wake.set()
            for entry in group:
                entry.wake.set()

    def _commit(self, group: list[_Entry]) -> None:
        try:
            connection = self._connect()
            statements = [entry.build(connection) for entry in group]
            # A pooler applies no timeouts without a transaction. If there is a transaction, a `build` has begun it
            if not postgresql.is_direct(connection) or connection.in_transaction():
                self._disconnect()
                return
            rows = driver.execute_together(connection, statements)
            for entry, statement, row in zip(group, statements, rows, strict=True):
                entry.statement, entry.row = statement, row
            self._after_commit(connection)
        except Exception as error:  # noqa: BLE001 - each thread executes its statement again, which raises its own error
            log.warning("group_commit_failed", statements=len(group), error=type(error).__name__)
            self._disconnect()

    def _connect(self) -> Connection:
        # The connection is kept, because getting it from the pool takes a fifth of a group's time
        now = self._clock.monotonic()
        if self._connection is not None and now - self._used_at >= postgresql.PING_AFTER_S:
            postgresql.give_back_idle(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection = self._engine.connect()
        self._used_at = now
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        with self._lock:
            is_idle = not self._is_busy
        if is_idle:
            self._disconnect()
        self._engine.dispose()
