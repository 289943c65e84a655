"""The schema and its upgrades by Alembic, also in tests and in embedded mode.

Workers and APIs run during an upgrade, so it waits only briefly for the lock of a table: all later transactions on the
table wait behind it.
"""

import time
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
class UpgradeTimeouts:
    """How long an upgrade on PostgreSQL waits for another one, and for the lock of a table: briefly, several times."""

    other_upgrade_s: float = 60.0
    table_s: float = 3.0
    tries: int = 10
    pause_s: float = 1.0


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The revision of a database beside that of this program."""

    current: str | None
    head: str
    # A later version has upgraded it: migrations only add, so this program still works
    is_newer: bool

    @property
    def is_usable(self) -> bool:
        return self.current == self.head or self.is_newer

    @property
    def remedy(self) -> str:
        """The message for a schema that is not usable."""
        return f"The schema is at {self.current or 'nothing'}, not at {self.head}: run `redraft db upgrade`."


def make_config() -> Config:
    spec = find_spec("migrations")
    if spec is None or spec.origin is None:
        raise RuntimeError("The package 'migrations' is not installed beside 'redraft'.")
    config = Config()
    config.set_main_option("script_location", str(Path(spec.origin).parent))
    return config


def upgrade(
    database: Database, revision: str = "head", *, config: Config | None = None, timeouts: UpgradeTimeouts | None = None
) -> None:
    """Upgrade the schema to `revision`; a schema that is newer than this program is not changed.

    If two upgrades run concurrently, the second one waits, and then has nothing to do. Raises Unavailable if the
    database is away, another upgrade does not end, or a transaction locks a table and does not end.
    """
    config, timeouts = config or make_config(), timeouts or UpgradeTimeouts()
    with translated():
        if schema_state(database, config).is_newer:
            return
        if database.is_sqlite:
            with database.engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                _migrate(connection, config, revision)
                connection.commit()
        else:
            with _own_connection(database) as lock:
                _lock_upgrades(lock, timeouts)
                _migrate_postgresql(database, config, revision, timeouts)


def _own_connection(database: Database) -> Connection:
    """Return a connection outside of the pool, because its settings must not affect later users."""
    return postgresql.make_plain_engine(database.url).connect()


def _lock_upgrades(connection: Connection, timeouts: UpgradeTimeouts) -> None:
    """Take the lock of upgrades until the transaction ends: behind a pooler a lock of the session would outlive us.

    Building an index waits for transactions with an older snapshot, so this one keeps none between its statements.
    """
    give_up_at = time.monotonic() + timeouts.other_upgrade_s
    while True:
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        # No parameters: psycopg would use the extended protocol, and that keeps the snapshot of the statement
        if connection.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({_LOCK})").scalar():
            return
        connection.rollback()
        if time.monotonic() > give_up_at:
            message = "Another `redraft db upgrade` is running; let it end, then run this one again."
            raise Unavailable(message, code="upgrade_running")
        time.sleep(0.1)


def _migrate_postgresql(database: Database, config: Config, revision: str, timeouts: UpgradeTimeouts) -> None:
    """Migrate, with some tries for locked tables: each migration is committed, so a try continues the last one."""
    for left in reversed(range(timeouts.tries)):
        try:
            with _own_connection(database) as connection:
                _set_timeouts(connection, timeouts)
                _migrate(connection, config, revision)
                connection.commit()
                return
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            if not left:
                raise Unavailable(_lock_message(database), code="schema_locked") from error
        time.sleep(timeouts.pause_s)


def _set_timeouts(connection: Connection, timeouts: UpgradeTimeouts) -> None:
    # Building an index takes long, and blocks no other statement
    settings = {"lock_timeout": f"{timeouts.table_s * 1000:.0f}", "statement_timeout": "0"}
    if postgresql.is_pooled(connection.connection.dbapi_connection):
        connection.rollback()
        statements = "; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items())

        def begin(connection: Connection) -> None:
            if not postgresql.is_autocommit(connection):
                connection.exec_driver_sql(statements)

        event.listen(connection, "begin", begin)
        return
    for name, value in settings.items():
        connection.execute(text("SELECT set_config(:name, :value, false)"), {"name": name, "value": value})
    connection.commit()


def _migrate(connection: Connection, config: Config, revision: str) -> None:
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _lock_message(database: Database) -> str:
    oldest = text(
        "SELECT pid, application_name, extract(epoch FROM clock_timestamp() - xact_start) AS age_s"
        " FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL"
        " AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
    )
    with database.read() as connection:
        row = connection.execute(oldest).one_or_none()
    message = "A table that the upgrade changes is locked by a transaction that does not end"
    if row is None:
        return f"{message}. Run `redraft db upgrade` again."
    return (
        f"{message}; the oldest one is {row.age_s:.0f} s old (process {row.pid}, {row.application_name or 'unnamed'}). "
        f"Run `redraft db upgrade` again when it has ended; SELECT pg_terminate_backend({row.pid}) ends it."
    )


def current(database: Database) -> str | None:
    with database.read() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    return _own_revisions()[1]


def schema_state(database: Database, config: Config | None = None) -> SchemaState:
    """The revision of the database, and whether this program can use it."""
    known, newest = _own_revisions() if config is None else _revisions(config)
    found = current(database)
    return SchemaState(found, newest, is_newer=found is not None and found not in known)


@cache  # health is asked for every few seconds
def _own_revisions() -> tuple[frozenset[str], str]:
    return _revisions(make_config())


def _revisions(config: Config) -> tuple[frozenset[str], str]:
    scripts = ScriptDirectory.from_config(config)
    return frozenset(script.revision for script in scripts.walk_revisions()), scripts.get_current_head() or ""
