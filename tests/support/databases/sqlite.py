"""SQLite files with the schema in them: one is migrated in each process of the tests, the others are its copies."""

import tempfile
from functools import cache
from pathlib import Path

from redraft.storage.engine import schema
from redraft.storage.engine.unit_of_work import Database


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory(prefix="sqlite-") as folder:
        file = Path(folder) / "redraft.db"
        database = Database(f"sqlite:///{file}")
        schema.upgrade(database)
        database.close()
        return file.read_bytes()


def create_sqlite(file: Path) -> str:
    """A new file, its folder is there; returns its URL."""
    file.write_bytes(_migrated())
    return f"sqlite:///{file}"
