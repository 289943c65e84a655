"""Alembic's entry point. `redraft.storage.engine.schema` calls it with a connection, and holds the lock of upgrades.

On PostgreSQL, each migration is a transaction, or several transactions if it builds indexes (`migrations/online.py`).
On SQLite, all migrations are one transaction, which the caller has begun.
"""

from alembic import context

from redraft.storage.engine import admin_tables, bulk_tables

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    # The set keeps the metadata once, because both modules add their tables to the same metadata
    target_metadata=[*{admin_tables.metadata, bulk_tables.metadata}],
    render_as_batch=True,
    transactional_ddl=connection.dialect.name == "postgresql",
    transaction_per_migration=True,
)
context.run_migrations()
