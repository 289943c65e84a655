"""Upgrades the schema with Alembic, and compares the revisions of the database and of this program.

Workers and APIs run during an upgrade. While the upgrade waits for the lock of a table, all later transactions on the
table wait, too. So the upgrade waits only briefly, and tries again.
"""

import time
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.exc import OperationalError

from redraft.errors import Unavailable
from redraft.storage.engine import postgresql
from redraft.storage.engine.unit_of_work import Database, translated

# Each process imports this module at its start, but only upgrades need Alembic, whose import takes a tenth of a second
if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = 0x7265647261667400 >> 1  # any number that no other program uses as an advisory lock
_LOCK_NOT_AVAILABLE = "55P03"


@dataclass(frozen=True, slots=True)
class UpgradeTimeouts:
    """The timeouts of an upgrade on PostgreSQL.

    Attributes:
        other_upgrade_s: how long an upgrade waits for a concurrent upgrade.
        table_s: how long an upgrade waits for the lock of a table.
        tries: the number of attempts if a table stays locked.
        pause_s: the pause between two tries.
    """

    other_upgrade_s: float = 60.0
    table_s: float = 3.0
    tries: int = 10
    pause_s: float = 1.0


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The revision of a database (`current`), and the newest revision that this program knows (`head`)."""

    current: str | None
    head: str
    # A later version has upgraded the database. Migrations only add tables and columns, so this program still works
    is_newer: bool

    @property
    def is_usable(self) -> bool:
        return self.current == self.head or self.is_newer

    @property
    def remedy(self) -> str:
        """The error message for a schema that is not usable."""
        found = f"The schema is at {self.current}" if self.current else "The database has no schema"
        return f"{found}, and this program needs {self.head}: run `redraft db upgrade`."


def make_config() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_migrations()))
    return config


def _migrations() -> Path:
    spec = find_spec("migrations")
    if spec is None or spec.origin is None:
        raise RuntimeError("The package 'migrations' is not installed beside 'redraft'.")
    return Path(spec.origin).parent


def upgrade(
    database: Database,
    revision: str = "head",
    *,
    config: "Config | None" = None,
    timeouts: UpgradeTimeouts | None = None,
) -> None:
    """Upgrade the schema to `revision`. A schema that is newer than this program is not changed.

    If two upgrades run concurrently, the second one waits, and then has nothing to do.

    Raises Unavailable if the database cannot be reached, another upgrade does not end, or a transaction keeps a table
    locked.
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
    """Take the advisory lock of upgrades until the transaction ends. Raises Unavailable if another upgrade keeps it."""
    # The lock belongs to the transaction: behind a pooler, a lock of the session would outlive this process
    give_up_at = time.monotonic() + timeouts.other_upgrade_s
    while True:
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        # For a statement with parameters, psycopg uses the extended protocol. This transaction would then keep its
        # snapshot until its end, and a migration that builds an index would wait for it
        if connection.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({_LOCK})").scalar():
            return
        connection.rollback()
        if time.monotonic() > give_up_at:
            message = "Another `redraft db upgrade` is running. When it has ended, run this command again."
            raise Unavailable(message, code="upgrade_running")
        time.sleep(0.1)


def _migrate_postgresql(database: Database, config: "Config", revision: str, timeouts: UpgradeTimeouts) -> None:
    """Run the migrations, and try again if a table is locked. Raises Unavailable if the table stays locked."""
    # Each migration is committed, so a new try continues after the last migration
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
    # There is no statement timeout, because building an index takes long, but blocks no other statement
    settings = {"lock_timeout": f"{timeouts.table_s * 1000:.0f}", "statement_timeout": "0"}
    # Behind a pooler, a setting of the session would reach other clients, so each transaction sets its own
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


def _migrate(connection: Connection, config: "Config", revision: str) -> None:
    from alembic import command

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
    message = "The upgrade must change a table, but another transaction keeps it locked"
    if row is None:
        return f"{message}. Run `redraft db upgrade` again."
    return (
        f"{message}. The oldest transaction is {row.age_s:.0f} s old "
        f"(process {row.pid}, {row.application_name or 'unnamed'}). When it has ended, run `redraft db upgrade` again. "
        f"SELECT pg_terminate_backend({row.pid}) ends it."
    )


def current(database: Database) -> str | None:
    with database.read() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.scalar(text("SELECT version_num FROM alembic_version"))


def head() -> str:
    return _own_revisions()[1]


def schema_state(database: Database, config: "Config | None" = None) -> SchemaState:
    """Compare the revisions of database and program. Raises Unavailable if the database cannot be reached."""
    known, newest = _own_revisions() if config is None else _revisions(config)
    found = current(database)
    return SchemaState(found, newest, is_newer=found is not None and found not in known)


@cache  # each health check compares the revisions
def _own_revisions() -> tuple[frozenset[str], str]:
    """Read the revisions from the names of the migrations: `0001_first_schema.py`."""
    revisions = sorted(file.name.partition("_")[0] for file in (_migrations() / "versions").glob("[0-9]*_*.py"))
    return frozenset(revisions), revisions[-1]


def _revisions(config: "Config") -> tuple[frozenset[str], str]:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(config)
    return frozenset(script.revision for script in scripts.walk_revisions()), scripts.get_current_head() or ""
