"""Alembic's entry: it gets its connection from `redraft.storage.schema`, which also holds the lock."""

from alembic import context

from redraft.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=False,
)
context.run_migrations()
