"""Changes of tables that are in use: without holding up those who use them."""

import sqlalchemy as sa
from alembic import op


def create_index(name: str, table: str, columns: list[str], *, where: str | None = None, unique: bool = False) -> None:
    """Build an index on a table that may be large, while it is read and written.

    On PostgreSQL this commits what the migration has done so far, so it stands last, or alone. A try that was broken
    off leaves an index that is not valid: it goes first.
    """
    condition = None if where is None else sa.text(where)
    if op.get_bind().dialect.name != "postgresql":
        op.create_index(name, table, columns, unique=unique, sqlite_where=condition)
        return
    with op.get_context().autocommit_block():
        op.drop_index(name, table_name=table, if_exists=True, postgresql_concurrently=True)
        op.create_index(name, table, columns, unique=unique, postgresql_where=condition, postgresql_concurrently=True)


def drop_index(name: str, table: str) -> None:
    """Drop an index while its table is read and written; on PostgreSQL this commits, as `create_index` does."""
    if op.get_bind().dialect.name != "postgresql":
        op.drop_index(name, table_name=table)
        return
    with op.get_context().autocommit_block():
        op.drop_index(name, table_name=table, if_exists=True, postgresql_concurrently=True)
