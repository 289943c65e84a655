"""Creates and drops indexes without blocking the statements of other processes."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op


def create_index(
    name: str,
    table: str,
    columns: Sequence[str | sa.TextClause],
    *,
    where: str | None = None,
    unique: bool = False,
    include: Sequence[str] = (),
) -> None:
    """Build an index on a table that may be large, while other processes read and write the table.

    On PostgreSQL, this commits the earlier changes of the migration. So it is the
    last or the only call of a migration. Only PostgreSQL has columns to `include`.
    """
    condition = None if where is None else sa.text(where)
    if op.get_bind().dialect.name != "postgresql":
        op.create_index(name, table, columns, unique=unique, sqlite_where=condition)
        return
    with op.get_context().autocommit_block():
        # An interrupted upgrade leaves an invalid index
        op.drop_index(name, table_name=table, if_exists=True, postgresql_concurrently=True)
        options: dict[str, Any] = {
            "postgresql_include": list(include),
            "postgresql_where": condition,
            "postgresql_concurrently": True,
        }
        op.create_index(name, table, columns, unique=unique, **options)


def drop_index(name: str, table: str) -> None:
    """Drop an index while other processes use its table. On PostgreSQL, this commits like `create_index`."""
    if op.get_bind().dialect.name != "postgresql":
        op.drop_index(name, table_name=table)
        return
    with op.get_context().autocommit_block():
        op.drop_index(name, table_name=table, if_exists=True, postgresql_concurrently=True)
