"""The database, and the unit of work. All commits are made here and in `group_commit.py`.

A unit of work is one transaction, for one request, or before or after the model calls of a step. It contains no model
call, no message and no wait, because SQLite admits one writer at a time, and PostgreSQL holds its row locks until the
end.
"""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url

from redraft.clock import CLOCK, Clock
from redraft.errors import Invalid, Unavailable
from redraft.redaction import redact
from redraft.setting_values import database_error, sqlalchemy_url
from redraft.storage.engine import postgresql
from redraft.storage.engine.group_commit import GroupCommit

T = TypeVar("T")

ChangedTable = Literal["webhooks", "runs"]

_CHANGED = "redraft_news"
_SQLITE_BUSY_S = 30


class Database:
    """The database engine of a process. `read()` and `write()` open a unit of work.

    `group_commit` is None on SQLite, where a commit does not wait for the disk.
    `plans_once` is for a process that repeats a few statements: PostgreSQL plans each of them only once per connection.
    """

    def __init__(self, url: str, *, pool_size: int = 10, clock: Clock = CLOCK, plans_once: bool = False) -> None:
        self.url = _read_url(url)
        self._clock = clock
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if self.is_sqlite:
            self.engine = self._sqlite_engine(pool_size)
            self.group_commit = None
        else:
            self.engine = postgresql.make_engine(self.url, pool_size, plans_once=plans_once)
            self.group_commit = GroupCommit(self.url, self._set_changed, clock)
        self._reader = self.engine.execution_options(**{postgresql.WITHOUT_TRANSACTION: True})
        # The threads of a process wait for this lock before they write. SQLite's own wait polls, so some threads could
        # wait for very long
        self._write_turn = threading.Lock() if self.is_sqlite else nullcontext()
        # `notify_after_commit` sets these, so that a thread of this process reads the changed table at once
        self.changed_tables: dict[ChangedTable, threading.Event] = {
            "webhooks": threading.Event(),
            "runs": threading.Event(),
        }

    def _sqlite_engine(self, pool_size: int) -> Engine:
        engine = create_engine(
            self.url,
            hide_parameters=True,
            # `statements.py` binds parameters by name
            paramstyle="named",
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=30,
            connect_args={"timeout": _SQLITE_BUSY_S, "isolation_level": None, "check_same_thread": False},
        )
        event.listen(engine, "do_connect", _make_private)
        event.listen(engine, "connect", _prepare_sqlite)
        return engine

    @contextmanager
    def read(self, *, is_streamed: bool = False) -> Generator[Connection]:
        """Open a connection for reading. On SQLite, all statements see the same state of the database.

        `is_streamed` is for results that are not read at once. Raises Unavailable if the database cannot be reached.
        """
        with translated(), (self.engine if is_streamed else self._reader).connect() as connection:
            connection.begin()
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN")
            yield connection
            # Commit, because psycopg drops all prepared statements of the connection after a rollback
            connection.commit()

    @contextmanager
    def write(self) -> Generator[Connection]:
        """Open a transaction, commit it at the end, and roll it back on any error.

        Raises Unavailable if the database cannot be reached, or is full or locked.
        """
        with translated(), self._write_turn, self.engine.connect() as connection:
            connection.begin()
            if self.is_sqlite:
                # Without IMMEDIATE, a write after a read fails if another transaction has written in between
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.info.pop(_CHANGED, None)
            yield connection
            connection.commit()
            self._set_changed(connection)

    def _set_changed(self, connection: Connection) -> None:
        for changed in connection.info.pop(_CHANGED, ()):
            self.changed_tables[changed].set()

    def persist(self, work: Callable[[Connection], T], *, for_s: float) -> T:
        """Run `work` in a unit of work. While the database cannot be reached, try again for at most `for_s` seconds.

        Use this for data that must not be lost, such as a paid reply. `work` may run again after a commit with unknown
        outcome. The second run must change nothing; conditions on lease tokens ensure this. Raises Unavailable after
        `for_s`.
        """
        give_up_at = self._clock.monotonic() + for_s
        pause_s = 0.1
        has_collided = False
        while True:
            try:
                with self.write() as connection:
                    return work(connection)
            except exc.IntegrityError:
                # Another worker wrote the same row at the same moment. When `work` runs again, it finds that row
                if has_collided:
                    raise
                has_collided = True
            except Unavailable:
                if self._clock.monotonic() + pause_s > give_up_at:
                    raise
                self._clock.sleep(pause_s)
                pause_s = min(2.0, pause_s * 2)

    def close(self) -> None:
        self.engine.dispose()
        if self.group_commit:
            self.group_commit.close()


def notify_after_commit(connection: Connection, changed: ChangedTable) -> None:
    """Set the event of a table in `Database.changed_tables` after the commit of the unit of work."""
    connection.info.setdefault(_CHANGED, set()).add(changed)


def _read_url(url: str) -> URL:
    """Parse the URL. If it is not supported, raise Invalid without its text, which may have a password."""
    try:
        error = database_error(url)
        read = None if error else make_url(sqlalchemy_url(url))
    except (exc.ArgumentError, ValueError):
        error, read = database_error(""), None
    if read is None:
        raise Invalid.at("/database_url", f"REDRAFT_DATABASE_URL {error}.", "invalid_database_url")
    return read


def _make_private(_dialect: object, _record: object, arguments: list[Any], _options: object) -> None:
    """Create a new database file that only its owner can read. SQLite gives the same mode to its journal files."""
    path = str(arguments[0]) if arguments else ""
    if path and not path.startswith((":", "file:")) and not Path(path).exists():
        with contextlib.suppress(OSError):  # SQLite then fails too, with a better error message
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.execute(f"PRAGMA busy_timeout={_SQLITE_BUSY_S * 1000}")
    _use_wal(connection)
    # NORMAL: in WAL mode, a crash cannot corrupt the database
    for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Set WAL mode, in which readers and the writer do not wait for each other."""
    give_up_at = time.monotonic() + _SQLITE_BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # This statement ignores the busy timeout if another process is just creating the database
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def translated() -> Generator[None]:
    """Raise Unavailable if the database is unreachable, full, locked or damaged. Pass errors of wrong statements on."""
    try:
        yield
    except (exc.OperationalError, exc.TimeoutError) as error:
        raise Unavailable(
            f"The database cannot be used now: {_first_line(error)}", code="database_unavailable"
        ) from error
    except exc.DBAPIError as error:
        sqlstate = getattr(error.orig, "sqlstate", None)
        if sqlstate is None and type(error) is exc.DatabaseError:
            # SQLite raises this error for a file that is damaged or is not a database
            raise Unavailable(
                f"The database cannot be read: {_first_line(error)}. Does REDRAFT_DATABASE_URL name the right file?",
                code="database_unavailable",
            ) from error
        if not error.connection_invalidated and (sqlstate is None or postgresql.is_statement_error(sqlstate)):
            raise
        words = f"The connection to the database was lost: {_first_line(error)}"
        raise Unavailable(words, code="database_unavailable") from error


def _first_line(error: Exception) -> str:
    original = getattr(error, "orig", None) or error
    return redact(str(original).strip().split("\n")[0])[:200]
