"""Finds rows by how people refer to them: the beginning of an id, a name, or the newest."""

from sqlalchemy import ColumnElement, Connection, Table, select

_AT_MOST = 3  # enough to tell a unique row from several, and to name two of them


def latest_id(connection: Connection, table: Table) -> str | None:
    return connection.scalar(select(table.c.id).order_by(table.c.created_at.desc(), table.c.id.desc()).limit(1))


def ids_that_begin(connection: Connection, table: Table, beginning: str) -> list[str]:
    """A few ids that begin so, the oldest first."""
    return _ids(connection, table, table.c.id.startswith(beginning, autoescape=True))


def whole_id(connection: Connection, table: Table, row_id: str) -> list[str]:
    """The id itself if its row exists: a look-up by equality uses the index on every database, a beginning may not."""
    return _ids(connection, table, table.c.id == row_id)


def ids_with_name(connection: Connection, table: Table, name: str) -> list[str]:
    """A few ids of rows with exactly this name, the oldest first."""
    return _ids(connection, table, table.c.name == name)


def _ids(connection: Connection, table: Table, condition: ColumnElement[bool]) -> list[str]:
    return list(connection.scalars(select(table.c.id).where(condition).order_by(table.c.id).limit(_AT_MOST)))
