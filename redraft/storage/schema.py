"""The schema's version: Alembic makes it, here, in tests and in embedded mode alike."""

from importlib.util import find_spec
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from redraft.storage.work import Database, translated

_LOCK = 0x7265647261667400 >> 1  # any constant that is ours alone


def _config() -> Config:
    spec = find_spec("migrations")
    if spec is None or spec.origin is None:
        raise RuntimeError("The package 'migrations' is not installed beside 'redraft'.")
    config = Config()
    config.set_main_option("script_location", str(Path(spec.origin).parent))
    return config


def upgrade(database: Database, revision: str = "head") -> None:
    """Bring the schema to `revision`. Two at once do not meet: the second waits, then finds nothing to do."""
    config = _config()
    with translated(), database.engine.connect() as connection:
        if database.is_sqlite:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.commit()


def current(database: Database) -> str | None:
    with database.read() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    return ScriptDirectory.from_config(_config()).get_current_head() or ""
