"""The database, and the unit of work: the only place that commits.

A unit of work is one request or one half of a step. Nothing slow happens within it: no model call, no message, no wait.
"""

import contextlib
import os
import sqlite3
import threading
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

T = TypeVar("T")

News = Literal["webhooks", "runs"]

_NOTIFICATIONS = "redraft_news"


class Database:
    """One engine. `read()` and `write()` open a unit of work; `write()` commits at its end."""

    def __init__(self, url: str, *, pool_size: int = 10, clock: Clock = CLOCK) -> None:
        self.url = _read_url(url)
        self._clock = clock
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = self._sqlite_engine(pool_size) if self.is_sqlite else postgresql.make_engine(self.url, pool_size)
        # Threads of one process queue here in order; the busy wait of SQLite polls, and some threads would starve
        self._write_turn = threading.Lock() if self.is_sqlite else nullcontext()
        # Set after a commit with `notify_after_commit`, so that a thread of this process reads the news at once
        self.news: dict[News, threading.Event] = {"webhooks": threading.Event(), "runs": threading.Event()}

    def _sqlite_engine(self, pool_size: int) -> Engine:
        engine = create_engine(
            self.url,
            hide_parameters=True,
            # `statements` binds by name on both databases
            paramstyle="named",
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=30,
            connect_args={"timeout": 30, "isolation_level": None, "check_same_thread": False},
        )
        event.listen(engine, "do_connect", _make_private)
        event.listen(engine, "connect", _prepare_sqlite)
        return engine

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A consistent view for reading."""
        with translated(), self.engine.connect() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN")
            yield connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        """One transaction: committed at the end, rolled back on any error."""
        with translated(), self._write_turn, self.engine.connect() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.info.pop(_NOTIFICATIONS, None)
            yield connection
            connection.commit()
            for news in connection.info.pop(_NOTIFICATIONS, ()):
                self.news[news].set()

    def persist(self, work: Callable[[Connection], T], *, for_s: float) -> T:
        """Run `work` in a unit of work, and repeat it while the database is away, for `for_s` seconds at most.

        For data that must not be lost, such as a paid reply. `work` may run more than once, also after a commit with
        unknown outcome: then it must change nothing, which the conditions on lease tokens ensure.
        """
        give_up_at = self._clock.monotonic() + for_s
        pause_s = 0.1
        has_collided = False
        while True:
            try:
                with self.write() as connection:
                    return work(connection)
            except exc.IntegrityError:
                # Another worker wrote the same row at the same moment: the second time `work` sees that row
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


def notify_after_commit(connection: Connection, news: News) -> None:
    """Set this event of `Database.news` after the commit of the unit of work."""
    connection.info.setdefault(_NOTIFICATIONS, set()).add(news)


def _read_url(url: str) -> URL:
    """Raises Invalid unless it is one of the two kinds of database; the URL itself may hold a password."""
    try:
        error = database_error(url)
        read = None if error else make_url(sqlalchemy_url(url))
    except (exc.ArgumentError, ValueError):
        error, read = database_error(""), None
    if read is None:
        raise Invalid.at("/database_url", f"REDRAFT_DATABASE_URL {error}.", "invalid_database_url")
    return read


def _make_private(_dialect: object, _record: object, arguments: list[Any], _options: object) -> None:
    """Create a new database file for its owner only; SQLite gives the same mode to its journal files."""
    path = str(arguments[0]) if arguments else ""
    if path and not path.startswith((":", "file:")) and not Path(path).exists():
        with contextlib.suppress(OSError):  # SQLite has the better error message
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # WAL: readers and the writer do not wait for each other. NORMAL: with WAL a crash cannot corrupt the database
    for pragma in ("busy_timeout=30000", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


@contextmanager
def translated() -> Generator[None]:
    """Raise Unavailable for a database that is away, full or locked. The error of a wrong statement stays as it is."""
    try:
        yield
    except (exc.OperationalError, exc.TimeoutError) as error:
        raise Unavailable(
            f"The database cannot be used now: {_first_line(error)}", code="database_unavailable"
        ) from error
    except exc.DBAPIError as error:
        sqlstate = getattr(error.orig, "sqlstate", None)
        if sqlstate is None and type(error) is exc.DatabaseError:
            # SQLite raises it for a file that is damaged, or no database
            raise Unavailable(
                f"The database cannot be read: {_first_line(error)}. Does REDRAFT_DATABASE_URL name the right file?",
                code="database_unavailable",
            ) from error
        if not error.connection_invalidated and (sqlstate is None or postgresql.is_of_statement(sqlstate)):
            raise
        raise Unavailable(f"The database went away: {_first_line(error)}", code="database_unavailable") from error


def _first_line(error: Exception) -> str:
    original = getattr(error, "orig", None) or error
    return redact(str(original).strip().split("\n")[0])[:200]
