"""Alembic's entry: it gets its connection from `redraft.storage.engine.schema`, which also holds the lock.

On PostgreSQL each migration is a transaction, or several where it builds indexes (`migrations/online.py`); on SQLite
all of them are one, which the caller has begun.
"""

from alembic import context

from redraft.storage.engine import admin_tables, bulk_tables

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    # One collection, which both modules fill when they are imported
    target_metadata=[*{admin_tables.metadata, bulk_tables.metadata}],
    render_as_batch=True,
    transactional_ddl=connection.dialect.name == "postgresql",
    transaction_per_migration=True,
)
context.run_migrations()
