"""The schema's version: Alembic makes it, here, in tests and in embedded mode alike.

Workers and APIs go on while it is upgraded, so nothing here waits long for a lock: who waits for a table makes all
others wait behind it.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import OperationalError

from redraft.errors import Unavailable
from redraft.storage.engine import postgresql
from redraft.storage.engine.work import Database, translated

_LOCK = 0x7265647261667400 >> 1  # any constant that is ours alone
_LOCK_NOT_AVAILABLE = "55P03"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an upgrade waits on PostgreSQL, for another upgrade and for a table that it changes.

    A table is asked for briefly and several times: transactions that come meanwhile queue behind the one that asks.
    """

    other_upgrade_s: float = 60.0
    table_s: float = 3.0
    tries: int = 10
    pause_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a database's schema stands beside the one that this program was made for."""

    current: str | None
    head: str
    is_newer: bool
    """A later version has upgraded it; migrations only add, so this program goes on working."""

    @property
    def is_usable(self) -> bool:
        return self.current == self.head or self.is_newer

    @property
    def remedy(self) -> str:
        """What to tell whoever cannot use it."""
        return f"The schema is at {self.current or 'nothing'}, not at {self.head}: run `redraft db upgrade`."


def make_config() -> Config:
    """Alembic's, for the migrations of this program."""
    spec = find_spec("migrations")
    if spec is None or spec.origin is None:
        raise RuntimeError("The package 'migrations' is not installed beside 'redraft'.")
    config = Config()
    config.set_main_option("script_location", str(Path(spec.origin).parent))
    return config


def upgrade(
    database: Database, revision: str = "head", *, config: Config | None = None, patience: Patience | None = None
) -> None:
    """Bring the schema to `revision`; one that is newer than this program stays as it is.

    Two at once do not meet: the second waits, then finds nothing to do.

    Raises:
        Unavailable: the database is away; another upgrade runs; or a transaction holds a table and does not end.
    """
    config = config or make_config()
    with translated():
        if standing(database, config).is_newer:
            return
        if database.is_sqlite:
            with database.engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                _migrate(connection, config, revision)
                connection.commit()
        else:
            patience = patience or Patience()
            with _alone(database, patience):
                _again_while_locked(
                    database, patience, lambda: _migrate_postgresql(database, config, revision, patience)
                )


@contextmanager
def _own_connection(database: Database) -> Generator[Connection]:
    """One that nobody gets after us: it ends with the settings that it has."""
    engine = postgresql.make_plain_engine(database.url)
    with engine.connect() as connection:
        yield connection


@contextmanager
def _alone(database: Database, patience: Patience) -> Generator[None]:
    """Hold the lock of upgrades in a transaction: behind a pooler, a session's lock would outlive its client.

    Building an index waits for transactions with an older snapshot; this one keeps none between its statements.
    """
    with _own_connection(database) as connection:
        give_up_at = time.monotonic() + patience.other_upgrade_s
        while not _try_lock(connection):
            if time.monotonic() > give_up_at:
                words = "Another `redraft db upgrade` is running; let it end, then run this one again."
                raise Unavailable(words, code="upgrade_running")
            time.sleep(0.1)
        yield


def _try_lock(connection: Connection) -> bool:
    connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
    # Without parameters: the driver's other protocol would keep the statement's snapshot
    if connection.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({_LOCK})").scalar():
        return True
    connection.rollback()
    return False


def _again_while_locked(database: Database, patience: Patience, work: Callable[[], None]) -> None:
    """Each migration commits by itself: another try goes on where the last one stopped."""
    for left in reversed(range(patience.tries)):
        try:
            return work()
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            if not left:
                raise Unavailable(_who_holds(database), code="schema_locked") from error
        time.sleep(patience.pause_s)
    return None


def _migrate_postgresql(database: Database, config: Config, revision: str, patience: Patience) -> None:
    with _own_connection(database) as connection:
        _set_timeouts(connection, patience)
        _migrate(connection, config, revision)
        connection.commit()


def _set_timeouts(connection: Connection, patience: Patience) -> None:
    # Building an index takes as long as it takes, and blocks nobody.
    settings = {"lock_timeout": f"{patience.table_s * 1000:.0f}", "statement_timeout": "0"}
    if postgresql.is_pooled(connection.connection.dbapi_connection):
        connection.rollback()
        words = "; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items())

        def begin(connection: Connection) -> None:
            if not postgresql.is_autocommit(connection):
                connection.exec_driver_sql(words)

        event.listen(connection, "begin", begin)
        return
    for name, value in settings.items():
        connection.execute(text("SELECT set_config(:name, :value, false)"), {"name": name, "value": value})
    connection.commit()


def _migrate(connection: Connection, config: Config, revision: str) -> None:
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _who_holds(database: Database) -> str:
    oldest = text(
        "SELECT pid, application_name, extract(epoch FROM clock_timestamp() - xact_start) AS age_s"
        " FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL"
        " AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
    )
    with database.read() as connection:
        row = connection.execute(oldest).one_or_none()
    words = "A table that the upgrade changes is held by a transaction that does not end"
    if row is None:
        return f"{words}. Run `redraft db upgrade` again."
    return (
        f"{words}; the oldest one is {row.age_s:.0f} s old (process {row.pid}, {row.application_name or 'unnamed'}). "
        f"Run `redraft db upgrade` again when it has ended; SELECT pg_terminate_backend({row.pid}) ends it."
    )


def current(database: Database) -> str | None:
    with database.read() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    return _own_revisions()[1]


def standing(database: Database, config: Config | None = None) -> Standing:
    """What stands in the database, and whether this program can work with it."""
    known, newest = _own_revisions() if config is None else _revisions(config)
    found = current(database)
    is_newer = found is not None and found not in known
    return Standing(found, newest, is_newer)


@cache
def _own_revisions() -> tuple[frozenset[str], str]:
    """Read once: health is asked for every few seconds."""
    return _revisions(make_config())


def _revisions(config: Config) -> tuple[frozenset[str], str]:
    """All revisions, and the newest one."""
    scripts = ScriptDirectory.from_config(config)
    return frozenset(script.revision for script in scripts.walk_revisions()), scripts.get_current_head() or ""
